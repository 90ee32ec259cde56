package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// (J9) what a handler does to itself is a failure of its step alone.
func TestSafely(t *testing.T) {
	t.Parallel()
	run := func(h Handler) Result { return Safely(h)(context.Background(), &Task{}) }
	for name, test := range map[string]struct {
		h       Handler
		message string
	}{
		"panic":      {func(context.Context, *Task) Result { panic("boom") }, "the handler panicked: boom"},
		"error":      {func(context.Context, *Task) Result { panic(io.EOF) }, "the handler panicked: EOF"},
		"nil":        {func(context.Context, *Task) Result { panic(nil) }, "the handler panicked: panic called with nil argument"},
		"fault":      {func(_ context.Context, t *Task) Result { return Result{Output: t.Work.With} }, "the handler panicked: runtime error: invalid memory address or nil pointer dereference"},
		"goexit":     {func(context.Context, *Task) Result { runtime.Goexit(); return Result{} }, "the handler ended its goroutine with runtime.Goexit"},
		"long":       {func(context.Context, *Task) Result { panic(strings.Repeat("x", 1<<20)) }, "the handler panicked: " + strings.Repeat("x", maxMessage-3) + "..."},
		"deep stack": {func(_ context.Context, t *Task) Result { return dig(1000) }, "the handler panicked: bottom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := wantFailure(t, run(test.h), "panic", false)
			if f.Message != test.message {
				t.Errorf("got %q, want %q", f.Message, test.message)
			}
			var data struct{ Stack string }
			if err := json.Unmarshal(f.Metadata, &data); err != nil || !strings.Contains(data.Stack, "goroutine") || len(data.Stack) > maxStack {
				t.Errorf("stack of %d bytes: %v", len(data.Stack), err)
			}
			if name == "fault" && !strings.Contains(data.Stack, "TestSafely") {
				t.Errorf("the stack is not that of the panic:\n%s", data.Stack)
			}
		})
	}
	wantOutput(t, run(func(context.Context, *Task) Result { return Result{Output: []byte("1")} }), "1")
}

func dig(n int) Result {
	if n == 0 {
		panic("bottom")
	}
	return dig(n - 1)
}

// (T6) what a Go function returns.
func TestFunc(t *testing.T) {
	t.Parallel()
	own := &pawl.Failure{Class: "declined", Message: "no", Permanent: true, Delay: 5}
	for name, test := range map[string]struct {
		value any
		err   error
		want  Result
	}{
		"value":         {map[string]int{"id": 7}, nil, Result{Output: []byte(`{"id":7}`)}},
		"nothing":       {nil, nil, Result{Output: []byte(`null`)}},
		"own failure":   {1, fmt.Errorf("charge: %w", own), Result{Failure: own}},
		"unclassified":  {1, io.ErrUnexpectedEOF, Result{Failure: &pawl.Failure{Class: "error", Message: "unexpected EOF"}}},
		"too large":     {strings.Repeat("x", 9), nil, Result{Failure: tooLarge("the result has 11 bytes as JSON", 10)}},
		"not for JSON":  {make(chan int), nil, Result{Failure: permanent("invalid_output", "the result cannot be written as JSON: json: unsupported type: chan int")}},
		"not for <HTML": {"<", nil, Result{Output: []byte(`"<"`)}},
		"snooze":        {1, fmt.Errorf("not there: %w", Snooze(time.Minute)), Result{Snooze: time.Minute}},
		"no snooze":     {1, Snooze(0), Result{Failure: permanent("invalid_snooze", "Snooze: 0s: want 1ms to 8784h0m0s")}},
		"short snooze":  {1, Snooze(-time.Second), Result{Failure: permanent("invalid_snooze", "Snooze: -1s: want 1ms to 8784h0m0s")}},
		"long snooze":   {1, Snooze(decide.MaxSnooze + 1), Result{Failure: permanent("invalid_snooze", "Snooze: 8784h0m0.000000001s: want 1ms to 8784h0m0s")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Func(func(context.Context, *Task) (any, error) { return test.value, test.err })
			got := h(context.Background(), &Task{Limits: Limits{Output: 10}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			none := h(context.Background(), &Task{Limits: Limits{Output: 10}, Output: workflow.OutputNone})
			if test.err == nil && (none.Failure != nil || string(none.Output) != "null") {
				t.Errorf("with output none: %s, %v", none.Output, none.Failure)
			}
		})
	}
}

func TestFuncStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := Func(func(ctx context.Context, _ *Task) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})(ctx, &Task{})
		wantFailure(t, r, "timeout", false)
	})
}

// (T6) what a handler returns that snoozes: its end, a failure and the limits go before.
func TestSnoozeOfAHandler(t *testing.T) {
	t.Parallel()
	failure := retryable("own", "no")
	for name, tt := range map[string]struct {
		result Result
		cause  error // why the context has ended
		event  machine.Event
		class  string
		snooze time.Duration
	}{
		"good":         {Result{Snooze: time.Minute, Output: []byte("1")}, nil, lifecycle.StepInterrupt, "", time.Minute},
		"out of range": {Result{Snooze: -1}, nil, lifecycle.StepFailPermanently, "invalid_snooze", 0},
		"failed":       {Result{Snooze: time.Minute, Failure: failure}, nil, lifecycle.StepFail, "own", 0},
		"timed out":    {Result{Snooze: time.Minute}, ErrTimeout, lifecycle.StepTimeout, "timeout", 0},
		"canceled":     {Result{Snooze: time.Minute}, ErrCanceled, lifecycle.StepCancel, "canceled", 0},
		"interrupted":  {Result{Snooze: time.Minute}, ErrInterrupted, lifecycle.StepInterrupt, "interrupted", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.cause != nil {
				cancel(tt.cause)
			}
			r := reportOf(ctx, checked(tt.result, &Task{Work: &workflow.Work{}}))
			class := ""
			if r.Failure != nil {
				class = r.Failure.Class
			}
			if r.Event != tt.event || class != tt.class || r.Snooze != tt.snooze || r.Output != nil {
				t.Errorf("%s, failure %q, snooze %s, output %s; want %s, %q, %s and none", r.Event, class, r.Snooze, r.Output, tt.event, tt.class, tt.snooze)
			}
		})
	}
}

// TestSetInput: whoever tests a handler gives it an input, which is the handler's own to change.
func TestSetInput(t *testing.T) {
	t.Parallel()
	task, doc := &Task{}, json.RawMessage(`{"inputs":{"n":1}}`)
	if got := string(task.Input()); got != "{}" {
		t.Errorf("input %s before it is set", got)
	}
	task.SetInput(doc)
	doc[0] = 'x'
	for range 2 {
		got := task.Input()
		if string(got) != `{"inputs":{"n":1}}` {
			t.Errorf("input %s", got)
		}
		got[0] = 'x'
	}
}
