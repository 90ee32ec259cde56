package worker

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/pawl-dev/pawl"
)

// Safely makes a Handler that contains h: a panic, or the end of its goroutine
// by runtime.Goexit, is a retryable failure of class "panic" with the stack in
// its metadata (J9). It runs h in a goroutine of its own and waits for it.
func Safely(h Handler) Handler {
	return func(ctx context.Context, t *Task) Result {
		done := make(chan Result, 1)
		go contain(ctx, h, t, func(r Result) { done <- r })
		return <-done
	}
}

// contain runs h and calls done with its result, even if h panics. It does not return
// if h ends the goroutine.
func contain(ctx context.Context, h Handler, t *Task, done func(Result)) {
	result := Result{}
	returned := false
	defer func() {
		if !returned {
			result = Result{Failure: panicked(recover())}
		}
		done(result)
	}()
	result = h(ctx, t)
	returned = true
}

// panicked is called while the stack of the panic still exists. A nil value means
// runtime.Goexit, since panic(nil) recovers as an error.
func panicked(value any) *pawl.Failure {
	f := retryable("panic", "the handler ended its goroutine with runtime.Goexit")
	if value != nil {
		f = retryable("panic", "the handler panicked: %s", bounded(fmt.Sprint(value), maxMessage))
	}
	f.Metadata = metadata(map[string]any{"stack": bounded(string(debug.Stack()), maxStack)})
	return f
}
