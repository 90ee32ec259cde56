package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const patience = 30 * time.Second

// A site is a store, an engine on it and a worker.
type site struct {
	t      *testing.T
	store  *switched
	engine *engine.Engine
	worker *worker.Worker
}

// switched is a store that can be away: every call fails.
type switched struct {
	store.Store
	away  atomic.Bool
	hits  atomic.Int64 // calls that failed
	moody atomic.Bool  // every other read of bodies fails
	reads atomic.Int64 // of bodies, while moody
}

func (s *switched) fails() error {
	if !s.away.Load() {
		return nil
	}
	s.hits.Add(1)
	return &pawl.Error{Kind: pawl.Unavailable, Message: "the database is away"}
}

func (s *switched) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if err := s.fails(); err != nil {
		return err
	}
	return s.Store.Do(ctx, q, decide)
}

func (s *switched) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	if err := s.fails(); err != nil {
		return nil, err
	}
	if s.moody.Load() && s.reads.Add(1)%2 == 1 {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the read failed on purpose"}
	}
	return s.Store.Bodies(ctx, keys)
}

func (s *switched) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	if err := s.fails(); err != nil {
		return nil, err
	}
	return s.Store.Job(ctx, key)
}

func (s *switched) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	if err := s.fails(); err != nil {
		return nil, err
	}
	return s.Store.Beat(ctx, p)
}

func newSite(t *testing.T, capacity int, handlers map[string]worker.Handler) *site {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: &switched{Store: db}}
	s.engine = engine.New(engine.Config{Store: s.store, Poll: 20 * time.Millisecond, Silence: time.Hour, Jitter: func() float64 { return 0 }})
	s.worker, err = worker.Start(t.Context(), s.engine, worker.Config{Capacity: capacity, Handlers: handlers,
		Poll: 20 * time.Millisecond, Beat: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

func (s *site) stop() {
	s.store.away.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = s.worker.Drain(ctx)
	s.engine.Close()
	_ = s.store.Close()
}

func (s *site) submit(src string) pawl.ID {
	s.t.Helper()
	def, err := workflow.Parse("test.yaml", []byte(src))
	if err != nil {
		s.t.Fatal(err)
	}
	answers, err := s.engine.Submit(s.t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test"})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return answers[0].ID
}

func (s *site) job(id pawl.ID) *pawl.JobView {
	s.t.Helper()
	v, err := s.engine.Job(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) wait(id pawl.ID) *pawl.JobView {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.engine.Wait(ctx, id); err != nil {
		s.t.Fatal(err)
	}
	return s.job(id)
}

func (s *site) until(what string, f func() bool) {
	s.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("it did not happen: %s", what)
		}
	}
}

func done(string) worker.Result { return worker.Result{Output: json.RawMessage(`"done"`)} }

func TestCapacityIsRespected(t *testing.T) { // J7, T3
	t.Parallel()
	var now, most atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	s := newSite(t, 3, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			once.Do(func() { close(full) })
		}
		<-full
		return done(task.Key)
	}})
	var ids []pawl.ID
	for i := range 5 {
		ids = append(ids, s.submit(fmt.Sprintf("name: w%d\nsteps: [{id: each, handler: h, foreach: \"${{ [1, 2, 3, 4, 5, 6, 7, 8] }}\"}]\n", i)))
	}
	for _, id := range ids {
		if v := s.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", v.Status)
		}
	}
	if most.Load() != 3 {
		t.Errorf("%d steps at once; want the capacity of 3", most.Load())
	}
}

// TestAnAbsentDatabaseLosesNoResult: steps end while the database is away; their
// results are stored when it is back, and no attempt is spent.
func TestAnAbsentDatabaseLosesNoResult(t *testing.T) { // T10
	t.Parallel()
	var calls atomic.Int64
	started, open := make(chan struct{}, 8), make(chan struct{})
	s := newSite(t, 8, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		calls.Add(1)
		started <- struct{}{}
		<-open
		return done(task.Key)
	}})
	id := s.submit("name: away\nsteps: [{id: each, handler: h, foreach: \"${{ [1, 2, 3, 4] }}\", retry: {max_attempts: 1}}]\n")
	for range 4 {
		<-started
	}
	s.store.away.Store(true)
	close(open)
	before := s.store.hits.Load()
	s.until("the report fails", func() bool { return s.store.hits.Load() > before+3 })
	s.store.away.Store(false)
	v := s.wait(id)
	if v.Status != lifecycle.JobCompleted || calls.Load() != 4 {
		t.Errorf("status %s after %d runs; want COMPLETED after 4", v.Status, calls.Load())
	}
}

// TestAnInputThatCannotBeReadCostsNoAttempt: the database goes away between the
// claim and the reading of what the step needs.
func TestAnInputThatCannotBeReadCostsNoAttempt(t *testing.T) { // T6, T10
	t.Parallel()
	var calls atomic.Int64
	s := newSite(t, 1, map[string]worker.Handler{
		"first": func(context.Context, *worker.Task) worker.Result { return done("") },
		"second": func(context.Context, *worker.Task) worker.Result {
			calls.Add(1)
			return done("")
		}})
	id := s.submit("name: brief\nsteps: [{id: a, handler: first}]\n")
	s.wait(id)
	s.store.moody.Store(true)
	id = s.submit("name: brief2\ninputs: {list: {type: array, default: [1]}}\nsteps: [{id: a, handler: first}, {id: each, handler: second, needs: [a], foreach: \"${{ [steps.a.output] }}\", retry: {max_attempts: 1}}]\n")
	if v := s.wait(id); v.Status != lifecycle.JobCompleted || calls.Load() != 1 {
		t.Errorf("status %s, %v after %d runs; want COMPLETED after 1", v.Status, v.Error, calls.Load())
	}
}

func TestWhatHandlersAnswer(t *testing.T) { // T6, T8, J9
	t.Parallel()
	tests := map[string]struct {
		handler worker.Handler
		status  machine.State
		class   string
	}{
		"a panic":  {func(context.Context, *worker.Task) worker.Result { panic("no") }, lifecycle.JobFailed, "panic"},
		"nothing":  {func(context.Context, *worker.Task) worker.Result { return worker.Result{} }, lifecycle.JobCompleted, ""},
		"no JSON":  {answers("{no"), lifecycle.JobFailed, "invalid_output"},
		"too much": {answers(`"` + string(filled(2<<20)) + `"`), lifecycle.JobFailed, "output_too_large"},
		"both": {func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Output: json.RawMessage("1"), Failure: &pawl.Failure{Class: "c", Permanent: true}}
		}, lifecycle.JobFailed, "c"},
		"an error":        {worker.Func(func(context.Context, *worker.Task) (any, error) { return nil, errors.New("oh") }), lifecycle.JobFailed, "error"},
		"a Go value":      {worker.Func(func(context.Context, *worker.Task) (any, error) { return map[string]int{"a": 1}, nil }), lifecycle.JobCompleted, ""},
		"a strange value": {worker.Func(func(context.Context, *worker.Task) (any, error) { return make(chan int), nil }), lifecycle.JobFailed, "invalid_output"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 1, map[string]worker.Handler{"h": tt.handler})
			v := s.wait(s.submit("name: a\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}]\n"))
			if v.Status != tt.status || tt.class != "" && (v.Error == nil || v.Error.Class != tt.class) {
				t.Errorf("status %s, error %+v; want %s %s", v.Status, v.Error, tt.status, tt.class)
			}
			if v.Status == lifecycle.JobCompleted && !json.Valid(v.Steps[0].Output) {
				t.Errorf("output %q is not JSON", v.Steps[0].Output)
			}
		})
	}
}

func answers(output string) worker.Handler {
	return func(context.Context, *worker.Task) worker.Result {
		return worker.Result{Output: json.RawMessage(output)}
	}
}

func filled(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// TestDrain lets what runs end, takes nothing more, ends the worker's record and
// leaves no goroutine behind.
func TestDrain(t *testing.T) { // J1, J9
	started, open := make(chan struct{}, 8), make(chan struct{})
	before := goleak.IgnoreCurrent()
	s := newSite(t, 1, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		started <- struct{}{}
		<-open
		return done(task.Key)
	}})
	id := s.submit("name: d\nsteps: [{id: a, handler: h}, {id: b, handler: h}]\n")
	<-started
	var all sync.WaitGroup
	for range 3 { // by several at once, and again
		all.Go(func() {
			if err := s.worker.Drain(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	close(open)
	all.Wait()
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	complete := 0
	for _, step := range s.job(id).Steps {
		if step.Status == lifecycle.StepComplete {
			complete++
		}
	}
	if complete == 0 {
		t.Error("no step was allowed to end")
	}
	workers, err := s.store.Workers(t.Context(), store.WorkerFilter{})
	if err != nil || len(workers) != 1 || workers[0].State != lifecycle.WorkerCompleted {
		t.Errorf("workers %+v, %v; want the one COMPLETED", workers, err)
	}
	s.stop()
	goleak.VerifyNone(t, before)
}

// TestDrainOfAnIdleWorker ends a record that never had a task.
func TestDrainOfAnIdleWorker(t *testing.T) { // J1
	t.Parallel()
	s := newSite(t, 1, map[string]worker.Handler{"h": answers("1")})
	if err := s.worker.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	living, err := s.store.Workers(t.Context(), store.WorkerFilter{Living: true})
	if err != nil || len(living) != 0 {
		t.Errorf("workers %v, %v still live", living, err)
	}
}

// TestAHandlerThatEndsItsGoroutine: a step whose handler panics, or ends its goroutine,
// fails (J9), and the worker continues.
func TestAHandlerThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, map[string]worker.Handler{
		"panic": func(context.Context, *worker.Task) worker.Result { panic("on purpose") },
		"exit":  func(context.Context, *worker.Task) worker.Result { runtime.Goexit(); return worker.Result{} },
		"fine":  func(_ context.Context, task *worker.Task) worker.Result { return done(task.Key) },
	})
	for handler, want := range map[string]machine.State{"panic": lifecycle.JobFailed, "exit": lifecycle.JobFailed, "fine": lifecycle.JobCompleted} {
		v := s.wait(s.submit("name: w\nsteps: [{id: a, handler: " + handler + "}]\n"))
		if v.Status != want || v.Error != nil && v.Error.Class != "panic" {
			t.Errorf("%s: status %s, error %v; want %s, and class panic", handler, v.Status, v.Error, want)
		}
	}
}
