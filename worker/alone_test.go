package worker_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

const chainOfThree = "name: chain\nsteps: [{id: a, handler: h}, {id: b, handler: h, needs: [a]}, {id: c, handler: h, needs: [b]}]\n"

// A roll is the goroutines that have run steps.
type roll struct {
	mu   sync.Mutex
	list []string
}

func (r *roll) add() {
	b := make([]byte, 64)
	name := strings.Fields(string(b[:runtime.Stack(b, false)]))[1]
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, name)
}

// TestAStepGoesOnWithTheNext: what a report makes ready is run by the goroutine that
// reports, if nothing else runs.
func TestAStepGoesOnWithTheNext(t *testing.T) { // T3
	t.Parallel()
	var r roll
	s := newSite(t, 4, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		r.add()
		return done(task.Key)
	}})
	// The loop may be on a visit of its own, and takes a report along then.
	s.until("a chain that one goroutine runs", func() bool {
		r.list = nil
		if v := s.wait(s.submit(chainOfThree)); v.Status != lifecycle.JobCompleted || len(r.list) != 3 {
			t.Fatalf("status %s after %d steps", v.Status, len(r.list))
		}
		return len(slices.Compact(r.list)) == 1
	})
}

// TestAHandlerMayEndWhatGoesOn: a handler that ends its goroutine, be it in the middle
// of a chain, ends no other step, and the loop continues the chain.
func TestAHandlerMayEndWhatGoesOn(t *testing.T) { // J9
	t.Parallel()
	s := newSite(t, 4, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		if task.Key == "b" && task.Attempt == 1 {
			runtime.Goexit()
		}
		return done(task.Key)
	}})
	v := s.wait(s.submit(strings.Replace(chainOfThree, "{id: b,", "{id: b, retry: {max_attempts: 2, base: 1ms, jitter: none},", 1)))
	if v.Status != lifecycle.JobCompleted {
		t.Errorf("status %s: %+v", v.Status, v.Error)
	}
}

// TestAChainOutlastsTheDatabase: what runs alone returns to the loop while the database
// is away, and is reported when it is there again.
func TestAChainOutlastsTheDatabase(t *testing.T) { // T10
	t.Parallel()
	var s *site
	var runs sync.Map
	s = newSite(t, 4, map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		if _, again := runs.LoadOrStore(task.Key, true); again {
			t.Errorf("step %s ran twice", task.Key)
		}
		if task.Key == "b" {
			s.store.away.Store(true)
		}
		return done(task.Key)
	}})
	id := s.submit(chainOfThree)
	s.until("the worker asks a database that is away", func() bool { return s.store.hits.Load() > 3 })
	s.store.away.Store(false)
	if v := s.wait(id); v.Status != lifecycle.JobCompleted {
		t.Errorf("status %s: %+v", v.Status, v.Error)
	}
}

// TestADrainEndsAChain: a worker that drains in the middle of a chain reports what runs,
// takes nothing more, and ends.
func TestADrainEndsAChain(t *testing.T) { // T3
	t.Parallel()
	var s *site
	over := make(chan struct{})
	s = newSite(t, 4, map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
		if task.Key == "b" {
			go func() {
				defer close(over)
				now, cancel := context.WithCancel(context.Background())
				cancel()
				_ = s.worker.Drain(now) // interrupts what runs
			}()
			<-ctx.Done()
		}
		return done(task.Key)
	}})
	id := s.submit(chainOfThree)
	<-over
	v := s.job(id)
	if v.Status != lifecycle.JobRunning || v.StepCounts[lifecycle.StepComplete] != 2 || v.StepCounts[lifecycle.StepEnqueued] != 1 {
		t.Errorf("status %s, steps %v; want two complete and one enqueued", v.Status, v.StepCounts)
	}
}
