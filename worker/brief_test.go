package worker_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestBriefStepsLeaveNoSlotIdle: a worker that visits without a rest, since its steps are brief,
// still looks for what no hint announces, while slots are free.
func TestBriefStepsLeaveNoSlotIdle(t *testing.T) { // T10, T4
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: &switched{Store: db}}
	s.engine = engine.New(engine.Config{Store: s.store, Poll: 20 * time.Millisecond, Silence: 24 * time.Hour})
	other := engine.New(engine.Config{Store: &deaf{Store: db, knows: true}, Passive: true})
	t.Cleanup(other.Close)
	var ran atomic.Int64
	s.worker, err = worker.Start(t.Context(), other, worker.Config{Capacity: 6, Beat: time.Hour, Poll: 5 * time.Millisecond,
		Handlers: map[string]worker.Handler{
			"brief": func(_ context.Context, task *worker.Task) worker.Result { ran.Add(1); return done(task.Key) },
			"h":     answers("1"),
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	fan := s.submit("name: fan\nsteps: [{id: each, handler: brief, parallel: 3, foreach: [" + strings.Repeat("1, ", 4999) + "1]}]\n")
	s.until("some instances have run", func() bool { return ran.Load() > 200 })
	id := s.submit("name: one\nsteps: [{id: a, handler: h}]\n")
	if v := s.wait(id); v.Status != lifecycle.JobCompleted {
		t.Errorf("status %s", v.Status)
	}
	if v := s.job(fan); v.Status != lifecycle.JobRunning {
		t.Errorf("the other job ran when %d instances had, and the fan-out was %s", ran.Load(), v.Status)
	} else {
		t.Logf("after %d instances", ran.Load())
	}
}
