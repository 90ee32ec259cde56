package worker_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func TestFloor(t *testing.T) { // J9
	t.Parallel()
	rooms := []worker.Room{{Of: "the memory", Free: 60, Whole: 1000}, {Of: "nothing that is known"}, {Of: "the disk of /x", Free: 30, Whole: 1000}}
	probe := func([]string) []worker.Room { return rooms }
	for percent, want := range map[float64]string{
		0: "", 3: "",
		5: "3.0 % of the disk of /x is free, which is less than 5 %",
		7: "6.0 % of the memory is free, which is less than 7 %",
	} {
		if got := (worker.Floor{Percent: percent, Probe: probe}).Scarce(); got != want {
			t.Errorf("floor %g: %q, want %q", percent, got, want)
		}
	}
}

// TestFloorOfThisMachine: what there is is measured, the folder that does not
// exist left out.
func TestFloorOfThisMachine(t *testing.T) { // J9
	t.Parallel()
	f := worker.Floor{Percent: 100, Folders: []string{filepath.Join(t.TempDir(), "none"), t.TempDir()}}
	if why := f.Scarce(); why != "" && !strings.HasSuffix(why, " is free, which is less than 100 %") {
		t.Errorf("scarce: %q", why)
	}
	f.Percent = 1e-9
	if why := f.Scarce(); why != "" {
		t.Errorf("scarce: %q; want nothing to be, as something is free", why)
	}
}

// TestScarceWorker: a worker pauses itself while there is too little memory, what it
// runs goes back, its attempt refunded, and it resumes by itself.
func TestScarceWorker(t *testing.T) { // J9, J1
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: &switched{Store: db}}
	s.engine = engine.New(engine.Config{Store: s.store, Poll: 20 * time.Millisecond, Silence: time.Hour})
	var little atomic.Bool
	scarce := func() string {
		if little.Load() {
			return scarceText
		}
		return ""
	}
	started := make(chan int, 8)
	h := func(ctx context.Context, task *worker.Task) worker.Result {
		started <- task.Claim
		if task.Claim > 1 {
			return done("")
		}
		<-ctx.Done()
		return worker.Result{Failure: &pawl.Failure{Class: "stopped", Message: "it was stopped"}}
	}
	s.worker, err = worker.Start(t.Context(), s.engine, worker.Config{Handlers: map[string]worker.Handler{"h": h},
		Poll: 20 * time.Millisecond, Beat: 20 * time.Millisecond, Scarce: scarce})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	id := s.submit("name: m\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}]\n")
	<-started
	little.Store(true)
	s.until("the worker pauses itself, and the step goes back", func() bool {
		step := s.job(id).Steps[0]
		return s.workerState() == lifecycle.WorkerPaused && step.Status != lifecycle.StepInProgress && step.Attempts == 0
	})
	little.Store(false)
	if v := s.wait(id); v.Status != lifecycle.JobCompleted || v.Steps[0].Claims != 2 {
		t.Errorf("status %s after %d claims; want COMPLETED after 2", v.Status, v.Steps[0].Claims)
	}
	workers, err := s.store.Workers(t.Context(), store.WorkerFilter{Living: true})
	if err != nil {
		t.Fatal(err)
	}
	var history []pawl.Transition
	var path []string
	err = s.engine.WorkerHistory(t.Context(), workers[0].ID, func(m pawl.Transition) error {
		history, path = append(history, m), append(path, string(m.Event))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(path, " "); got != "register start_task pause resume" || history[2].Reason != scarceText || history[2].Actor != s.worker.ID() {
		t.Errorf("the worker went %s, and paused by %s: %s", got, history[2].Actor, history[2].Reason)
	}
}

const scarceText = "1 % of the memory is free"

func (s *site) workerState() machine.State {
	s.t.Helper()
	workers, err := s.store.Workers(s.t.Context(), store.WorkerFilter{})
	if err != nil || len(workers) != 1 {
		s.t.Fatal(workers, err)
	}
	return workers[0].State
}
