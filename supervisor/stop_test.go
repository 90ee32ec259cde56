package supervisor_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// S10, S3: where the journal fails nothing moves, so nothing can be stopped; the stop
// is bounded for each level and says so. Once the journal works the rest is stopped.
func TestStopWithAJournalThatFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		heals time.Duration // after the stop began
		left  int
		most  time.Duration
	}{
		{"for good", time.Hour, 3, 37 * time.Second},
		{"for a while", 2500 * time.Millisecond, 0, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := &slowJournal{}
			bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
				plants := []*plant{{id: "db"}, {id: "api"}, {id: "web"}}
				h.add(plants[0], supervisor.Options{})
				h.add(plants[1], supervisor.Options{DependsOn: []string{"db"}})
				x := h.add(plants[2], supervisor.Options{DependsOn: []string{"api"}})
				pass(5 * time.Second)
				j.broken.Store(&errTest)
				_ = x.SetSpec(want{Down: true}) // it waits for the journal, and longer each time
				pass(50 * time.Second)
				h.in("db", lifecycle.ServiceRunning)
				time.AfterFunc(tt.heals, func() { j.broken.Store(nil) })
				began := time.Now()
				r := h.stop()
				if took := time.Since(began); took > tt.most || len(r.Left) != tt.left {
					t.Errorf("the stop took %s and left %+v, want %d within %s", took, r.Left, tt.left, tt.most)
				}
				for _, l := range r.Left {
					if !strings.Contains(l.Why, "the journal, which failed") {
						t.Errorf("%s is left because of %q", l.ID, l.Why)
					}
				}
				for _, p := range plants {
					if p.up != (tt.left > 0) {
						t.Errorf("%s is up %t", p.id, p.up)
					}
				}
			})
		})
	}
}

// S11: a restart has a budget for its stop, and does not hang in silence.
func TestRestartHasABudget(t *testing.T) {
	var escalated []string
	c := supervisor.Config{Hooks: supervisor.Hooks{Escalated: func(_ supervisor.Identity, reason string) { escalated = append(escalated, reason) }}}
	bubble(t, c, func(h *hall) {
		var cause atomic.Value
		p := &plant{id: "web", stop: func(ctx context.Context, p *plant) error {
			<-ctx.Done()
			cause.Store(context.Cause(ctx))
			return ctx.Err()
		}}
		asked := false
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && !n.Shutdown && !asked {
				asked = true
				return &decision{Signal: supervisor.SignalNeedsRestart, Reason: "new certificates", Actor: "ann"}
			}
			return nil
		}
		h.add(p, supervisor.Options{StopTimeout: 7 * time.Second})
		pass(6 * time.Second)
		if cause.Load() != nil {
			t.Error("it was cancelled within its budget")
		}
		pass(time.Second + 100*time.Millisecond)
		if why, _ := cause.Load().(error); !errors.Is(why, supervisor.ErrShuttingDown) {
			t.Errorf("cause %v", why)
		}
		pass(6 * time.Second)
		if len(escalated) != 1 || !strings.Contains(escalated[0], "a restart does not come to rest: it waits for ") {
			t.Errorf("escalated %q", escalated)
		}
		p.set(func() { p.up = false }) // it goes by itself
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if p.began("start") != 2 {
			t.Errorf("runs %v", p.runs)
		}
	})
}

// S11: an action that is deaf is abandoned, and reported; the restart continues when it
// has ended.
func TestRestartOfADeafOne(t *testing.T) {
	var escalated []string
	c := supervisor.Config{Hooks: supervisor.Hooks{Escalated: func(_ supervisor.Identity, reason string) { escalated = append(escalated, reason) }}}
	bubble(t, c, func(h *hall) {
		p, asked := &plant{id: "web", stop: deaf(time.Minute)}, false
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && !n.Shutdown && !asked {
				asked = true
				return &decision{Signal: supervisor.SignalNeedsRestart}
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(30 * time.Second)
		if len(escalated) != 1 || !strings.Contains(escalated[0], "abandoned") {
			t.Errorf("escalated %q", escalated)
		}
		p.set(func() { p.stop = nil })
		pass(2 * time.Minute)
		h.in("web", lifecycle.ServiceRunning)
	})
}

// S6, S10: a stop waits for as long as what runs may take once it is cancelled.
func TestStopWaitsForTheGraceOfTheAction(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		tidy := false
		p := &plant{id: "web", limits: supervisor.ActionLimits{Grace: time.Minute}}
		p.start = func(ctx context.Context, _ *plant) error {
			<-ctx.Done()
			time.Sleep(50 * time.Second)
			tidy = true
			return ctx.Err()
		}
		p.next = func(_ string, n snapshot) *decision {
			if n.Action.InProgress {
				return &decision{} // it does not cancel it: the budget does
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		if r := h.stop(); len(r.Left) != 0 || !tidy {
			t.Errorf("left %+v, tidied up %t", r.Left, tidy)
		}
	})
}

// S5: a stop that fails is tried again within the budget of a shutdown, with no
// observation to be had; one that has succeeded is not.
func TestStopIsRetriedWithoutAnObservation(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]int{"fails twice": 2, "succeeds": 0} {
		t.Run(name, func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				p := &plant{id: "web", stop: failing(fails, errTest)}
				h.add(p, supervisor.Options{StopTimeout: 8 * time.Second})
				pass(5 * time.Second)
				p.set(func() {
					p.look = takes(time.Hour)
					p.next = func(state string, n snapshot) *decision {
						if state == "trying_to_stop" && n.Shutdown && !n.Action.InProgress && !n.Seen.Fresh {
							return &decision{Action: &deed{p: p, name: "stop", f: p.stop}} // it trusts its eyes only
						}
						return nil
					}
				})
				pass(1500 * time.Millisecond) // a collection hangs
				r := h.stop()
				if p.began("stop") != fails+1 || p.up || len(r.Left) != 1 {
					t.Errorf("%d stops, up %t, left %+v", p.began("stop"), p.up, r.Left)
				}
			})
		})
	}
}

// S10: before Run there is nothing to wait for.
func TestRemoveBeforeRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := &supervisor.MemoryJournal{}
		h := newHall(t, supervisor.Config{Journal: j})
		x := h.add(&plant{id: "db"}, supervisor.Options{})
		h.add(&plant{id: "web"}, supervisor.Options{DependsOn: []string{"db"}})
		waited := make(chan error, 1)
		go func() { waited <- x.WaitFor(context.Background(), func(snapshot) bool { return false }) }()
		synctest.Wait()
		began := time.Now()
		if r, err := x.Remove(t.Context()); err != nil || len(r.Left) != 0 || time.Since(began) > 0 {
			t.Errorf("report %+v, %v, after %s", r, err, time.Since(began))
		}
		for _, id := range []string{"db", "web"} {
			if _, err := h.s.Status(id); !errors.Is(err, supervisor.ErrNotFound) {
				t.Errorf("%s is still there: %v", id, err)
			}
		}
		if _, err := x.Remove(t.Context()); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
		if err := <-waited; !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("waiting for what was removed: %v", err)
		}
		p := &plant{id: "db"}
		h.add(p, supervisor.Options{})
		h.run()
		pass(5 * time.Second)
		h.in("db", lifecycle.ServiceRunning)
		if _, err := x.Remove(t.Context()); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("another service of that id was removed: %v", err)
		}
		if first, last, _ := j.Lives(t.Context(), "db"); first != 1 || last != 1 {
			t.Errorf("lives %d to %d: want one that goes on", first, last)
		}
		h.stop()
	})
}

// A service that has left, and a supervisor that has stopped, end the waiting.
func TestWaitForTheGone(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		x, y := h.add(&plant{id: "web"}, supervisor.Options{}), h.add(&plant{id: "db"}, supervisor.Options{})
		pass(time.Second)
		wait := func(x *handle) <-chan error {
			done := make(chan error, 1)
			go func() { done <- x.WaitFor(context.Background(), func(snapshot) bool { return false }) }()
			synctest.Wait()
			return done
		}
		web, db := wait(x), wait(y)
		if _, err := x.Remove(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := <-web; !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("waiting for what has left: %v", err)
		}
		if err := x.SetSpec(want{Rev: 1}); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("specification of what has left: %v", err)
		}
		if err := x.WaitFor(context.Background(), func(n snapshot) bool { return n.Phase == lifecycle.ServiceStopped }); err != nil {
			t.Errorf("it had stopped: %v", err)
		}
		h.stop()
		if err := <-db; !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("waiting after the stop: %v", err)
		}
		if err := y.SetSpec(want{Rev: 1}); !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("specification after the stop: %v", err)
		}
		if err := y.WaitFor(context.Background(), func(snapshot) bool { return false }); !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("waiting after the stop: %v", err)
		}
		if err := y.WaitFor(context.Background(), func(n snapshot) bool { return n.Phase == lifecycle.ServiceStopped }); err != nil {
			t.Errorf("it has stopped: %v", err)
		}
	})
}

// sick panics in the methods besides Next, once that is switched on.
type sick struct {
	*plant
	states, first bool
}

func (s *sick) States() []state {
	panics := false
	s.set(func() { panics = s.states })
	if panics {
		panic("boom")
	}
	return s.plant.States()
}

func (s *sick) GetInitialState() state {
	if s.first {
		panic("boom")
	}
	return s.plant.GetInitialState()
}

// S10: a panic in States or GetInitialState refuses the service or stays in it, and one
// in Config.Random, or nonsense from it, affects no service.
func TestPanicsInTheRest(t *testing.T) {
	var calls atomic.Int64
	random := func() float64 {
		switch calls.Add(1) % 3 {
		case 0:
			panic("boom")
		case 1:
			return math.NaN()
		}
		return 7
	}
	bubble(t, supervisor.Config{Shards: 1, Random: random}, func(h *hall) {
		for _, w := range []*sick{{plant: &plant{}, states: true}, {plant: &plant{}, first: true}} {
			_, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "a"}, w, want{}, supervisor.Options{})
			if err == nil || !strings.Contains(err.Error(), "States or GetInitialState: panic: boom") {
				t.Errorf("error %v", err)
			}
		}
		bad := &sick{plant: &plant{id: "bad"}}
		if _, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "bad"}, bad, want{}, supervisor.Options{}); err != nil {
			t.Fatal(err)
		}
		bad.set(func() { bad.states = true })
		h.add(&plant{id: "web", start: failing(1, errTest)}, supervisor.Options{})
		pass(10 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		h.in("bad", lifecycle.ServiceStopped)
	})
}
