package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrNonRetriable in the chain of an action's error makes it permanent. So do a
// missing file, a denied permission and malformed JSON; everything else is tried
// again.
var ErrNonRetriable = errors.New("non-retriable error")

// The causes of a cancelled context, by context.Cause.
var (
	ErrActionTimeout = errors.New("action timeout")         // the attempt has passed its deadline
	ErrPreempted     = errors.New("cancelled by its state") // Decision.Cancel
	ErrShuttingDown  = errors.New("shutting down")          // a stop has used up its budget
	ErrCollection    = errors.New("collection timeout")     // Collector.Timeout has passed
)

// What the supervisor refuses.
var (
	ErrExists   = errors.New("service exists")
	ErrNotFound = errors.New("service not found")
	ErrCycle    = errors.New("dependency cycle")
	ErrStopped  = errors.New("supervisor is stopping or has stopped")
	ErrStarted  = errors.New("supervisor was started before")
	ErrInvalid  = errors.New("invalid")
)

// A BusyError says that an action was refused because another holds the slot (S3).
type BusyError struct {
	Service string
	Refused string // the name of the action that was refused
	Running string // that of the one in the way
	Since   time.Time
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("service %s: action %s is refused: %s is running since %s",
		e.Service, e.Refused, e.Running, e.Since.UTC().Format(time.RFC3339))
}

// RetryAfter wraps an error of an action with the time until its next attempt. It replaces
// the backoff.
func RetryAfter(err error, after time.Duration) error { return &retryAfter{err, after} }

type retryAfter struct {
	error
	after time.Duration
}

func (e *retryAfter) Unwrap() error { return e.error }

// errExited is the error of an action that neither returned nor panicked.
var errExited = errors.New("the action ended its goroutine by runtime.Goexit")

// A panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// An outcome is the result of an attempt.
type outcome struct {
	kind  ErrorKind
	text  string
	after time.Duration // asked for by RetryAfter
}

// judge returns the outcome of an attempt from its error and the cause of its
// cancellation, if it was cancelled (S7).
func judge(err, cause error) outcome {
	if err == nil {
		return outcome{}
	}
	o := outcome{kind: kindOf(err, cause), text: err.Error()}
	if o.kind == KindTimeout || o.kind == KindCancelled {
		o.text = cause.Error()
		if !errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
			o.text += ": " + err.Error()
		}
	}
	var retry *retryAfter
	if errors.As(err, &retry) {
		o.after = retry.after
	}
	return o
}

// readable returns err, or the panic of its Error method: on a nil pointer, for example.
func readable(err error) error {
	if p := guard(func() { judge(err, nil) }); p != nil {
		return p
	}
	return err
}

func kindOf(err, cause error) ErrorKind {
	var panicked *panicError
	switch {
	case errors.As(err, &panicked), errors.Is(err, errExited):
		return KindPanic
	case errors.Is(cause, ErrPreempted), errors.Is(cause, ErrShuttingDown):
		return KindCancelled
	case permanent(err):
		return KindPermanent
	case errors.Is(cause, ErrActionTimeout):
		return KindTimeout
	}
	return KindRetriable
}

func permanent(err error) bool {
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	return errors.Is(err, ErrNonRetriable) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.As(err, &syntax) || errors.As(err, &shape)
}
