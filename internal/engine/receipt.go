package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An operation is a command of an operator that acts on one entity.
type operation interface {
	command
	// subject returns the entity. It is called once the command is decided.
	subject() store.EntityKey
}

// An action is an operation together with its receipt (J5).
type action struct {
	operation
	actor   string
	receipt pawl.Receipt
}

// act carries out an operation, once per request, and returns its receipt.
func (e *Engine) act(ctx context.Context, r *request, o operation, c pawl.Change) (pawl.Receipt, error) {
	a := &action{operation: o, actor: c.Actor}
	return a.result(e.execute(ctx, r, a, a))
}

// result returns the receipt, unless there is an error: then the commit may still be in
// progress.
func (a *action) result(err error) (pawl.Receipt, error) {
	if err != nil {
		return pawl.Receipt{}, err
	}
	return a.receipt, nil
}

// earlier returns the receipt that is stored for the request, and reports whether there
// is one, or the stored refusal.
func (r *request) earlier(ctx context.Context) (receipt pawl.Receipt, done bool, err error) {
	a := new(action)
	done, err = r.replay(ctx, a)
	receipt, err = a.result(err)
	return receipt, done, err
}

func (a *action) weight() int { return weightOf(a.operation) }

func (a *action) renew() {
	if r, ok := a.operation.(renewer); ok {
		r.renew()
	}
}

func (a *action) decide(t *tx) error {
	err := a.operation.decide(t)
	if err == nil {
		a.receipt = t.receipt(a.subject(), a.actor)
	}
	return err
}

func (a *action) answer() (status int, body []byte) { return receiptAnswer(&a.receipt) }

func (a *action) replay(body []byte) (err error) {
	a.receipt, err = receiptOf(body)
	return err
}

// receipt returns what the present command has done to an entity.
func (t *tx) receipt(of store.EntityKey, actor string) pawl.Receipt {
	var first, last *audit.Entry
	for i := t.journal.entries; i < len(t.entries); i++ {
		if t.entries[i].EntityKey != of {
			continue
		}
		if last = &t.entries[i].Entry; first == nil {
			first = last
		}
	}
	r := pawl.Receipt{Actor: cmp.Or(actor, actorEngine)}
	if first == nil { // it has changed others only
		id, now := t.recordOf(of)
		from := now.State
		r.ID, r.From, r.To, r.Sequence, r.At = id, &from, now.State, now.Seq, pawl.Timestamp(now.UpdatedAt)
	} else {
		r.ID, r.To, r.Sequence, r.At = last.Entity, last.To, last.Sequence, pawl.Timestamp(last.At)
		if first.From != "" {
			from := first.From // allocated only here: a new job has none
			r.From = &from
		}
	}
	r.Status = r.To
	return r
}

// recordOf returns the public id and the present state of an entity in sight.
func (t *tx) recordOf(of store.EntityKey) (id string, r pawl.Record) {
	switch {
	case of.Kind == lifecycle.Job.Name:
		j := t.jobs[of.Job]
		return j.public(j.record.ID, pawl.JobPrefix), j.record.Record
	case of.Kind == lifecycle.Step.Name:
		s := t.steps[of.StepKey]
		return s.public(t.jobs[of.Job].record.ID.Step(of.Ord), pawl.StepPrefix), s.record.Record
	case of.Kind == lifecycle.Worker.Name:
		w := t.workers[of.Worker()]
		return w.public(w.record.ID, pawl.WorkerPrefix), w.record.Record
	}
	if of.Kind == lifecycle.Token.Name {
		token := t.tokens[of.Token()]
		return token.public(token.record.ID, pawl.TokenPrefix), token.record.Record
	}
	if of.Kind == lifecycle.QueuePause.Name {
		p := t.pauses[of.Pause()]
		return p.public(p.record.ID, pawl.QueuePausePrefix), p.record.Record
	}
	if of.Kind == lifecycle.Webhook.Name {
		w := t.webhooks[of.Webhook()]
		return w.public(w.record.ID, pawl.WebhookPrefix), w.record.Record
	}
	s := t.schedules[of.Schedule()]
	return s.public(s.record.ID, pawl.SchedulePrefix), s.record.Record
}

// receiptAnswer returns the answer that holds a receipt.
func receiptAnswer(r *pawl.Receipt) (status int, body []byte) {
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has only text and numbers
	}
	if r.From == nil {
		return http.StatusCreated, body
	}
	return http.StatusOK, body
}

// receiptOf reads a receipt from an answer. An earlier version has stored the bare id of
// a new job, or nothing.
func receiptOf(body []byte) (r pawl.Receipt, err error) {
	switch {
	case len(body) == 0:
	case body[0] == '{':
		err = json.Unmarshal(body, &r)
	default:
		r.ID = string(body)
	}
	r.Replayed = true
	return r, err
}
