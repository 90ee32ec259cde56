package worker

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

// A slowAnswer is a store that delays the reply to the first transaction that has made
// a job, when that is committed.
type slowAnswer struct {
	store.Store
	once    sync.Once
	entered chan struct{}
	leave   chan struct{}
}

func (s *slowAnswer) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	made := 0
	err := s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		c, err := decide(f)
		if c != nil {
			made = len(c.NewJobs)
		}
		return c, err
	})
	if made > 0 {
		s.once.Do(func() {
			close(s.entered)
			<-s.leave
		})
	}
	return err
}

// TestWhatComesTooLateForAWorkerIsNotRun: a step that was committed for a worker that
// has been taken for dead since is run by the worker that has claimed it again, and by
// no one beside it.
func TestWhatComesTooLateForAWorkerIsNotRun(t *testing.T) { // J1, T3
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &slowAnswer{Store: db, entered: make(chan struct{}), leave: make(chan struct{})}
	e := engine.New(engine.Config{Store: s, Silence: time.Hour, Poll: 20 * time.Millisecond, Lanes: 2, Jitter: func() float64 { return 0 }})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	var runs atomic.Int32
	started, open := make(chan struct{}, 2), make(chan struct{})
	h := func(context.Context, *Task) Result {
		runs.Add(1)
		started <- struct{}{}
		<-open
		return Result{}
	}
	w, err := Start(t.Context(), e, Config{Capacity: 1, Handlers: map[string]Handler{"h": h}, Beat: 20 * time.Millisecond, Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Drain(context.Background()) })
	for w.offered() == 0 {
		runtime.Gosched()
	}
	def, err := workflow.Parse("late.yaml", []byte("name: late\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan pawl.Submitted, 1)
	go func() {
		a, err := e.Submit(context.Background(), pawl.Submission{Definition: def.Canonical()})
		if err != nil {
			a = []pawl.Submitted{{Err: err}}
		}
		answered <- a[0]
	}()
	<-s.entered
	if err := e.Terminate(t.Context(), w.key(), decide.Note{Reason: "taken for dead"}); err != nil {
		t.Fatal(err)
	}
	<-started // by the worker under its new name
	close(s.leave)
	a := <-answered
	close(open)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if _, err := e.Wait(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the step was run %d times", n)
	}
}

func (w *Worker) offered() int {
	w.mu.Lock()
	offer := w.offer
	w.mu.Unlock()
	return offer.Reserved()
}
