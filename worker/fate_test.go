package worker

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

// An interposed store calls back before its next transaction, and no heart beats.
type interposed struct {
	store.Store
	before atomic.Pointer[func()]
}

func (s *interposed) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if f := s.before.Swap(nil); f != nil {
		(*f)()
	}
	return s.Store.Do(ctx, q, decide)
}

func (s *interposed) Beat(context.Context, link.Pulse) (*link.Pulsed, error) {
	return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "no beat"}
}

// TestAStepLearnsTheFateOfItsWorker: that an operator has ended the worker, and only a
// step's own report shows while the drain begins, is what the drain returns.
func TestAStepLearnsTheFateOfItsWorker(t *testing.T) { // J1
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &interposed{Store: db}
	e := engine.New(engine.Config{Store: s, Passive: true, Silence: time.Hour})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	workers := make(chan *Worker, 1)
	h := func(ctx context.Context, _ *Task) Result {
		w := <-workers
		if err := e.Terminate(ctx, w.key(), decide.Note{Actor: "ann", Reason: "enough"}); err != nil {
			t.Error(err)
		}
		drain := func() { w.once.Do(func() { close(w.drain) }) }
		s.before.Store(&drain)
		return Result{}
	}
	w, err := Start(t.Context(), e, Config{Capacity: 1, Handlers: map[string]Handler{"h": h}, Beat: time.Hour, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	def, err := workflow.Parse("fate.yaml", []byte("name: fate\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()}); err != nil || a[0].Err != nil {
		t.Fatal(err, a)
	}
	workers <- w
	<-w.Over()
	var fate *TerminatedError
	if err := w.Drain(context.Background()); !errors.As(err, &fate) || fate.Actor != "ann" {
		t.Errorf("the drain answers %v; want that ann has terminated the worker", err)
	}
}
