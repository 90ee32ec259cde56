package runner

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

// A doorway holds the first transaction that claims until it is told to go on.
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
	w, err := Start(t.Context(), WorkerConfig{Engine: e, Store: d, Capacity: 1, Handlers: map[string]Handler{"long": long}})
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
