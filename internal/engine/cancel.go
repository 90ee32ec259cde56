package engine

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Cancel ends a job as CANCELED: steps that have not started never start, and workers are
// asked to stop running steps. The job becomes CANCELED when they have stopped, or after
// decide.CancelGrace. For a job that has ended, Cancel returns a *machine.Refusal.
func (e *Engine) Cancel(ctx context.Context, id pawl.ID, c pawl.Change) error {
	if c.Reason == "" {
		c.Reason = "canceled"
	}
	r, done, err := e.asked(ctx, id, pawl.Change{Reason: c.Reason, RequestID: c.RequestID}, "cancel")
	if done || err != nil {
		return err
	}
	job, err := e.recallID(ctx, id)
	if err != nil {
		return err
	}
	return e.committer.one(ctx, r.once(&cancelJob{e: e, job: job, note: noteOf(c)}, nil, nil))
}

type cancelJob struct {
	e     *Engine
	job   *jobFacts
	note  decide.Note
	spare bool // leave running hooks alone
}

func (c *cancelJob) query(q *store.Query) { c.job.ask(q, decide.CancelReads()) }

func (c *cancelJob) decide(t *tx) error {
	j := t.job(c.job.id.JobKey())
	if j == nil || j.ID != c.job.id {
		return store.NoJob(c.job.id)
	}
	if c.spare && j.Hooks != pawl.HooksNotYet {
		return nil
	}
	d, err := c.e.decision(t, j.Key(), decide.Answers{})
	if err != nil {
		return err
	}
	return d.Cancel(c.note)
}

// A fire applies a deadline (K8) that has passed, if it still stands.
type fire struct {
	e   *Engine
	due store.Due
	job *jobFacts
}

func (f *fire) query(q *store.Query) {
	if f.due.Kind == lifecycle.Job.Name {
		f.job.ask(q, decide.CancelReads())
		return
	}
	f.job.ask(q, decide.FireReads(f.job.def, f.due.Ord, f.job.slots))
}

func (f *fire) decide(t *tx) error {
	d, err := f.e.decision(t, f.due.Job, decide.Answers{})
	if err != nil {
		return err
	}
	now := max(t.now, f.due.At) // the deadline has passed, but the transaction may take its time from an earlier one and be slightly behind
	if f.due.Kind == lifecycle.Job.Name {
		if j := t.job(f.due.Job); !stands(&j.Record, f.due, now) {
			return nil
		}
		return d.TimeOut()
	}
	s := t.step(f.due.StepKey)
	if s == nil || !stands(&s.Record, f.due, now) || f.e.outdated(t, f.due.Job, f.job) {
		return nil
	}
	if err := d.Fire(s); err != nil {
		return err
	}
	return d.Refill()
}

func stands(r *pawl.Record, due store.Due, now int64) bool {
	return r.DueAt == due.At && r.DueEvent == due.Event && due.At <= now
}

// Terminate ends a worker and releases its steps: they are lost, and other workers try them
// again (J9, T1).
func (e *Engine) Terminate(ctx context.Context, worker rowkey.Worker, note decide.Note) error {
	r := &release{worker: worker, note: note, end: true}
	return e.release(ctx, r, r)
}

// Takeover immediately releases the steps of workers whose processes are known to be dead.
// The engine finds other dead workers within seconds. A lock that was lost with a
// connection does not prove that a worker is dead, but gone may know it for workers of its
// own machine. gone may be nil.
func (e *Engine) Takeover(ctx context.Context, gone func(*pawl.Worker) bool) error {
	seen, err := e.store.Observe(ctx)
	if err != nil || len(seen.Workers) == 0 {
		return err
	}
	workers, err := e.store.Workers(ctx, store.WorkerFilter{Living: true})
	if err != nil {
		return err
	}
	dead := make(map[rowkey.Worker]bool)
	for _, w := range workers {
		dead[w.Key()] = gone != nil && gone(w)
	}
	for i := range seen.Workers {
		if s := &seen.Workers[i]; s.Lock == health.Lost && dead[s.Worker] {
			s.Lock = health.Free
		}
	}
	e.evaluator.bury(ctx, health.Proven(seen))
	return nil
}

// blindly returns a decision about s that stores an outcome and leaves it for the evaluator
// to apply: the decision sees neither the job nor its definition.
func blindly(t *tx, s *pawl.Step, j *pawl.Job) *decide.Decision {
	return &decide.Decision{JobTx: unlocked{jobTx{t: t, key: s.Job}, j}, Now: t.now}
}

// unlocked is a jobTx whose job is not locked: a decision cannot apply an outcome there,
// and leaves a mark.
type unlocked struct {
	jobTx
	job *pawl.Job
}

func (unlocked) Job() *pawl.Job { return nil }

func (u unlocked) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	return u.t.moveStep(u.job, s, event, note)
}
