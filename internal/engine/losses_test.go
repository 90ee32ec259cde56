package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// losses returns how often the step has lost its worker, and how often it was
// interrupted.
func (p *process) losses(id pawl.ID) (lost, interrupted int) {
	p.t.Helper()
	key := pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)}
	trail, err := p.store.Trail(p.t.Context(), store.StepEntity(key), 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range trail {
		if e.Event == lifecycle.StepInterrupt {
			interrupted++
		}
	}
	stored, err := p.store.Steps(p.t.Context(), id.JobKey(), 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return stored[0].Losses, interrupted
}

// TestALossOfALivingWorkerIsGivenBack: no matter how often a living worker is considered
// dead, its step is not given up, and its trail names the worker (T7).
func TestALossOfALivingWorkerIsGivenBack(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		id := p.submit(define(t, oneStep), "")
		for range decide.MaxLosses + 1 {
			g.wait(t)
			before := p.worker.ID()
			if err := p.engine.Terminate(t.Context(), p.workerKey(), decide.Note{Reason: "taken for dead"}); err != nil {
				t.Fatal(err)
			}
			until(t, "the worker registers anew", func() bool { return p.worker.ID() != before })
			history, err := collected(t.Context(), p.engine.WorkerHistory, mustParse(t, p.worker.ID()))
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf(`{"predecessor":%q,"losses_given_back":1}`, before); string(history[0].Metadata) != want {
				t.Errorf("the trail of the worker begins with %s, want %s", history[0].Metadata, want)
			}
		}
		g.wait(t)
		if lost, _ := p.losses(id); lost != 0 {
			t.Errorf("%d losses are counted, want none", lost)
		}
		g.release()
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s: %v", v.Status, v.Error)
		}
		verify(t, p.store)
	})
}

func mustParse(t *testing.T, worker string) pawl.ID {
	t.Helper()
	id, err := pawl.ParseID(pawl.WorkerPrefix, worker)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestOthersLossesAreNotGivenBack: a worker names claims that it never had, that it did not
// lose, or that belong to steps that have ended.
func TestOthersLossesAreNotGivenBack(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := start(t, open(), setup{})
		id := p.submit(define(t, oneStep), "")
		var dead []*hand
		var claims []link.Claimed
		for range 2 {
			h := p.hand("h")
			claims = append(claims, h.claim(1)[0].Step)
			dead = append(dead, h)
			if err := p.engine.Terminate(t.Context(), h.worker.Key(), workerNote("killed")); err != nil {
				t.Fatal(err)
			}
			until(t, "the loss is applied", func() bool { return steps(p.job(id))["a"].Status != lifecycle.StepRetryableError })
		}
		again := func(h *hand, claims ...link.Claimed) {
			t.Helper()
			_, release, err := p.engine.Register(t.Context(), link.Registration{Worker: *h.worker, Actor: "test",
				Before: &link.Predecessor{Worker: h.worker.Key(), Claims: claims}})
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		want := func(what string, n int) {
			t.Helper()
			if lost, _ := p.losses(id); lost != n {
				t.Errorf("%s: %d losses, want %d", what, lost, n)
			}
		}
		want("two workers died", 2)
		again(dead[0], claims[1])
		want("the claim of another", 2)
		unknown := claims[0]
		unknown.Job++
		again(dead[0], unknown)
		want("a step that is not there", 2)
		unknown = claims[0]
		unknown.Claims = 9
		again(dead[0], unknown)
		want("a claim that was not made", 2)
		again(dead[0], claims[0])
		want("its own claim", 1)
	})
}

// TestSilenceOfAllIsNoLoss: when workers are cut off together, their steps return as after
// an interrupt, without a loss; a worker that is silent alone loses its step (T7, J9).
func TestSilenceOfAllIsNoLoss(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("others beat %v", alone), func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				observer := startProcess(t, db.open(), nil)
				id := observer.submit(define(t, "name: cut\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}]\n"), "")
				h := observer.hand("h") // holds its name, and never beats
				h.claim(1)
				var beating atomic.Bool
				beating.Store(alone)
				other := observer.hand("other")
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					tick := time.NewTicker(100 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
						if beating.Load() {
							_, _ = observer.store.Beat(context.Background(), link.Pulse{Worker: other.worker.Key()})
						}
					}
				}()
				p := start(t, db.open(), setup{silence: 2 * time.Second})
				var lost, interrupted int
				until(t, "the step is taken from the silent worker", func() bool {
					lost, interrupted = p.losses(id)
					return lost+interrupted > 0
				})
				if alone != (lost == 1) || alone == (interrupted == 1) {
					t.Errorf("%d losses and %d interrupts; others beat: %v", lost, interrupted, alone)
				}
				moves, err := collected(t.Context(), p.engine.WorkerHistory, h.worker.ID)
				if err != nil || strings.HasSuffix(moves[len(moves)-1].Reason, "as all workers were") == alone {
					t.Errorf("the worker ended because %q, %v", moves[len(moves)-1].Reason, err)
				}
				if s := steps(p.job(id))["a"]; s.Attempts != 0 || !slices.Contains([]string{"retryable_error", "pending", "enqueued"}, string(s.Status)) {
					t.Errorf("step %+v; want it to be tried again, without a lost attempt", s)
				}
			})
		})
	}
}
