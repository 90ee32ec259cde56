package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// S10: each service is stopped as soon as all that depend on it have stopped, whatever
// else takes its time: the dumb twin adds up the longest chains of random graphs.
func TestStopsFollowTheirOwnDependants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				random := rand.New(rand.NewPCG(seed, 0))
				const n = 9
				var took, ends [n]time.Duration // of the stop; when it ends
				var needs [n][]string           // those of smaller numbers
				stopped := map[string]time.Time{}
				for i := range n {
					id := fmt.Sprint(i)
					took[i] = time.Duration(1+random.IntN(4)) * time.Second
					for j := range i {
						if random.IntN(3) == 0 {
							needs[i] = append(needs[i], fmt.Sprint(j))
						}
					}
					p := &plant{id: id}
					p.stop = func(ctx context.Context, p *plant) error {
						err := takes(took[i])(ctx, p)
						h.mu.Lock()
						defer h.mu.Unlock()
						stopped[id] = time.Now()
						return err
					}
					h.add(p, supervisor.Options{DependsOn: needs[i]})
				}
				pass(20 * time.Second)
				began := time.Now()
				if r := h.stop(); len(r.Left) != 0 {
					t.Errorf("left %+v", r.Left)
				}
				for i := n - 1; i >= 0; i-- {
					var after time.Duration
					for j := i + 1; j < n; j++ {
						if slices.Contains(needs[j], fmt.Sprint(i)) {
							after = max(after, ends[j])
						}
					}
					ends[i] = after + took[i]
					if got := stopped[fmt.Sprint(i)].Sub(began); got != ends[i] {
						t.Errorf("%d has stopped after %s, want %s", i, got, ends[i])
					}
				}
				if longest := slices.Max(ends[:]); time.Since(began) != longest {
					t.Errorf("the stop took %s, want %s", time.Since(began), longest)
				}
			})
		})
	}
}

// S10: a budget is that of the service, not that of the most patient one beside it.
func TestStopBudgetIsItsOwn(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "slow", stop: takes(4 * time.Second)}, supervisor.Options{})
		h.add(&plant{id: "idle"}, supervisor.Options{StopTimeout: time.Hour})
		var took time.Duration
		h.add(&plant{id: "stuck", stop: func(ctx context.Context, _ *plant) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return context.Cause(ctx)
		}}, supervisor.Options{StopTimeout: 300 * time.Millisecond})
		pass(5 * time.Second)
		if r := h.stop(); len(r.Left) != 1 || r.Left[0].ID != "stuck" || took != 300*time.Millisecond {
			t.Errorf("cancelled after %s, left %+v", took, r.Left)
		}
	})
}

// S10: what waits for others says so, for as long as it waits, and for whom.
func TestStopSaysWhatItWaitsFor(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "db"}, supervisor.Options{})
		for i := range 7 {
			h.add(&plant{id: fmt.Sprint("web", i), stop: takes(time.Duration(i+1) * 500 * time.Millisecond)}, supervisor.Options{DependsOn: []string{"db"}})
		}
		pass(5 * time.Second)
		h.cancel()
		for _, want := range []string{
			"the stop of web0, web1, web2, web3, web4 and 2 more",
			"the stop of web2, web3, web4, web5, web6",
			"the stop of web4, web5, web6",
			"the stop of web6",
		} {
			pass(100 * time.Millisecond)
			if st, _ := h.s.Status("db"); st.Waits != want || len(st.StopsAfter) == 0 {
				t.Errorf("waits for %q, want %q", st.Waits, want)
			}
			if st, _ := h.s.Status("web6"); len(st.StopsAfter) != 0 {
				t.Errorf("web6 waits for %v", st.StopsAfter)
			}
			pass(900 * time.Millisecond)
		}
		h.stop()
		if st, _ := h.s.Status("db"); len(st.StopsAfter) != 0 {
			t.Errorf("after the stop db waits for %v", st.StopsAfter)
		}
	})
}

// S10: a removal and a stop of everything, one in the middle of the other, keep the
// order together, and both end.
func TestStopInTheMiddleOfARemoval(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "db"}, supervisor.Options{})
		h.add(&plant{id: "api", stop: takes(2 * time.Second)}, supervisor.Options{DependsOn: []string{"db"}})
		h.add(&plant{id: "web", stop: takes(2 * time.Second)}, supervisor.Options{DependsOn: []string{"api"}})
		pass(5 * time.Second)
		removed := make(chan error, 1)
		go func() {
			r, err := h.s.Remove(context.Background(), "api")
			if len(r.Left) != 0 {
				err = errors.Join(err, fmt.Errorf("left %+v", r.Left))
			}
			removed <- err
		}()
		pass(time.Second)
		h.cancel()
		pass(900 * time.Millisecond)
		h.in("db", lifecycle.ServiceRunning)
		h.in("api", lifecycle.ServiceRunning)
		pass(1900 * time.Millisecond)
		h.in("api", lifecycle.ServiceTryingToStop)
		h.in("db", lifecycle.ServiceRunning)
		if r := h.stop(); len(r.Left) != 0 {
			t.Errorf("left %+v", r.Left)
		}
		synctest.Wait()
		if err := <-removed; err != nil {
			t.Error(err)
		}
	})
}
