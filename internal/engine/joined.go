package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// The engine's writes in a transaction of a user bypass the committer. The engine does not
// learn when that transaction ends, nor whether it commits. So it locks nothing that others
// need, keeps nothing of these writes in memory, and leaves what follows to the evaluator,
// which finds it by a scan of the database: a job is among those that no worker starts by
// itself, and its steps enter the queue when it starts; a step has a mark.

// SubmitTx makes jobs within a transaction of the user, each with its own result: they
// exist if and only if that transaction commits. Submitting with a request id that was used
// for the same submission returns the existing job (J8, J12).
func (e *Engine) SubmitTx(ctx context.Context, outer any, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	answers := make([]pawl.Submitted, len(subs))
	cmds := make([]*submit, len(subs)) // nil for submissions already refused
	q := new(store.Query)
	for i := range subs {
		cmd, err := e.newSubmit(&subs[i], nil)
		if err != nil {
			answers[i].Err = err
			continue
		}
		if err := e.recognize(ctx, cmd.def.Hash()); err != nil {
			return nil, err
		}
		cmd.unrouted = true
		cmd.query(q)
		cmds[i] = cmd
	}
	err := e.doIn(ctx, outer, q, func(t *tx) error {
		for i, cmd := range cmds {
			if cmd == nil {
				continue
			}
			answers[i] = cmd.result(e.committer.decide(t, cmd))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// recognize checks whether a definition is in the database, unless that is known. A
// transaction of a user proves nothing: it may roll back, and the definition with it.
func (e *Engine) recognize(ctx context.Context, hash [32]byte) error {
	key := definitions.KeyOf(hash)
	if e.defs.IsStored(key) {
		return nil
	}
	_, err := e.store.Definition(ctx, key)
	if err == nil {
		e.defs.MarkStored(key)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// CompleteTx stores the success of a claim within a transaction of the user, with a mark
// (T3, T5). It changes only the step, and nothing else of the job.
func (e *Engine) CompleteTx(ctx context.Context, outer any, r link.Report) error {
	cmd := &completion{r: &r}
	q := new(store.Query)
	cmd.query(q)
	return e.doIn(ctx, outer, q, func(t *tx) error { return e.committer.decide(t, cmd) })
}

// A completion stores one success, for the evaluator to apply.
type completion struct{ r *link.Report }

func (c *completion) query(q *store.Query) { askSteps(q, c.r.Step) }

func (c *completion) decide(t *tx) error {
	s := t.step(c.r.Step)
	if s == nil {
		return pawl.Errorf(pawl.NotFound, "there is no step %s", c.r.Step)
	}
	if why := fenced(c.r, s); why != "" {
		return &pawl.Error{Kind: pawl.Conflict, Message: "the claim is lost: " + why, Hint: "roll the transaction back: whoever has the step now does its work"}
	}
	report := c.r.Report
	report.Note.Actor = c.r.Actor
	return blindly(t, s, t.job(s.Job)).Report(s, report)
}

// doIn decides and writes within a transaction of the user.
func (e *Engine) doIn(ctx context.Context, outer any, q *store.Query, decide func(*tx) error) error {
	var t *tx
	var wake []store.Topic
	if !e.cfg.QuietTx {
		wake = []store.Topic{store.TopicMarks}
	}
	err := e.store.DoIn(ctx, outer, q, wake, func(f *store.Facts) (*store.Changes, error) {
		t = e.begin(q, f, 0)
		if err := decide(t); err != nil {
			return nil, err
		}
		return t.changes()
	})
	if t != nil {
		e.recycle(t)
	}
	return err
}

// Hint requests a scan of the database, here and in other processes, for what transactions
// of users have committed.
func (e *Engine) Hint() {
	e.evaluator.look()
	e.wake(0, true, false)
}

// settled requests an evaluation of a job whose step was completed by its handler's
// transaction.
func (e *Engine) settled(job rowkey.Job) {
	e.evaluator.request(job)
	e.watches.ring(job)
	e.wake(0, true, false)
}
