package postgres

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Most moves change few columns of a record that this very transaction has read.
// They are written by lean statements: only the columns that such moves change,
// and found by the place of the row, without an index. That costs the server
// about half. Every other change goes by key, with all columns.

// A place is where a row was when it was read: its ctid. Whoever changes the row
// moves it, so a place that is outdated finds nothing, or a row of another key or
// version, and the change is stale.
type place [6]byte

var (
	jobLean = join(recordColumns, columns("bigint mark, text ending, bigint open, bigint blocked, bigint active, bigint started_at, bigint completed_at"))
	// Of a step that is enqueued and claimed, and of one that ends.
	stepTaken = join(recordColumns, columns("bigint mark, bigint unmet, bigint attempts, bigint claims, bigint worker, bigint route, bigint rank, bigint enqueued_at, bigint started_at"))
	stepEnded = join(recordColumns, columns("bigint mark, bigint completed_at"))

	stepMoves = join(stepTaken, columns("bigint completed_at"))

	outputColumn = columns("text output")
	jobPlace     = columns("tid place, bigint id, bigint was")
	stepPlace    = columns("tid place, bigint job, bigint ord, bigint was")

	moveJobs  = &statement{"move_jobs", narrow("job", jobPlace, jobLean, outputColumn)}
	takeSteps = &statement{"take_steps", narrow("step", stepPlace, stepTaken, nil)}
	moveSteps = &statement{"move_steps", narrow("step", stepPlace, stepMoves, outputColumn)} // both
	endSteps  = &statement{"end_steps", narrow("step", stepPlace, stepEnded, outputColumn)}
)

// narrow writes columns of the rows at places, which are still what key and was say.
func narrow(table string, where, moving, bodies []column) string {
	all := join(where, moving, bodies)
	match := []string{"t.ctid = u.place"}
	for _, c := range where[1 : len(where)-1] {
		match = append(match, fmt.Sprintf("t.%s = u.%s", c.name, c.name))
	}
	return exactly(len(all)+1, fmt.Sprintf("update %s t set %s from %s u where %s and t.seq = u.was",
		table, assign(moving, bodies), given(all), strings.Join(match, " and ")))
}

// A foundJob is what a lean statement does not write, as it was read; of steps
// likewise.
type foundJob struct {
	place place
	rest  jobRest
}

type jobRest struct {
	definition, route, rank, pool, quota int64
	version, workers, priority           int
	paused                               bool
	hooks                                pawl.HookPhase
}

func restOfJob(j *pawl.Job) jobRest {
	return jobRest{
		definition: j.Definition, route: j.Route, rank: j.Rank, pool: j.Pool, quota: j.Quota,
		version: j.Version, workers: j.WorkerCount, priority: j.Priority, paused: j.Paused, hooks: j.Hooks,
	}
}

type foundStep struct {
	place place
	taken stepTakes
	rest  stepRest
	ended int64 // completed_at
}

// stepTakes is what changes when a step is taken, and stays when it ends.
type stepTakes struct {
	unmet, attempts, claims                    int
	worker, route, rank, enqueuedAt, startedAt int64
}

type stepRest struct {
	skipped                             bool
	losses, priority, total, made, live int
	pool                                int64
}

func takesOf(s *pawl.Step) stepTakes {
	return stepTakes{
		unmet: s.Unmet, attempts: s.Attempts, claims: s.Claims, worker: s.Worker, route: s.Route, rank: s.Rank,
		enqueuedAt: s.EnqueuedAt, startedAt: s.StartedAt,
	}
}

func restOfStep(s *pawl.Step) stepRest {
	return stepRest{skipped: s.Skipped, losses: s.Losses, priority: s.Priority, total: s.Total, made: s.Made, live: s.Live, pool: s.Pool}
}

// foundJob reads a job and its place.
func (r *reading) foundJob(c *cursor) *pawl.Job {
	j := c.job()
	r.jobs[j.Key()] = foundJob{place: c.place(), rest: restOfJob(j)}
	return j
}

func (r *reading) foundStep(c *cursor) *pawl.Step {
	s := c.step()
	r.steps[s.StepKey] = foundStep{place: c.place(), taken: takesOf(s), rest: restOfStep(s), ended: s.CompletedAt}
	return s
}

// moveJobs writes the lean updates of jobs, and answers the others.
func (w *writing) moveJobs(f *reading, updates []store.Update[*pawl.Job]) (others []store.Update[*pawl.Job]) {
	lean := collect(join(jobPlace, jobLean, outputColumn), len(updates))
	for _, u := range updates {
		j := f.changed(u.Record)
		found, ok := f.jobs[j.Key()]
		if !ok || found.rest != restOfJob(j) || j.Inputs != nil || j.Metadata != nil || j.Error != nil {
			others = append(others, u)
			continue
		}
		lean.blob(found.place[:])
		lean.num(j.Key())
		lean.num(u.Was)
		lean.record(&j.Record)
		lean.num(int64(j.Mark))
		lean.text(string(j.Ending))
		lean.num(int64(j.Open))
		lean.num(int64(j.Blocked))
		lean.num(int64(j.Active))
		lean.num(j.StartedAt)
		lean.num(j.CompletedAt)
		lean.body(j.Output)
	}
	w.updateAny(moveJobs, lean)
	return others
}

// few steps are written by one statement, though it has more columns: what a
// statement costs by itself is as much as many columns.
const fewSteps = 16

// moveSteps writes the lean updates of steps, and answers the others.
func (w *writing) moveSteps(f *reading, updates []store.Update[*pawl.Step]) (others []store.Update[*pawl.Step]) {
	taken := collect(join(stepPlace, stepTaken), len(updates))
	ended := collect(join(stepPlace, stepEnded, outputColumn), len(updates))
	moved := collect(join(stepPlace, stepMoves, outputColumn), min(len(updates), fewSteps))
	for _, u := range updates {
		s := u.Record
		found, ok := f.steps[s.StepKey]
		switch {
		case !ok || found.rest != restOfStep(s) || s.Input != nil || s.Error != nil:
			others = append(others, u)
		case len(updates) <= fewSteps:
			moved.stepAt(found.place, u)
			moved.stepTakes(s)
			moved.num(s.CompletedAt)
			moved.body(s.Output)
		case found.taken == takesOf(s):
			ended.stepAt(found.place, u)
			ended.num(s.CompletedAt)
			ended.body(s.Output)
		case found.ended == s.CompletedAt && s.Output == nil:
			taken.stepAt(found.place, u)
			taken.stepTakes(s)
		default:
			others = append(others, u)
		}
	}
	w.updateAny(takeSteps, taken)
	w.updateAny(endSteps, ended)
	w.updateAny(moveSteps, moved)
	return others
}

func (r *rows) stepTakes(s *pawl.Step) {
	r.num(int64(s.Unmet))
	r.num(int64(s.Attempts))
	r.num(int64(s.Claims))
	r.num(s.Worker)
	r.num(s.Route)
	r.num(s.Rank)
	r.num(s.EnqueuedAt)
	r.num(s.StartedAt)
}

// stepAt writes what all lean updates of steps begin with.
func (r *rows) stepAt(p place, u store.Update[*pawl.Step]) {
	r.blob(p[:])
	r.num(u.Record.Job)
	r.num(int64(u.Record.Ord))
	r.num(u.Was)
	r.record(&u.Record.Record)
	r.num(int64(u.Record.Mark))
}

// updateAny queues an update unless there are no rows for it.
func (w *writing) updateAny(s *statement, r *rows) {
	if r.len() > 0 {
		w.update(s, r, r.len())
	}
}
