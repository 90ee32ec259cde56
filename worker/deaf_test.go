package worker_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/worker"
)

// deaf is a store that hears no hint, and knows it or not.
type deaf struct {
	store.Store
	knows bool
}

func (d *deaf) Listen(ctx context.Context, _ func(store.Hint)) error {
	<-ctx.Done()
	return nil
}

func (d *deaf) Hears() bool { return !d.knows }

// TestLostHints: work that no hint announced is found by the next beat; a worker that
// knows that it hears nothing asks for it.
func TestLostHints(t *testing.T) { // T10, T4
	t.Parallel()
	for name, tt := range map[string]struct {
		knows      bool
		beat, poll time.Duration
	}{
		"hints that got lost":    {false, 20 * time.Millisecond, time.Hour},
		"hints that cannot come": {true, time.Hour, 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
			if err != nil {
				t.Fatal(err)
			}
			s := &site{t: t, store: &switched{Store: db}}
			s.engine = engine.New(engine.Config{Store: s.store, Poll: 20 * time.Millisecond, Silence: 24 * time.Hour})
			there := &deaf{Store: db, knows: tt.knows}
			other := engine.New(engine.Config{Store: there, Passive: true})
			t.Cleanup(other.Close)
			s.worker, err = worker.Start(t.Context(), other, worker.Config{Handlers: map[string]worker.Handler{"h": answers("1")},
				Beat: tt.beat, Poll: tt.poll})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.stop)
			for range 3 { // one may come before the worker's first look
				s.wait(s.submit("name: d\nsteps: [{id: a, handler: h}, {id: b, handler: h}]\n"))
			}
		})
	}
}
