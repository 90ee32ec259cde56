package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// Causes for the end of a task's context, to be passed to its cancel function. A
// context that ends by its deadline counts as ErrTimeout, one that is canceled without
// a cause as ErrCanceled.
var (
	ErrCanceled    = errors.New("canceled")
	ErrTimeout     = errors.New("timed out")
	ErrInterrupted = errors.New("interrupted: the worker is stopping")
)

// A timeoutError is ErrTimeout after some time.
type timeoutError time.Duration

func (e timeoutError) Error() string { return fmt.Sprintf("%v after %s", ErrTimeout, time.Duration(e)) }

func (e timeoutError) Unwrap() error { return ErrTimeout }

// A Task is one attempt of one step, as a handler sees it. The handler must not
// change it.
type Task struct {
	JobID    string // public
	StepID   string // public
	Key      string // of the step in its workflow: load[3]
	Workflow string // name
	Attempt  int    // from 1
	Claim    int

	Work   *workflow.Work
	Output workflow.OutputMode // empty is text

	PermanentExitCodes []int  // of commands
	BaseDir            string // where a command starts, and to which its dir is relative; empty is the current folder
	Limits             Limits
	Log                *Log // where output goes; nil drops it

	// Traceparent is the place of this attempt in a trace, as W3C Trace Context has it; empty: it
	// is in none. Commands have it as TRACEPARENT, and requests as a header.
	Traceparent string

	input  func() json.RawMessage // nil: {}
	ownDir bool                   // BaseDir was made for the job

	completion // by CompleteTx
}

// Input returns the document that a command finds in the file PAWL_INPUT: {inputs, needs: {id:
// output}}, and in a fan-out also item or matrix, and index. Each call makes it anew, with the
// whole list of a fan-out: an instance that reads only its item gets that with less work from
// Work.With. Input is safe for concurrent use.
func (t *Task) Input() json.RawMessage {
	if t.input != nil {
		if doc := t.input(); doc != nil {
			return doc
		}
	}
	return json.RawMessage("{}")
}

// SetInput makes Input return copies of doc. It is for the tests of a handler, before they call it:
// the Task of a worker has an input.
func (t *Task) SetInput(doc json.RawMessage) {
	doc = bytes.Clone(doc)
	t.input = func() json.RawMessage { return bytes.Clone(doc) }
}

// Limits bound one attempt. Zero fields have the default.
type Limits struct {
	Output int           // bytes of the output as JSON, and of what it is made from; default 1 MiB
	Grace  time.Duration // from SIGTERM to SIGKILL; default 5 s
	Drain  time.Duration // how long output is still read after the program has ended; default 1 s
}

// The defaults of Limits.
const (
	DefaultOutputLimit = 1 << 20
	DefaultGrace       = 5 * time.Second
	DefaultDrain       = time.Second
)

func (l Limits) withDefaults() Limits {
	if l.Output <= 0 {
		l.Output = DefaultOutputLimit
	}
	if l.Grace <= 0 {
		l.Grace = DefaultGrace
	}
	if l.Drain <= 0 {
		l.Drain = DefaultDrain
	}
	return l
}

// A Result is how an attempt ended.
type Result struct {
	Output  json.RawMessage // of a success: never nil, null at least
	Failure *pawl.Failure   // nil is success, unless there is a Snooze
	Snooze  time.Duration   // if not 0, without a Failure: the step is tried again after it; see the function Snooze
}

// A Handler runs one attempt. It returns soon after ctx has ended, and is safe for
// concurrent use. Its goroutine may run another step afterwards, so a handler that
// locks its thread has to unlock it.
type Handler func(ctx context.Context, t *Task) Result

// Func makes a Handler of a Go function. Its value is the output, encoded as JSON and
// limited by Limits.Output, unless the step has `output: none`. An error that is, or
// wraps, a *pawl.Failure is that failure, and one of Snooze is no failure; any other is
// retryable, of class "error" (T6). If ctx has ended, its cause decides instead of the
// error.
func Func(f func(ctx context.Context, t *Task) (any, error)) Handler {
	return func(ctx context.Context, t *Task) Result {
		value, err := f(ctx, t)
		if s, ok := errors.AsType[*snoozeError](err); ok && ctx.Err() == nil {
			return snoozed(s.after)
		}
		if err != nil {
			return Result{Failure: failureOf(ctx, err)}
		}
		if t.Output == workflow.OutputNone {
			return Result{Output: json.RawMessage("null")}
		}
		return encoded("the result", value, t.Limits.withDefaults().Output)
	}
}

func failureOf(ctx context.Context, err error) *pawl.Failure {
	var f *pawl.Failure
	switch {
	case errors.As(err, &f) && f == nil:
		return permanent("error", "the handler returned a nil *pawl.Failure as its error")
	case f == nil && ctx.Err() != nil:
		return stopped(ctx)
	case f == nil:
		f = retryable("error", "%s", bounded(err.Error(), maxMessage))
	}
	var p *permanentError
	if errors.As(err, &p) {
		failed := *f
		failed.Permanent, f = true, &failed
	}
	return f
}
