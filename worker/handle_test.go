package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// newTyped makes a site whose worker has not begun.
func newTyped(t *testing.T, c worker.Config) *site {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: &switched{Store: db}}
	s.engine = engine.New(engine.Config{Store: s.store, Poll: 20 * time.Millisecond, Silence: time.Hour, Jitter: func() float64 { return 0 }})
	c.Poll, c.Beat = 20*time.Millisecond, 20*time.Millisecond
	if s.worker, err = worker.New(s.engine, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// run runs the worker until the returned function is called, which returns its error.
func (s *site) run() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.worker.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-over
	})
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

type charge struct {
	Amount int `json:"amount"`
	To     struct {
		Names []string `json:"names"`
	} `json:"to"`
}

func TestHandle(t *testing.T) { // T6, T8, J9
	t.Parallel()
	s := newTyped(t, worker.Config{})
	worker.Handle(s.worker, "charge", func(ctx context.Context, in charge) (map[string]any, error) {
		task := worker.TaskOf(ctx)
		return map[string]any{"amount": in.Amount, "key": task.Key, "attempt": task.Attempt}, nil
	})
	worker.Handle(s.worker, "null", func(context.Context, charge) (*charge, error) { return nil, nil })
	worker.Handle(s.worker, "chan", func(context.Context, any) (chan int, error) { return make(chan int), nil })
	worker.Handle(s.worker, "panic", func(context.Context, any) (any, error) { panic("oh") })
	worker.Handle(s.worker, "nil", func(context.Context, any) (any, error) {
		var f *pawl.Failure
		return 1, f
	})
	worker.Handle(s.worker, "spent", func(context.Context, any) (any, error) {
		return nil, fmt.Errorf("pay: %w", worker.Permanent(errors.New("no money")))
	})
	s.run()
	for _, tt := range []struct {
		name, handler, with string
		status              machine.State
		want                string // the output, or what the failure says
	}{
		{"good", "charge", `{"amount": 7}`, lifecycle.JobCompleted, `{"amount":7,"attempt":1,"key":"a"}`},
		{"nothing", "charge", ``, lifecycle.JobCompleted, `{"amount":0,"attempt":1,"key":"a"}`},
		{"unknown field", "charge", `{"amonut": 7}`, lifecycle.JobFailed, `invalid_input: handler charge: unknown field "amonut" in with: {"amonut":7}`},
		{"wrong type", "charge", `{"amount": "a, lot"}`, lifecycle.JobFailed, `invalid_input: handler charge: with.amount: want int, not "a, lot"`},
		{"fraction", "charge", `{"amount": 1.5}`, lifecycle.JobFailed, `invalid_input: handler charge: with.amount: want int, not 1.5`},
		{"nested", "charge", `{"to": {"names": ["x", true]}}`, lifecycle.JobFailed, `invalid_input: handler charge: with.to.names: want string, not true`},
		{"list", "charge", `{"amount": [1]}`, lifecycle.JobFailed, `invalid_input: handler charge: with.amount: want int, not an array`},
		{"no object", "charge", `"x"`, lifecycle.JobFailed, `invalid_input: handler charge: with: want worker_test.charge, not "x"`},
		{"typed nil", "null", ``, lifecycle.JobCompleted, `null`},
		{"not encodable", "chan", ``, lifecycle.JobFailed, `invalid_output: the result cannot be written as JSON`},
		{"panic", "panic", ``, lifecycle.JobFailed, `panic: the handler panicked: oh`},
		{"nil failure", "nil", ``, lifecycle.JobFailed, `error: the handler returned a nil *pawl.Failure`},
		{"permanent", "spent", ``, lifecycle.JobFailed, `error: pay: no money`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step := map[string]any{"id": "a", "handler": tt.handler, "retry": map[string]int{"max_attempts": 1}}
			if tt.handler == "spent" || strings.HasPrefix(tt.want, "invalid_") {
				step["retry"] = map[string]int{"max_attempts": 9} // of which the first is the last
			}
			if tt.with != "" {
				step["with"] = json.RawMessage(tt.with)
			}
			file, err := json.Marshal(map[string]any{"name": "w", "steps": []any{step}})
			if err != nil {
				t.Fatal(err)
			}
			v := s.wait(s.submit(string(file)))
			got := string(v.Steps[0].Output)
			if v.Error != nil {
				got = v.Error.Error()
			}
			if v.Status != tt.status || !strings.HasPrefix(got, tt.want) || v.Steps[0].Attempts != 1 {
				t.Errorf("%s after %d attempts: %s\nwant %s: %s", v.Status, v.Steps[0].Attempts, got, tt.status, tt.want)
			}
		})
	}
}

func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	s := newTyped(t, worker.Config{Handlers: map[string]worker.Handler{"taken": answers("1")}})
	nothing := func(context.Context, any) (any, error) { return nil, nil }
	worker.Handle(s.worker, "twice", nothing)
	refused := func(name, want string, h func(context.Context, any) (any, error)) {
		t.Helper()
		defer func() {
			if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
				t.Errorf("%q: panicked with %q; want %q", name, got, want)
			}
		}()
		worker.Handle(s.worker, name, h)
	}
	refused("", "without a name", nothing)
	refused("none", "nil function", nil)
	refused("taken", "has a handler already", nothing)
	refused("twice", "has a handler already", nothing)
	stop := s.run()
	s.until("the worker has begun", func() bool { return s.worker.ID() != "" })
	refused("late", "after the worker has begun", nothing)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := s.worker.Run(t.Context()); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("a second Run: %v; want a conflict", err)
	}
}

// TestRunDrains: a worker whose context ends lets what runs end, and ends its record.
func TestRunDrains(t *testing.T) { // J1, J9
	t.Parallel()
	started, open := make(chan struct{}), make(chan struct{})
	s := newTyped(t, worker.Config{})
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Errorf("draining a worker that has not begun: %v", err)
	}
	s = newTyped(t, worker.Config{})
	worker.Handle(s.worker, "h", func(context.Context, any) (string, error) {
		close(started)
		<-open
		return "done", nil
	})
	stop := s.run()
	id := s.submit("name: w\nsteps: [{id: a, handler: h}]\n")
	<-started
	over := make(chan error, 1)
	go func() { over <- stop() }()
	select {
	case err := <-over:
		t.Fatalf("Run returned %v while a step ran", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(open)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if v := s.job(id); v.Status != lifecycle.JobCompleted {
		t.Errorf("the job is %s; want it completed", v.Status)
	}
	if got := s.workerState(); got != lifecycle.WorkerCompleted {
		t.Errorf("the worker is %s", got)
	}
}

// TestDrainTimeout: what takes longer than that goes to others, and its attempt is given back.
func TestDrainTimeout(t *testing.T) { // J9, T1
	t.Parallel()
	started := make(chan struct{})
	s := newTyped(t, worker.Config{DrainTimeout: time.Millisecond})
	worker.Handle(s.worker, "h", func(ctx context.Context, _ any) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	stop := s.run()
	id := s.submit("name: w\nsteps: [{id: a, handler: h}]\n")
	<-started
	if err := stop(); err != nil {
		t.Error(err)
	}
	if step := s.job(id).Steps[0]; step.Attempts != 0 || lifecycle.Step.Ended(step.Status) {
		t.Errorf("the step is %s after %d attempts; want it to be run elsewhere", step.Status, step.Attempts)
	}
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	var order []string
	around := func(name string) func(worker.Handler) worker.Handler {
		return func(next worker.Handler) worker.Handler {
			return func(ctx context.Context, task *worker.Task) worker.Result {
				order = append(order, name+" before")
				defer func() { order = append(order, name+" after") }()
				return next(ctx, task)
			}
		}
	}
	s := newTyped(t, worker.Config{Middleware: []func(worker.Handler) worker.Handler{around("first"), around("second")}})
	worker.Handle(s.worker, "h", func(context.Context, any) (any, error) {
		order = append(order, "handler")
		return nil, nil
	})
	stop := s.run()
	s.wait(s.submit("name: w\nsteps: [{id: a, handler: h}]\n"))
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(order, ", "), "first before, second before, handler, second after, first after"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	s := newTyped(t, worker.Config{})
	for _, c := range []worker.Config{{Isolation: "maybe"}, {Handlers: map[string]worker.Handler{"h": nil}}} {
		if _, err := worker.New(s.engine, c); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%+v: %v; want it invalid", c, err)
		}
	}
}

// TestRunThatEndsBeforeItBegins: a worker whose context has ended while it registers ends
// without an error, as after a drain.
func TestRunThatEndsBeforeItBegins(t *testing.T) { // J1
	t.Parallel()
	s := newTyped(t, worker.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.worker.Run(ctx); err != nil {
		t.Errorf("%v; want none", err)
	}
}
