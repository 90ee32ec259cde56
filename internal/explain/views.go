package explain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of a list of jobs.
const (
	defaultList = 50
	maxList     = 1000

	maxListBytes = 16 << 20 // of bodies, not counting the last job
)

// Jobs lists jobs, newest first, without their steps and histories. If inputs and outputs
// are large, the list is shorter than requested (see maxListBytes): only an empty list
// means that there are no more jobs.
func (r *Reader) Jobs(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error) {
	f, err := r.jobFilter(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(q.Metadata) > 0 || q.Stuck > 0 {
		return r.sifted(ctx, q, f.Limit)
	}
	views := make([]pawl.JobView, 0, f.Limit)
	f.Bare = q.Summary
	_, err = r.list(ctx, f, func(j *pawl.Job) error {
		v, _, err := r.view(ctx, j)
		if err == nil {
			views = append(views, *v)
		}
		return err
	})
	return views, err
}

// sifted lists jobs of which no single query finds a given number.
func (r *Reader) sifted(ctx context.Context, q pawl.JobQuery, limit int) ([]pawl.JobView, error) {
	views := make([]pawl.JobView, 0, limit)
	for size := 0; ; {
		q.Limit = limit - len(views)
		page, next, err := r.JobPage(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			size += len(page[i].Inputs) + len(page[i].Output) + len(page[i].Metadata)
		}
		if views = append(views, page...); len(views) == limit || next == "" || size >= maxListBytes {
			return views, nil
		}
		q.Before = next
	}
}

// list calls f with the jobs of a list, page by page. It ends with the job whose bodies
// bring the total to maxListBytes, and returns its key, or 0 if that did not end it.
func (r *Reader) list(ctx context.Context, filter store.JobFilter, f func(*pawl.Job) error) (full rowkey.Job, err error) {
	for size, left := 0, filter.Limit; left > 0; {
		filter.Limit = left
		page, err := r.store.Jobs(ctx, filter)
		if err != nil || len(page) == 0 {
			return 0, err
		}
		for _, j := range page {
			if err := f(j); err != nil {
				return 0, err
			}
			size += len(j.Inputs) + len(j.Output) + len(j.Metadata)
		}
		left -= len(page)
		if filter.Before = page[len(page)-1].Key(); size >= maxListBytes {
			return filter.Before, nil
		}
	}
	return 0, nil
}

// recentPage is how many recent jobs are read at once.
const recentPage = 500

// RecentJobs calls f with the newest jobs of a workspace, newest first and without their
// inputs and outputs, until f returns false or has seen limit of them.
func (r *Reader) RecentJobs(ctx context.Context, workspace string, limit int, f func(*pawl.Job) (more bool)) error {
	filter := store.JobFilter{Workspace: workspace, Bare: true}
	for left := limit; left > 0; left -= filter.Limit {
		filter.Limit = min(left, recentPage)
		page, err := r.store.Jobs(ctx, filter)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, j := range page {
			if !f(j) {
				return nil
			}
		}
		filter.Before = page[len(page)-1].Key()
	}
	return nil
}

// Job returns a job with its steps and its own history.
func (r *Reader) Job(ctx context.Context, id pawl.ID) (*pawl.JobView, error) {
	w, err := r.store.WholeJob(ctx, id.JobKey())
	if errors.Is(err, store.ErrNotFound) || err == nil && w.Job.ID != id {
		return nil, store.NoJob(id)
	}
	if err != nil {
		return nil, err
	}
	def, err := r.defs.Get(ctx, w.Job.Definition)
	if err != nil {
		return nil, err
	}
	v, err := r.viewOf(ctx, w.Job, def, w.Counts)
	if err != nil {
		return nil, err
	}
	v.Sequence = w.Sequence
	for _, child := range slices.Backward(w.Children) {
		v.ChildJobs = append(v.ChildJobs, child.ID.Public(pawl.JobPrefix))
	}
	show := stepViews{reader: r, job: w.Job, def: def}
	pages := &stepPages{store: r.store, job: w.Job.Key(), page: w.Steps, all: w.HasAllSteps()}
	err = pages.each(ctx, func(s *pawl.Step, bare bool) {
		step := show.view(ctx, s)
		step.Omitted = bare
		v.Steps = append(v.Steps, step)
	})
	if err != nil {
		return nil, err
	}
	return v, r.ownHistory(ctx, w, v)
}

// ownHistory sets the moves of the job itself, and what its trail says is withheld.
func (r *Reader) ownHistory(ctx context.Context, w *store.WholeJob, v *pawl.JobView) (err error) {
	var own lastMoves
	by := &audit.Withheld{}
	note := func(entry *audit.Entry) error {
		by.Note(entry)
		own.add(ownMove(entry))
		return nil
	}
	after := int64(0)
	if w.HasAllSteps() { // else steps were read after these entries
		for i := range w.Entries {
			after = w.Entries[i].Sequence
			_ = note(&w.Entries[i]) // it does not fail
		}
	}
	if after == 0 || !w.HasAllEntries() {
		err = trail.EachEntryAfter(ctx, r.store, store.JobEntity(w.Job.Key()), after, note)
	}
	v.StateHistory, v.HistoryOmitted = own.list, own.omitted
	showWithheld(v, by)
	return err
}

// stepViews makes views of the steps of a job.
type stepViews struct {
	reader  *Reader
	job     *pawl.Job
	def     *workflow.Definition
	workers map[rowkey.Worker]string // the ids known so far; empty: it cannot be read
}

func (v *stepViews) view(ctx context.Context, s *pawl.Step) pawl.StepView {
	worker, known := v.workers[s.Worker]
	if !known && s.Worker != 0 {
		if w, err := v.reader.store.Worker(ctx, s.Worker); err == nil {
			worker = w.ID.Public(pawl.WorkerPrefix)
		}
		if v.workers == nil {
			v.workers = make(map[rowkey.Worker]string)
		}
		v.workers[s.Worker] = worker
	}
	return stepView(v.job, v.def, s, worker)
}

// ownMove returns a move of a job for its own view.
func ownMove(e *audit.Entry) pawl.Transition {
	t := pawl.TransitionOf(e)
	t.Entity = ""
	return t
}

// each calls f with the steps, by ord.
func (p *stepPages) each(ctx context.Context, f func(s *pawl.Step, bare bool)) error {
	for {
		s, err := p.next(ctx)
		if err != nil || s == nil {
			return err
		}
		f(s, p.bare)
	}
}

// stepPages reads the steps of a job, by ord, page by page. Once the bodies read so far
// reach maxListBytes, further pages are bare.
type stepPages struct {
	store Source
	job   rowkey.Job
	after pawl.Ord
	page  []*pawl.Step
	size  int
	bare  bool // whether the page is bare
	all   bool // whether no step is beyond the page
}

// next returns the next step, nil after the last one.
func (p *stepPages) next(ctx context.Context) (s *pawl.Step, err error) {
	if len(p.page) == 0 {
		if p.all {
			return nil, nil
		}
		read := p.store.Steps
		if p.bare = p.size >= maxListBytes; p.bare {
			read = p.store.Bare
		}
		if p.page, err = read(ctx, p.job, p.after, store.ListPage); err != nil || len(p.page) == 0 {
			return nil, err
		}
	}
	s, p.page = p.page[0], p.page[1:]
	p.after = s.Ord
	p.size += len(s.Input) + len(s.Output)
	return s, nil
}

// whole is view for callers that require the definition.
func (r *Reader) whole(ctx context.Context, j *pawl.Job) (*pawl.JobView, *workflow.Definition, error) {
	if _, err := r.defs.Get(ctx, j.Definition); err != nil {
		return nil, nil, err
	}
	return r.view(ctx, j)
}

// view returns a job as a list shows it, and its definition, which is nil if it cannot be
// read; that must not hide the other jobs of the list.
func (r *Reader) view(ctx context.Context, j *pawl.Job) (*pawl.JobView, *workflow.Definition, error) {
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil && !store.Unreadable(err) {
		return nil, nil, err
	}
	counts, err := r.store.StepCounts(ctx, j.Key())
	if err != nil {
		return nil, nil, err
	}
	v, err := r.viewOf(ctx, j, def, counts)
	return v, def, err
}

// viewOf returns a job with the counts of its steps. The definition may be nil.
func (r *Reader) viewOf(ctx context.Context, j *pawl.Job, def *workflow.Definition, counts map[machine.State]int) (*pawl.JobView, error) {
	v := &pawl.JobView{
		ID: j.ID.Public(pawl.JobPrefix), Workflow: j.Workflow, Version: j.Version,
		Workspace: j.Workspace, Description: j.Description, Status: j.State, Inputs: orObject(j.Inputs), Output: decide.OrNull(j.Output),
		ChildJobs: []string{}, Depth: j.Depth, WorkerCount: j.WorkerCount, Paused: j.Paused,
		Metadata: orObject(j.Metadata), StepCounts: counts,
		CreatedAt: pawl.Timestamp(j.CreatedAt), UpdatedAt: pawl.Timestamp(j.UpdatedAt),
		StartedAt: pawl.Timestamp(j.StartedAt), CompletedAt: pawl.Timestamp(j.CompletedAt),
	}
	v.Redacted = j.Inputs == nil && lifecycle.Job.Ended(j.State) // a list does not read the trail
	if def != nil {
		hash := def.Hash()
		v.DefinitionHash = "sha256:" + hex.EncodeToString(hash[:])
	}
	if !lifecycle.Job.Ended(j.State) {
		v.Ending = j.Ending
	}
	if j.Ending != "" && j.Ending != lifecycle.JobCompleted {
		v.Error = j.Error
	}
	return v, r.family(ctx, j, v)
}

// family sets the jobs related to a job.
func (r *Reader) family(ctx context.Context, j *pawl.Job, v *pawl.JobView) error {
	for _, other := range []struct {
		key  rowkey.Job
		name **string
	}{{j.Parent, &v.ParentJobID}, {j.Continues, &v.Continues}} {
		if other.key == 0 {
			continue
		}
		jobs, err := r.store.Jobs(ctx, store.JobFilter{Keys: []rowkey.Job{other.key}, Bare: true})
		if err != nil {
			return err
		}
		for _, job := range jobs { // none if it was removed
			id := job.ID.Public(pawl.JobPrefix)
			*other.name = &id
		}
	}
	return nil
}

func orObject(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("{}")
	}
	return b
}

func stepView(j *pawl.Job, def *workflow.Definition, s *pawl.Step, worker string) pawl.StepView {
	v := pawl.StepView{
		ID: j.ID.Step(s.Ord).Public(pawl.StepPrefix), Key: def.Key(s.Ord), Status: s.State, Hook: string(def.Node(s.Ord.Node()).Hook), Attempts: s.Attempts, Claims: s.Claims,
		Output: decide.OrNull(s.Output), StartedAt: pawl.Timestamp(s.StartedAt), CompletedAt: pawl.Timestamp(s.CompletedAt), Ord: s.Ord,
	}
	if s.State != lifecycle.StepComplete {
		v.Error = s.Error
	}
	if worker != "" {
		v.WorkerID = &worker
	}
	if s.Total > 0 {
		v.Instances = &pawl.Instances{Total: s.Total, Made: s.Made, Live: s.Live}
	}
	if def.Node(s.Ord.Node()).Kind.Waits() && len(s.Input) > 0 && s.Total == 0 {
		v.Wait = new(pawl.Wait)
		if json.Unmarshal(s.Input, v.Wait) != nil {
			v.Wait = nil
		}
	}
	if s.State == lifecycle.StepPending && s.DueEvent == lifecycle.StepEnqueue {
		v.NotBefore = pawl.Timestamp(s.DueAt)
	}
	return v
}

// Logs calls f with what the steps of a job printed, in order; if step is not empty, only
// of the step with that key. It ends with the first error of f. It reads pages, so f may be
// slow; output printed meanwhile may or may not be included.
func (r *Reader) Logs(ctx context.Context, id pawl.ID, step string, f func(pawl.LogLine) error) error {
	return r.logs(ctx, id, step, store.LogPlace{}, func(l pawl.LogLine, _ store.LogPlace) error { return f(l) })
}

// logs is Logs behind a place, and passes the place of each piece.
func (r *Reader) logs(ctx context.Context, id pawl.ID, step string, after store.LogPlace, f func(pawl.LogLine, store.LogPlace) error) error {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return err
	}
	ord := pawl.Ord(0)
	if step != "" {
		if ord, err = def.OrdOf(step); err != nil {
			return err
		}
	}
	for {
		chunks, err := r.store.Logs(ctx, j.Key(), ord, after, logPage)
		if err != nil || len(chunks) == 0 {
			return err
		}
		for i := range chunks {
			c := &chunks[i]
			after = store.PlaceOf(c)
			l := pawl.LogLine{Step: def.Key(c.Ord), Claim: c.Claim, Stream: c.Stream, At: pawl.Timestamp(c.At), Offset: c.Offset, Text: string(c.Data)}
			if err := f(l, after); err != nil {
				return err
			}
		}
	}
}

// logPage is how many chunks of a log are read at once.
const logPage = 500

// Definition returns the definition that a job is pinned to.
func (r *Reader) Definition(ctx context.Context, id pawl.ID) (*workflow.Definition, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	return r.defs.Get(ctx, j.Definition)
}

// showWithheld adds to a view what was withheld, in the place of errors too.
func showWithheld(v *pawl.JobView, by *audit.Withheld) {
	if by.None() {
		return
	}
	v.Redacted = by.Job()
	if v.Error == nil && (v.Status == lifecycle.JobFailed || v.Redacted && v.Status == lifecycle.JobCanceled) {
		v.Error = pawl.Redacted()
	}
	showWithheldSteps(v.Steps, by)
}

func showWithheldSteps(steps []pawl.StepView, by *audit.Withheld) {
	for i := range steps {
		s := &steps[i]
		if s.Redacted = by.Step(int64(s.Ord)); s.Redacted && s.Error == nil && s.Status == lifecycle.StepPermanentError {
			s.Error = pawl.Redacted()
		}
	}
}
