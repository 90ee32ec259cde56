package sqlite

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/machine"
)

// Most moves change few columns of a record that this very process knows. They
// are written by lean statements, which name those columns alone: SQLite then
// leaves the indexes and the conditions of the others as they are. Every other
// change is written with all columns.

// A jobMove is what a lean statement of jobs writes beside the counts.
type jobMove struct {
	state                                  machine.State
	head                                   audit.Hash
	seq, updatedAt, startedAt, completedAt int64
}

// A jobRest is what no lean statement of jobs writes.
type jobRest struct {
	dueAt, definition, route, rank, pool, quota int64
	version, workers, priority                  int
	dueEvent                                    machine.Event
	ending                                      machine.State
	paused                                      bool
	mark                                        pawl.Mark
	hooks                                       pawl.HookPhase
}

func moveOfJob(j *pawl.Job) jobMove {
	return jobMove{state: j.State, head: j.Head, seq: j.Seq, updatedAt: j.UpdatedAt, startedAt: j.StartedAt, completedAt: j.CompletedAt}
}

func restOfJob(j *pawl.Job) jobRest {
	return jobRest{
		dueAt: j.DueAt, dueEvent: j.DueEvent, definition: j.Definition, route: j.Route, rank: j.Rank, pool: j.Pool, quota: j.Quota,
		version: j.Version, workers: j.WorkerCount, priority: j.Priority, ending: j.Ending, paused: j.Paused, mark: j.Mark, hooks: j.Hooks,
	}
}

// jobUpdate answers the statement that writes j, and what binds its columns.
func (k *rowCache) jobUpdate(j *pawl.Job, failure []byte) (statement, func(*row)) {
	known := k.jobs[j.Key()]
	lean := known != nil && restOfJob(&known.job) == restOfJob(j) && j.Inputs == nil && failure == nil && j.Metadata == nil
	switch {
	case lean && j.Output == nil && moveOfJob(&known.job) == moveOfJob(j):
		return updateJobCounts, func(r *row) { r.jobCounts(j) }
	case lean && j.Output == nil:
		return updateJobMove, func(r *row) { r.jobMove(j) }
	case lean:
		return updateJobEnd, func(r *row) { r.jobMove(j); r.body(j.Output) }
	case j.Inputs != nil || j.Output != nil || failure != nil || j.Metadata != nil:
		return updateJobBodies, func(r *row) { r.jobLive(j); r.bodies(j.Inputs, j.Output, failure, j.Metadata) }
	}
	return updateJob, func(r *row) { r.jobLive(j) }
}

func (r *row) jobCounts(j *pawl.Job) { r.ints(int64(j.Open), int64(j.Blocked), int64(j.Active)) }

func (r *row) jobMove(j *pawl.Job) {
	r.jobCounts(j)
	r.move(&j.Record)
	r.ints(j.StartedAt, j.CompletedAt)
}

func (r *row) move(v *pawl.Record) {
	r.text(string(v.State))
	r.int(v.Seq)
	r.blob(v.Head[:])
	r.int(v.UpdatedAt)
}

// A stepTake is what changes when a step is taken, and stays when it ends.
type stepTake struct {
	unmet, attempts, claims                    int
	worker, route, rank, enqueuedAt, startedAt int64
}

// A stepRest is what no lean statement of steps writes.
type stepRest struct {
	dueAt, pool                         int64
	dueEvent                            machine.Event
	mark                                pawl.Mark
	skipped                             bool
	losses, priority, total, made, live int
}

func takeOfStep(s *pawl.Step) stepTake {
	return stepTake{
		unmet: s.Unmet, attempts: s.Attempts, claims: s.Claims, worker: s.Worker, route: s.Route, rank: s.Rank,
		enqueuedAt: s.EnqueuedAt, startedAt: s.StartedAt,
	}
}

func restOfStep(s *pawl.Step) stepRest {
	return stepRest{
		dueAt: s.DueAt, dueEvent: s.DueEvent, pool: s.Pool, mark: s.Mark, skipped: s.Skipped, losses: s.Losses,
		priority: s.Priority, total: s.Total, made: s.Made, live: s.Live,
	}
}

// stepUpdate answers the statement that writes s, and what binds its columns.
func (k *rowCache) stepUpdate(s *pawl.Step, failure []byte) (statement, func(*row)) {
	known := k.steps[s.StepKey]
	lean := known != nil && restOfStep(known) == restOfStep(s) && s.Input == nil && failure == nil
	switch {
	case lean && takeOfStep(known) == takeOfStep(s) && s.Output != nil:
		return updateStepEnd, func(r *row) { r.stepEnd(s); r.body(s.Output) }
	case lean && known.CompletedAt == s.CompletedAt && s.Output == nil:
		return updateStepTake, func(r *row) { r.stepTake(s) }
	case s.Input != nil || s.Output != nil || failure != nil:
		return updateStepBodies, func(r *row) { r.stepPlaced(s); r.bodies(s.Input, s.Output, failure) }
	}
	return updateStep, func(r *row) { r.stepPlaced(s) }
}

func (r *row) stepEnd(s *pawl.Step) {
	r.move(&s.Record)
	r.ints(s.CompletedAt, place(s))
}

func (r *row) stepTake(s *pawl.Step) {
	r.move(&s.Record)
	r.ints(int64(s.Unmet), int64(s.Attempts), int64(s.Claims), s.Worker, s.Route, s.Rank, s.EnqueuedAt, s.StartedAt, place(s))
}
