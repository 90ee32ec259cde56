package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
)

// A kept refusal is the answer to a request whose command was refused (J8): the same
// request is refused in the same way for as long as the answer is stored, whatever has
// changed. Not kept are failures of the server and what passes by itself.

// keptKinds are the kinds of refusals that are kept, by their status.
var keptKinds = map[int]pawl.Kind{
	http.StatusUnprocessableEntity: pawl.Invalid,
	http.StatusNotFound:            pawl.NotFound,
	http.StatusConflict:            pawl.Conflict,
	http.StatusForbidden:           pawl.Refused,
}

// statusOf returns the status of a refusal that is kept, or 0.
func statusOf(err error) int {
	var passes *passing
	if errors.As(err, &passes) || errors.Is(err, decide.ErrNotApplied) {
		return 0
	}
	kind := pawl.KindOf(err)
	for status, kept := range keptKinds {
		if kept == kind {
			return status
		}
	}
	return 0
}

// A passing refusal is due to what happened at the same moment, so that the same request
// may succeed at once.
type passing struct{ error }

func (p *passing) Unwrap() error { return p.error }

// keep makes the refusal of the present command the answer to its request, and reports
// whether it did. If so, the changes of the command are undone, and the caller lets the
// transaction commit the answer.
func (t *tx) keep(key store.IdempotencyKey, answer store.Answer, err error) bool {
	if answer.Status = statusOf(err); t.fault != nil || answer.Status == 0 {
		return false
	}
	t.undo()
	t.open()
	answer.Body = refusalBody(err)
	t.answer(key, answer)
	return true
}

// A refusal is how a refusal is stored.
type refusal struct {
	Text      string           `json:"text,omitempty"` // of the error as a whole, if another error wraps it
	Message   string           `json:"message,omitempty"`
	Hint      string           `json:"hint,omitempty"`
	Entity    string           `json:"entity,omitempty"`
	Cause     string           `json:"cause,omitempty"`
	Refusal   *machine.Refusal `json:"refusal,omitempty"`
	Obstacles decide.Obstacles `json:"obstacles,omitempty"`
}

func refusalBody(err error) []byte {
	var r refusal
	errors.As(err, &r.Refusal)
	errors.As(err, &r.Obstacles)
	var e *pawl.Error
	if errors.As(err, &e) {
		r.Message, r.Hint, r.Entity = e.Message, e.Hint, e.Entity
		if e.Err != nil {
			r.Cause = e.Err.Error()
		}
	}
	if text := err.Error(); text != r.error(pawl.Internal).Error() {
		r.Text = text
	}
	body, fault := json.Marshal(r)
	if fault != nil {
		panic(fault) // it has only text
	}
	return body
}

// error returns the error again: with the same text, kind and details, and the same
// causes that callers distinguish.
func (r *refusal) error(kind pawl.Kind) error {
	var cause error
	switch {
	case r.Refusal != nil:
		cause = r.Refusal
	case r.Obstacles != nil:
		cause = r.Obstacles
	case r.Cause != "":
		cause = errors.New(r.Cause)
	}
	err := cause
	if r.Message != "" || cause == nil {
		err = &pawl.Error{Kind: kind, Message: r.Message, Hint: r.Hint, Entity: r.Entity, Err: cause}
	}
	if r.Text != "" {
		return &worded{r.Text, err}
	}
	return err
}

// A worded error is err in other words.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }

func (w *worded) Unwrap() error { return w.err }

// refusalOf returns the refusal that an answer holds, or nil.
func refusalOf(a *store.Answer) error {
	kind, refused := keptKinds[a.Status]
	if !refused {
		return nil
	}
	var r refusal
	if err := json.Unmarshal(a.Body, &r); err != nil {
		return &pawl.Error{Kind: pawl.Internal, Message: "the response to a request cannot be read", Err: err}
	}
	return r.error(kind)
}

// refuse returns the error for which a request is refused before there is a command,
// after it was kept. If another execution of the request was faster, the result is that
// of it, in out.
func (e *Engine) refuse(ctx context.Context, r *request, err error, out reply) error {
	var ofDatabase interface{ SQLState() string }
	if r == nil || statusOf(err) == 0 || errors.As(err, &ofDatabase) {
		return err
	}
	return e.execute(ctx, r, refused{err}, out)
}

// refuseAction is refuse for a request that returns a receipt.
func (e *Engine) refuseAction(ctx context.Context, r *request, err error) (pawl.Receipt, error) {
	a := new(action)
	return a.result(e.refuse(ctx, r, err, a))
}

// A refused command is one that cannot be made.
type refused struct{ err error }

func (refused) query(*store.Query) {}

func (r refused) decide(*tx) error { return r.err }
