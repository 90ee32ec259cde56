package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Handle makes the worker run steps with that handler by h. Call it before Run. The
// step's with is decoded into In, strictly: an unknown field and a value of another
// type are permanent failures of class invalid_input. A step without it has the zero
// value. The result of h is encoded as JSON and is the output of the step; for its
// error see Func. Handle panics if the name is taken, or the worker has begun.
func Handle[In, Out any](w *Worker, name string, h func(ctx context.Context, in In) (Out, error)) {
	if h == nil {
		panic("worker: Handle of " + name + " with a nil function")
	}
	w.handle(name, Func(func(ctx context.Context, t *Task) (any, error) {
		var in In
		if failure := decode(name, t.Work.With, &in); failure != nil {
			return nil, failure
		}
		return h(context.WithValue(ctx, taskKey{}, t), in)
	}))
}

func (w *Worker) handle(name string, h Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case name == "":
		panic("worker: Handle without a name")
	case w.begun:
		panic("worker: Handle of " + name + " after the worker has begun")
	case w.handlers[name] != nil:
		panic("worker: Handle of " + name + ", which has a handler already")
	}
	w.handlers[name] = h
}

type taskKey struct{}

// TaskOf returns the task that a function of Handle was called for, with its ids, its
// attempt and its log. It returns nil for any other context.
func TaskOf(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}

// Permanent returns an error that fails a step at once, however many attempts it has
// left. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// decode reads the input of a handler.
func decode(handler string, with json.RawMessage, into any) *pawl.Failure {
	if len(with) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(with))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		field := strings.TrimSuffix("with."+wrong.Field, ".")
		return permanent("invalid_input", "handler %s: %s: want %v, not %s", handler, field, wrong.Type, valueAt(with, wrong))
	}
	return permanent("invalid_input", "handler %s: %s in with: %s", handler, strings.TrimPrefix(err.Error(), "json: "), bounded(string(with), maxValue))
}

// maxValue bounds the bytes of a value in a message.
const maxValue = 200

// valueAt returns the wrong value; for a list or an object it only says that it is one.
func valueAt(doc []byte, wrong *json.UnmarshalTypeError) string {
	d := json.NewDecoder(bytes.NewReader(doc))
	for from := int64(0); ; from = d.InputOffset() {
		token, err := d.Token()
		if err != nil {
			return wrong.Value
		}
		if d.InputOffset() < wrong.Offset {
			continue
		}
		if _, nested := token.(json.Delim); nested {
			return fmt.Sprintf("an %s", wrong.Value)
		}
		return bounded(strings.Trim(string(doc[from:d.InputOffset()]), " \t\r\n,:"), maxValue)
	}
}
