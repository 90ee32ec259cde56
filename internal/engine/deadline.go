package engine

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

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
