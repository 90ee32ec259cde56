package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An effect is what a script did, as it says itself.
type effect struct {
	job, step string
	claim     int
}

// An outcome is what the database knows of a run that is over.
type outcome struct {
	records map[rowkey.Job]*pawl.Job
	steps   map[pawl.StepKey]*pawl.Step
	trails  map[pawl.StepKey][]audit.Entry // of steps; of jobs at ord 0
	effects map[effect]int
	byJob   map[rowkey.Job][]*pawl.Step
	tables  []*table
}

// check holds what came of a run against what it should have come to.
func (r *run) check(ctx context.Context) error {
	o, err := r.outcome(ctx)
	if err != nil {
		return err
	}
	errs := []error{r.checkJobs(o), r.checkRest(ctx, o), r.checkLimits(o), r.checkTimes(o), r.checkTimetables(o), r.verify(ctx)}
	for _, s := range o.steps {
		errs = append(errs, o.checkStep(s))
	}
	errs = append(errs, o.checkEffects())
	for _, j := range o.records {
		errs = append(errs, r.checkRefused(ctx, j))
	}
	r.report.Jobs = len(o.records)
	for _, n := range o.effects {
		r.report.Effects += n
	}
	return errors.Join(errs...)
}

// checkRefused checks that late results are there to be seen (T5).
func (r *run) checkRefused(ctx context.Context, j *pawl.Job) error {
	refused, err := r.store.Refused(ctx, j.Key())
	if err != nil || refused == 0 {
		return err
	}
	r.report.Refused += int(refused)
	shown := int64(0)
	err = r.engine.History(ctx, j.ID, func(t pawl.Transition) error {
		if t.Refused {
			shown++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if shown != refused {
		return fmt.Errorf("job %s: %d late results were refused, and its history shows %d", j.ID.Public(pawl.JobPrefix), refused, shown)
	}
	return nil
}

func (r *run) outcome(ctx context.Context) (*outcome, error) {
	o := &outcome{records: map[rowkey.Job]*pawl.Job{}, steps: map[pawl.StepKey]*pawl.Step{}, trails: map[pawl.StepKey][]audit.Entry{}, byJob: map[rowkey.Job][]*pawl.Step{}}
	jobs, err := r.store.Jobs(ctx, store.JobFilter{})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		o.records[j.Key()] = j
		if o.byJob[j.Key()], err = r.store.Steps(ctx, j.Key(), 0, 0); err != nil {
			return nil, err
		}
		for _, s := range o.byJob[j.Key()] {
			o.steps[s.StepKey] = s
			r.report.Claims += s.Claims
			r.report.Losses += s.Losses
		}
	}
	if err := r.countHolders(ctx, o); err != nil {
		return nil, err
	}
	o.tables, err = r.tables(ctx)
	if err != nil {
		return nil, err
	}
	err = r.store.Trails(ctx, 0, func(t store.TrailOf) error {
		if t.Kind == lifecycle.Step.Name || t.Kind == lifecycle.Job.Name {
			o.trails[t.StepKey] = t.Entries
		}
		if t.Kind == lifecycle.Worker.Name && strings.HasPrefix(t.Entries[len(t.Entries)-1].Reason, "silent") {
			r.report.Silent++
		}
		return nil
	})
	if err == nil {
		o.effects, err = readEffects(filepath.Join(r.dir, "effects"))
	}
	return o, err
}

// countHolders counts the steps by the kind of process that had them last.
func (r *run) countHolders(ctx context.Context, o *outcome) error {
	workers, err := r.store.Workers(ctx, store.WorkerFilter{})
	if err != nil {
		return err
	}
	kinds := map[rowkey.Worker]string{}
	for _, w := range workers {
		kinds[w.Key()] = strings.TrimRight(w.Name, "0123456789")
	}
	for _, s := range o.steps {
		if kind := kinds[s.Worker]; kind != "" {
			r.report.Holders[kind]++
		}
	}
	return nil
}

func readEffects(path string) (map[effect]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	effects := map[effect]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q is not job, step and claim", path, line)
		}
		claim, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, err
		}
		effects[effect{f[0], f[1], claim}]++
	}
	return effects, nil
}

// checkJobs checks that every submission made one job, and that each ended as it
// should.
func (r *run) checkJobs(o *outcome) error {
	var errs []error
	known := map[rowkey.Job]bool{}
	for _, j := range r.jobs {
		known[j.id.JobKey()] = true
		record := o.records[j.id.JobKey()]
		if record == nil {
			errs = append(errs, fmt.Errorf("job %s (%s) was acknowledged and is not there", j.id.Public(pawl.JobPrefix), j.shape.name))
			continue
		}
		if err := r.checkJob(o, j, record); err != nil {
			errs = append(errs, fmt.Errorf("job %s (%s): %w", j.id.Public(pawl.JobPrefix), j.shape.name, err))
		}
	}
	for key, record := range o.records {
		if record.Parent == 0 && record.Schedule == 0 && !known[key] {
			errs = append(errs, fmt.Errorf("job %s (%s) was made and nobody was told", record.ID.Public(pawl.JobPrefix), record.Workflow))
		}
	}
	return errors.Join(errs...)
}

func (r *run) checkJob(o *outcome, j *job, record *pawl.Job) error {
	switch {
	case j.canceled && record.State == lifecycle.JobCanceled:
		return nil
	case record.State == lifecycle.JobFailed && j.shape.ends != lifecycle.JobFailed && o.givenUp(record.Key()):
		r.report.GivenUp++ // its workers died too often (T7)
		return nil
	case record.State != j.shape.ends:
		return fmt.Errorf("it is %s, want %s: %v", record.State, j.shape.ends, record.Error)
	case record.State == lifecycle.JobCompleted && j.shape.output != "" && string(record.Output) != j.shape.output:
		return fmt.Errorf("output %s, want %s", record.Output, j.shape.output)
	}
	return nil
}

// givenUp reports whether a step of the job, or of one below, lost its worker so
// often that it was not tried again.
func (o *outcome) givenUp(key rowkey.Job) bool {
	for _, s := range o.byJob[key] {
		if s.Losses >= decide.MaxLosses {
			return true
		}
	}
	for _, j := range o.records {
		if j.Parent == key && o.givenUp(j.Key()) {
			return true
		}
	}
	return false
}

// checkStep holds a step against its trail and what it did outside.
func (o *outcome) checkStep(s *pawl.Step) error {
	claims := 0
	for _, e := range o.trails[s.StepKey] {
		if e.Event == lifecycle.StepClaim {
			claims++
		}
	}
	switch {
	case !over(s.State):
		return fmt.Errorf("step %s is %s, though its job has ended", s.StepKey, s.State)
	case claims != s.Claims:
		return fmt.Errorf("step %s has claim number %d, and %d claims in its trail", s.StepKey, s.Claims, claims)
	}
	job := o.records[s.Job]
	if job == nil {
		return fmt.Errorf("step %s has no job", s.StepKey)
	}
	last := effect{job.ID.Public(pawl.JobPrefix), job.ID.Step(s.Ord).Public(pawl.StepPrefix), s.Claims}
	ran := s.State == lifecycle.StepComplete && s.Worker != 0 && job.Continues == 0 // one that continues takes over what was done
	if ran && o.effects[last] == 0 {
		return fmt.Errorf("step %s is complete by claim %d, which had no effect", last.step, s.Claims)
	}
	return nil
}

// checkEffects checks that nothing was done twice under one claim, nor under a
// claim that nobody made.
func (o *outcome) checkEffects() error {
	claims := map[[2]string]int{}
	for _, s := range o.steps {
		if job := o.records[s.Job]; job != nil {
			claims[[2]string{job.ID.Public(pawl.JobPrefix), job.ID.Step(s.Ord).Public(pawl.StepPrefix)}] = s.Claims
		}
	}
	errs := []error{doubled(o.effects)}
	for e := range o.effects {
		if most, ok := claims[[2]string{e.job, e.step}]; !ok || e.claim > most {
			errs = append(errs, fmt.Errorf("step %s had an effect under claim %d, which was not made", e.step, e.claim))
		}
	}
	return errors.Join(errs...)
}

// doubled names the effects that one claim had more than once.
func doubled(effects map[effect]int) error {
	var errs []error
	for e, n := range effects {
		if n > 1 {
			errs = append(errs, fmt.Errorf("step %s had its effect %d times under claim %d", e.step, n, e.claim))
		}
	}
	return errors.Join(errs...)
}

// checkRest checks that nothing is left over: no slot taken, no step in flight,
// no mark.
func (r *run) checkRest(ctx context.Context, o *outcome) error {
	var errs []error
	quotas, err := r.engine.Quotas(ctx, pawl.DefaultWorkspace)
	errs = append(errs, err)
	for _, q := range quotas {
		if q.Used != 0 {
			errs = append(errs, fmt.Errorf("quota %s: %d slots are taken, and nothing runs", q.Name, q.Used))
		}
	}
	enqueued, running, err := r.store.InFlight(ctx)
	if errs = append(errs, err); len(enqueued)+len(running) > 0 {
		errs = append(errs, fmt.Errorf("steps are in flight, and no job: enqueued %v, running %v", enqueued, running))
	}
	agenda, err := r.store.Look(ctx, store.LookQuery{Limit: 100, Living: true})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if len(agenda.Marked)+len(agenda.Due)+len(agenda.Pending)+len(agenda.Living.Ended) > 0 {
		errs = append(errs, fmt.Errorf("something is left to be done: %+v", agenda))
	}
	return errors.Join(errs...)
}

// checkLimits checks by the trails that no more ran at once than might.
func (r *run) checkLimits(o *outcome) error {
	var errs []error
	byKey := map[int][]span{}
	for _, j := range r.jobs {
		if record := o.records[j.id.JobKey()]; record != nil && j.shape.name == "keyed" && record.StartedAt != 0 {
			byKey[j.key] = append(byKey[j.key], r.spans(span{record.StartedAt, record.CompletedAt})...)
		}
	}
	for key, spans := range byKey {
		if n := most(spans); n > 1 {
			errs = append(errs, fmt.Errorf("%d jobs of concurrency key k%d ran at once", n, key))
		}
	}
	var inNarrow []span
	for k, s := range o.steps {
		if s.Pool != 0 && o.records[k.Job] != nil {
			inNarrow = append(inNarrow, progress(r.database.clock(), o.trails[k])...)
		}
	}
	if n := most(inNarrow); n > narrowSlots {
		errs = append(errs, fmt.Errorf("%d steps of queue %s were in progress at once, and its quota is %d", n, narrow, narrowSlots))
	}
	return errors.Join(errs...)
}

// A span is from one moment to another, in microseconds.
type span struct{ from, to int64 }

// progress returns when a step was in progress. Those spans are left out of which a
// clock that was set back cannot tell.
func progress(clock *host, trail []audit.Entry) (spans []span) {
	var since, before int64
	var inside, sure bool
	for _, e := range trail {
		at, told := clock.moment(e.At, before)
		before = e.At
		if in := e.To == lifecycle.StepInProgress; in != inside {
			if inside && sure && told {
				spans = append(spans, span{since, at})
			}
			inside, since, sure = in, at, told
		}
	}
	return spans
}

// most returns how many of the spans overlap at once, at most.
func most(spans []span) int {
	type edge struct {
		at   int64
		step int
	}
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	now, top := 0, 0
	for _, e := range edges {
		now += e.step
		top = max(top, now)
	}
	return top
}

// verify has the binary check the trail.
func (r *run) verify(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, r.config.binary, "--database", r.database.direct(), "audit", "verify").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pawl audit verify: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
