package worker

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A doorway holds the first transaction that claims until it is opened.
type doorway struct {
	store.Store
	once    sync.Once
	entered chan struct{}
	leave   chan struct{}
}

func (d *doorway) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if len(q.Claims) > 0 {
		d.once.Do(func() {
			close(d.entered)
			<-d.leave
		})
	}
	return d.Store.Do(ctx, q, decide)
}

// TestInterruptingMeetsAClaim: a worker that is interrupted while it claims does
// not run what the claim brings to its end; the step goes back.
func TestInterruptingMeetsAClaim(t *testing.T) { // T1
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	d := &doorway{Store: db, entered: make(chan struct{}), leave: make(chan struct{})}
	e := engine.New(engine.Config{Store: d, Silence: time.Hour})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	def, err := workflow.Parse("long.yaml", []byte("name: long\nsteps: [{id: a, handler: long}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	subs, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()})
	if err != nil || subs[0].Err != nil {
		t.Fatal(subs, err)
	}
	long := func(ctx context.Context, _ *Task) Result {
		<-ctx.Done()
		return Result{Failure: &pawl.Failure{Class: "stopped", Message: "it was stopped"}}
	}
	w, err := Start(t.Context(), e, Config{Capacity: 1, Handlers: map[string]Handler{"long": long}})
	if err != nil {
		t.Fatal(err)
	}
	<-d.entered
	w.once.Do(func() { close(w.drain) })
	w.interrupt()
	close(d.leave)
	select {
	case <-w.over:
	case <-time.After(30 * time.Second):
		t.Error("the worker runs on")
		w.stopAll(ErrInterrupted)
		<-w.over
	}
	v, err := e.Job(t.Context(), subs[0].ID)
	if err != nil || v.Steps[0].Status == lifecycle.StepInProgress || v.Steps[0].Attempts != 0 {
		t.Errorf("the step: %+v, %v; want it back in the queue, its attempt refunded", v.Steps[0], err)
	}
}

// absent is a store whose transactions fail while it is away.
type absent struct {
	store.Store
	away atomic.Bool
}

func (a *absent) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if a.away.Load() {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the database is away"}
	}
	return a.Store.Do(ctx, q, decide)
}

// TestDrainEndsWhileTheDatabaseIsAway: a worker that has to stop does not wait
// for a database to take its reports; its steps are found lost.
func TestDrainEndsWhileTheDatabaseIsAway(t *testing.T) { // T10
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &absent{Store: db}
	e := engine.New(engine.Config{Store: s, Silence: time.Hour})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	started, open := make(chan struct{}), make(chan struct{})
	h := func(context.Context, *Task) Result {
		close(started)
		<-open
		return Result{}
	}
	w, err := Start(t.Context(), e, Config{Handlers: map[string]Handler{"h": h}})
	if err != nil {
		t.Fatal(err)
	}
	def, err := workflow.Parse("away.yaml", []byte("name: away\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if subs, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()}); err != nil || subs[0].Err != nil {
		t.Fatal(subs, err)
	}
	<-started
	s.away.Store(true)
	close(open)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Drain(over); err != nil { // or the test never ends
		t.Error(err)
	}
	left, err := db.Workers(t.Context(), store.WorkerFilter{Living: true})
	if err != nil || len(left) != 1 {
		t.Errorf("%d living workers in the database, %v; want the one that could not say that it ended", len(left), err)
	}
}
