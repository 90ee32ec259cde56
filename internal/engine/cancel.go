package engine

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
)

// Cancel ends a job as CANCELED: steps that have not started never start, and workers are
// asked to stop running steps. The job becomes CANCELED when they have stopped, or after
// decide.CancelGrace. For a job that has ended, Cancel returns a *machine.Refusal.
func (e *Engine) Cancel(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if c.Reason == "" {
		c.Reason = "canceled"
	}
	known := new(action)
	r, done, err := e.asked(ctx, id, pawl.Change{Reason: c.Reason, RequestID: c.RequestID}, "cancel", known)
	if done || err != nil {
		return known.result(err)
	}
	job, err := e.recallID(ctx, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, &cancelJob{e: e, job: job, note: noteOf(c)}, c)
}

type cancelJob struct {
	e     *Engine
	job   *jobFacts
	note  decide.Note
	spare bool // leave running hooks alone
}

func (c *cancelJob) subject() store.EntityKey { return store.JobEntity(c.job.id.JobKey()) }

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
