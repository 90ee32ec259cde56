package engine_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestClocksThatJump: the clock of a process is used only for ids. Even if it jumps, ids
// are distinct, leases hold, and backoffs and sleeps last as long as they should (K8, T10).
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	def := define(t, `
name: timed
steps:
  - {id: flaky, handler: flaky, retry: {max_attempts: 2, base: 50ms, jitter: none}}
  - {id: nap, needs: [flaky], sleep: 50ms}
`)
	onDatabases(t, func(t *testing.T, db *database) {
		s := db.open()
		e := engine.New(engine.Config{Store: s, Poll: 50 * time.Millisecond, Silence: time.Minute, Clock: func() time.Time {
			return time.Now().Add(rand.N(96*time.Hour) - 48*time.Hour)
		}})
		flaky := func(_ context.Context, task *worker.Task) worker.Result {
			if task.Attempt == 1 {
				return worker.Result{Failure: &pawl.Failure{Class: "early", Message: "not yet"}}
			}
			return worker.Result{}
		}
		w, err := worker.Start(t.Context(), e, worker.Config{Handlers: map[string]worker.Handler{"flaky": flaky}, Poll: 50 * time.Millisecond, Beat: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		p := &process{t: t, store: s, engine: e, worker: w}
		defer p.stop()
		seen := map[pawl.ID]bool{}
		for range 30 {
			seen[p.submit(def, "")] = true
		}
		if len(seen) != 30 {
			t.Errorf("%d ids of 30 jobs", len(seen))
		}
		for id := range seen {
			j := p.wait(id)
			took := j.CompletedAt.Time().Sub(j.CreatedAt.Time())
			if j.Status != lifecycle.JobCompleted || took < 100*time.Millisecond || took > patience {
				t.Errorf("job %s is %s after %s", j.ID, j.Status, took)
			}
		}
	})
}
