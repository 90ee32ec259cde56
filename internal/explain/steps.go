package explain

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// StepPage lists steps of a job, in the order of the workflow. It looks at no more than
// maxRows of them, and ends with the step that brings the bodies to maxListBytes, so that a
// page may be short, or empty, though there are more. next is the After of the next page,
// empty after the last one.
func (r *Reader) StepPage(ctx context.Context, id pawl.ID, q pawl.StepQuery) (steps []pawl.StepView, next string, err error) {
	most, err := limit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, "", err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, "", err
	}
	f, err := stepFilter(j, def, q)
	if err != nil {
		return nil, "", err
	}
	f.Limit = most + 1 // shows whether there is another page
	ords, end, err := r.store.StepOrds(ctx, f, maxRows)
	if err != nil {
		return nil, "", err
	}
	if len(ords) > most {
		ords, end = ords[:most], ords[most-1]
	}
	keys := make([]pawl.StepKey, len(ords))
	for i, ord := range ords {
		keys[i] = pawl.StepKey{Job: j.Key(), Ord: ord}
	}
	read := r.stepsAt
	if q.Summary {
		read = r.bareAt
	}
	found, full, err := read(ctx, keys)
	if err != nil {
		return nil, "", err
	}
	if full != nil && full.Ord != ords[len(ords)-1] {
		end = full.Ord
	}
	if end != 0 {
		next = j.ID.Step(end).Public(pawl.StepPrefix)
	}
	if len(q.Statuses) > 0 { // some may have moved meanwhile
		found = slices.DeleteFunc(found, func(s *pawl.Step) bool { return !slices.Contains(q.Statuses, s.State) })
	}
	if q.Summary {
		show := stepViews{reader: r, job: j, def: def}
		for _, s := range found {
			v := show.view(ctx, s)
			v.Omitted = true
			steps = append(steps, v)
		}
		return steps, next, nil
	}
	steps, err = r.stepViews(ctx, j, def, found)
	return steps, next, err
}

// bareAt is stepsAt without bodies: nothing ends it.
func (r *Reader) bareAt(ctx context.Context, keys []pawl.StepKey) (steps []*pawl.Step, full *pawl.Step, err error) {
	for len(keys) > 0 {
		page, err := r.store.Bare(ctx, keys[0].Job, keys[0].Ord-1, len(keys))
		if err != nil || len(page) == 0 {
			return steps, nil, err
		}
		for _, s := range page {
			for len(keys) > 0 && keys[0].Ord < s.Ord {
				keys = keys[1:] // it does not exist
			}
			if len(keys) > 0 && keys[0].Ord == s.Ord {
				steps, keys = append(steps, s), keys[1:]
			}
		}
	}
	return steps, nil, nil
}

// PastSteps is StepPage for a moment: a page of the steps of Past.
func (r *Reader) PastSteps(ctx context.Context, id pawl.ID, at pawl.Moment, q pawl.StepQuery) (steps []pawl.StepView, next string, err error) {
	most, err := limit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	v, err := r.pastOf(ctx, id, at, q.Summary)
	if err != nil {
		return nil, "", err
	}
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, "", err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, "", err
	}
	f, err := stepFilter(j, def, q)
	if err != nil {
		return nil, "", err
	}
	for i := range v.Steps {
		s := &v.Steps[i]
		if s.Ord <= f.After || f.Through != 0 && s.Ord > f.Through || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, s.Status) {
			continue
		}
		if len(steps) == most {
			return steps, steps[most-1].ID, nil
		}
		steps = append(steps, *s)
	}
	return steps, "", nil
}

// stepFilter returns the filter of a query for steps of a job.
func stepFilter(j *pawl.Job, def *workflow.Definition, q pawl.StepQuery) (store.StepFilter, error) {
	f := store.StepFilter{Job: j.Key(), States: q.Statuses}
	if q.After != "" {
		id, err := pawl.ParseID(pawl.StepPrefix, q.After)
		if err != nil {
			return f, err
		}
		k := id.StepKey()
		if k.Job != j.Key() {
			return f, pawl.Errorf(pawl.Invalid, "after %s: it is no step of job %s", q.After, j.ID.Public(pawl.JobPrefix))
		}
		f.After = k.Ord
	}
	within := func(first, last pawl.Ord) {
		f.After = max(f.After, first-1)
		if f.Through == 0 || last < f.Through {
			f.Through = last
		}
	}
	if q.Node != "" {
		n := def.NodeByID(q.Node)
		if n == 0 {
			return f, pawl.Errorf(pawl.NotFound, "workflow %s has no step %q", def.Name, q.Node)
		}
		within(pawl.MakeOrd(n, 0), pawl.MakeOrd(n, pawl.MaxInstances))
	}
	if q.Key != "" {
		ord, err := def.OrdOf(q.Key)
		if err != nil {
			return f, err
		}
		within(ord, ord)
	}
	return f, nil
}

// stepsAt reads steps by their keys, which are in order, page by page. It ends with the step
// that brings the bodies to maxListBytes, and returns it, or nil if that did not end it.
func (r *Reader) stepsAt(ctx context.Context, keys []pawl.StepKey) (steps []*pawl.Step, full *pawl.Step, err error) {
	for size := 0; len(keys) > 0; {
		page, err := r.store.StepsAt(ctx, keys)
		if err != nil || len(page) == 0 {
			return steps, nil, err
		}
		for _, s := range page {
			size += len(s.Input) + len(s.Output)
		}
		steps = append(steps, page...)
		last := page[len(page)-1]
		if size >= maxListBytes {
			return steps, last, nil
		}
		n, there := slices.BinarySearchFunc(keys, last.StepKey, pawl.StepKey.Compare)
		if there {
			n++
		}
		keys = keys[n:]
	}
	return steps, nil, nil
}

// stepViews returns steps of a job as a list shows them. The trail of the job is read only
// if something may have been withheld.
func (r *Reader) stepViews(ctx context.Context, j *pawl.Job, def *workflow.Definition, steps []*pawl.Step) ([]pawl.StepView, error) {
	show := stepViews{reader: r, job: j, def: def}
	views := make([]pawl.StepView, 0, len(steps))
	for _, s := range steps {
		views = append(views, show.view(ctx, s))
	}
	bare := func(s *pawl.Step) bool { return s.Output == nil && lifecycle.Step.Ended(s.State) }
	if !slices.ContainsFunc(steps, bare) {
		return views, nil
	}
	by, err := trail.WithheldOf(ctx, r.store, j.Key())
	showWithheldSteps(views, by)
	return views, err
}

// Step returns a step by its public id, with its job and the workspace of that.
func (r *Reader) Step(ctx context.Context, id pawl.ID) (s *pawl.StepView, job pawl.ID, workspace string, err error) {
	j, err := r.jobOf(ctx, id)
	if err != nil {
		return nil, job, "", err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, job, "", err
	}
	steps, err := r.store.StepsAt(ctx, []pawl.StepKey{id.StepKey()})
	if err == nil && len(steps) == 0 {
		err = store.NoStep(id)
	}
	if err != nil {
		return nil, job, "", err
	}
	views, err := r.stepViews(ctx, j, def, steps)
	if err != nil {
		return nil, job, "", err
	}
	return &views[0], j.ID, j.Workspace, nil
}

// StepHistory calls f with the moves of one step in order of time, and with the facts about
// it that were refused. It ends with the first error of f.
func (r *Reader) StepHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	j, err := r.jobOf(ctx, id)
	if err != nil {
		return err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return err
	}
	k := id.StepKey()
	if steps, err := r.store.Bare(ctx, k.Job, k.Ord-1, 1); err != nil {
		return err
	} else if len(steps) == 0 || steps[0].Ord != k.Ord {
		return store.NoStep(id)
	}
	h := newHistory(r.store, j, def, f)
	h.only = k.Ord
	err = trail.EachEntry(ctx, r.store, store.StepEntity(k), func(e *audit.Entry) error {
		return h.entry(ctx, &store.Entry{EntityKey: store.StepEntity(k), Entry: *e})
	})
	if err != nil {
		return err
	}
	return h.refused(ctx, 0)
}

// jobOf reads the job of a step. The error is of kind NotFound if there is none.
func (r *Reader) jobOf(ctx context.Context, step pawl.ID) (*pawl.Job, error) {
	k := step.StepKey()
	if k.Ord.Node() == 0 {
		return nil, store.NoStep(step)
	}
	j, err := r.store.Job(ctx, k.Job)
	if errors.Is(err, store.ErrNotFound) || err == nil && j.ID.Step(k.Ord) != step {
		return nil, store.NoStep(step)
	}
	return j, err
}
