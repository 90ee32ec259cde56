package supervisor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, supervisor.Config{})
		h.add(&plant{id: "web"}, supervisor.Options{})
		h.s.Force()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := h.s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
}

func TestRunOnce(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		if _, err := h.s.Run(context.Background()); !errors.Is(err, supervisor.ErrStarted) {
			t.Errorf("error %v, want ErrStarted", err)
		}
	})
}

func TestBeforeRunAndAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, supervisor.Config{})
		h.add(&plant{id: "web"}, supervisor.Options{})
		pass(time.Minute)
		h.run()
		pass(time.Second)
		h.in("web", lifecycle.ServiceRunning)
		h.stop()
		_, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "late"}, &plant{id: "late"}, want{}, supervisor.Options{})
		if !errors.Is(err, supervisor.ErrStopped) {
			t.Errorf("error %v, want ErrStopped", err)
		}
	})
}

func TestStopReportsWhatItLeaves(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "web", start: deaf(time.Hour)}, supervisor.Options{})
		pass(time.Second)
		began := time.Now()
		r := h.stop()
		if took := time.Since(began); took > 16*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if len(r.Left) != 1 || r.Left[0].ID != "web" || r.Left[0].Action != "start" || !strings.Contains(r.Left[0].Why, "abandoned") {
			t.Errorf("report %+v, want the abandoned start of web", r)
		}
		time.Sleep(time.Hour)
	})
}

// S4: a snapshot never has an outcome beside an older observation.
func TestFreshness(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var stale atomic.Int32
		p := &plant{id: "web", start: takes(1500 * time.Millisecond)}
		p.look = func(ctx context.Context, p *plant) error {
			time.Sleep(2 * time.Second) // and then sees how it was
			return nil
		}
		p.next = func(_ string, n snapshot) *decision {
			a := n.Action
			if !n.Shutdown && !a.FinishedAt.IsZero() && !a.InProgress && (!n.Seen.Fresh || n.Seen.Started.Before(a.FinishedAt)) {
				stale.Add(1)
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(30 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if p.began("start") != 1 || stale.Load() != 0 {
			t.Errorf("start began %d times, %d stale snapshots", p.began("start"), stale.Load())
		}
	})
}

func TestAnEndTriggersACollection(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: takes(2500 * time.Millisecond)}
		h.add(p, supervisor.Options{Collector: supervisor.Collector{Interval: 8 * time.Second}})
		pass(2500 * time.Millisecond)
		h.in("web", lifecycle.ServiceRunning)
	})
}

func TestRemovalWaitsForTheSlot(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: takes(3 * time.Second)}
		p.next = func(state string, n snapshot) *decision {
			if state == "trying_to_start" && n.Action.InProgress {
				return &decision{Signal: supervisor.SignalNeedsRemoval}
			}
			return nil
		}
		p.stop = takes(time.Second)
		h.add(p, supervisor.Options{})
		pass(500 * time.Millisecond)
		if _, err := h.s.Status("web"); err != nil {
			t.Errorf("it left while its action ran: %v", err)
		}
		pass(10 * time.Second)
		if _, err := h.s.Status("web"); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		if p.began("stop") != 1 || p.overlap {
			t.Errorf("stop began %d times", p.began("stop"))
		}
	})
}

func TestNextIsAskedWhileAnActionRuns(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: takes(20 * time.Minute), limits: supervisor.ActionLimits{Timeout: time.Hour}}
		x := h.add(p, supervisor.Options{})
		pass(2 * time.Second)
		_ = x.SetSpec(want{Down: true})
		synctest.Wait()
		h.in("web", lifecycle.ServiceStopped) // cancelled, looked at and stopped, in no time
		if st, _ := h.s.Status("web"); st.Action.Kind != supervisor.KindCancelled || p.began("start") != 1 {
			t.Errorf("status %+v", st.Action)
		}
	})
}

func TestStatusIsFilledIn(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var names []string
		p := &plant{id: "web", start: takes(3 * time.Second)}
		p.next = func(state string, n snapshot) *decision {
			if n.Action.InProgress && n.Seen.Fresh {
				t.Error("an observation is called fresh while an action runs")
			}
			if n.Action.InProgress {
				names = append(names, n.Action.ActionName)
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(10 * time.Second)
		if len(names) < 3 || names[0] != "start" {
			t.Errorf("Next saw %v in progress, want start at each turn", names)
		}
	})
}

func TestAddAndRemoveWhileItRuns(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		pass(time.Minute)
		p := &plant{id: "web", start: takes(time.Second)}
		h.add(p, supervisor.Options{})
		pass(500 * time.Millisecond)
		if p.began("start") != 1 {
			t.Error("it did not begin at once")
		}
		_, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "web"}, p, want{}, supervisor.Options{})
		if !errors.Is(err, supervisor.ErrExists) {
			t.Errorf("error %v, want ErrExists", err)
		}
		r, err := h.s.Remove(context.Background(), "web")
		if err != nil || len(r.Left) > 0 || p.running != 0 {
			t.Errorf("removed: %+v, %v, %d actions run", r, err, p.running)
		}
		if _, err := h.s.Remove(context.Background(), "web"); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
	})
}

func TestRemoveOfADeafOne(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: deaf(time.Minute)}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		r, err := h.s.Remove(context.Background(), "web")
		if err != nil || len(r.Left) != 1 || r.Left[0].Action != "start" {
			t.Errorf("report %+v, %v", r, err)
		}
		_, err = supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "web"}, p, want{}, supervisor.Options{})
		if !errors.Is(err, supervisor.ErrExists) {
			t.Errorf("error %v: another life began beside the goroutine of the last", err)
		}
		pass(2 * time.Minute)
		if _, err := h.s.Status("web"); !errors.Is(err, supervisor.ErrNotFound) {
			t.Errorf("error %v: it does not leave once it rests", err)
		}
	})
}

func TestAddFails(t *testing.T) {
	j := &slowJournal{}
	j.broken.Store(&errTest)
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		_, err := supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "web"}, &plant{id: "web"}, want{}, supervisor.Options{})
		if !errors.Is(err, errTest) {
			t.Errorf("error %v, want that of the journal", err)
		}
		j.broken.Store(nil)
		h.add(&plant{id: "web"}, supervisor.Options{}) // its id is free
	})
}

func TestOneCallerOfNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, supervisor.Config{Shards: 4})
		var inside, most atomic.Int32
		p := &plant{id: "web"}
		p.next = func(string, snapshot) *decision {
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Microsecond)
			inside.Add(-1)
			return nil
		}
		h.run()
		x := h.add(p, supervisor.Options{})
		for range 4 {
			go func() {
				for range 200 {
					x.Wake()
					x.Snapshot() // and 37: it is a copy
					time.Sleep(time.Microsecond)
				}
			}()
		}
		pass(time.Second)
		h.stop()
		if most.Load() != 1 {
			t.Errorf("%d callers of Next at once", most.Load())
		}
	})
}

// loose is a state that cannot be compared, whose reason changes.
type loose struct {
	own
	notes []string
}

func (s loose) Reason() string { return strings.Join(s.notes, ", ") }

func TestStatesAreComparedByName(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		p.next = func(state string, n snapshot) *decision {
			if state != "running" || n.Shutdown {
				return nil
			}
			return &decision{State: loose{own{p: p, is: lifecycle.ServiceRunning}, []string{"looked", "again"}}}
		}
		h.add(p, supervisor.Options{})
		pass(10 * time.Second)
		st, _ := h.s.Status("web")
		if len(h.trace) != 2 || st.Reason != "looked, again" {
			t.Errorf("reason %q, transitions %v", st.Reason, h.trace)
		}
	})
}

func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"Next", "CollectObservedState"} {
		t.Run(where, func(t *testing.T) {
			var places []string
			c := supervisor.Config{Shards: 1, Hooks: supervisor.Hooks{Panicked: func(_ supervisor.Identity, where string, _ any, stack []byte) {
				if places = append(places, where); !strings.Contains(string(stack), "life_test") {
					t.Errorf("stack %s", stack)
				}
			}}}
			bubble(t, c, func(h *hall) {
				calm := time.Now().Add(30 * time.Second)
				bad, good := &plant{id: "bad"}, &plant{id: "good"}
				boom := func() {
					if time.Now().Before(calm) {
						panic("boom")
					}
				}
				if where == "Next" {
					bad.next = func(string, snapshot) *decision { boom(); return nil }
				} else {
					bad.look = func(context.Context, *plant) error { boom(); return nil }
				}
				h.add(bad, supervisor.Options{})
				h.add(good, supervisor.Options{})
				pass(20 * time.Second)
				h.in("good", lifecycle.ServiceRunning)
				if n := len(places); n < 3 || n > 6 || places[0] != where {
					t.Errorf("panics %v in 20 s, want a few, further and further apart", places)
				}
				pass(time.Minute)
				h.in("bad", lifecycle.ServiceRunning)
			})
		})
	}
}

// sloppy panics where it should return.
type sloppy struct{ *plant }

func (sloppy) DeriveDesiredState(want) (want, error) { panic("boom") }

func TestPanicInDerive(t *testing.T) {
	t.Parallel()
	s, err := supervisor.New(supervisor.Config{})
	if err == nil {
		_, err = supervisor.Add(context.Background(), s, supervisor.Identity{ID: "web"}, sloppy{&plant{}}, want{}, supervisor.Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "service web: specification: panic: boom") {
		t.Errorf("error %v", err)
	}
}

func TestNextNeedsAnObservation(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		asked := false
		p := &plant{id: "web", look: func(context.Context, *plant) error { return errTest }}
		p.next = func(_ string, n snapshot) *decision {
			asked = asked || !n.Shutdown
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(time.Minute)
		if st, _ := h.s.Status("web"); asked || st.Waits != "the first observation" || st.Seen.Error != "it failed" {
			t.Errorf("asked %t, status %+v", asked, st)
		}
		if n := p.looked(); n > 8 { // S9: 0, 1, 3, 7, 15, 31
			t.Errorf("%d collections in a minute of failures", n)
		}
	})
}

func TestStaleObservationHolds(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		x := h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		var asks atomic.Int32
		p.set(func() {
			p.next = func(_ string, n snapshot) *decision {
				if !n.Shutdown {
					asks.Add(1)
				}
				return nil
			}
			p.look = func(context.Context, *plant) error { return errTest }
		})
		pass(11 * time.Second)
		asks.Store(0)
		_ = x.SetSpec(want{Down: true})
		pass(time.Minute)
		if st, _ := h.s.Status("web"); asks.Load() > 0 || !strings.Contains(st.Waits, "an observation: the last one is") {
			t.Errorf("asked %d times, waits for %q", asks.Load(), st.Waits)
		}
		h.in("web", lifecycle.ServiceRunning)
		h.stop() // S5: a shutdown passes
		h.in("web", lifecycle.ServiceStopped)
	})
}

// A parent stays while a child has not left, however long that takes.
func TestRemovalKeepsTheOrder(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "top"}, supervisor.Options{})
		h.addAs(supervisor.Identity{ID: "child", Parent: "top"}, &plant{id: "child", start: deaf(time.Minute)}, supervisor.Options{})
		pass(time.Second)
		r, err := h.s.Remove(context.Background(), "top")
		if err != nil || len(r.Left) != 2 {
			t.Errorf("report %+v, %v: want both", r, err)
		}
		h.in("top", lifecycle.ServiceStopped)
		pass(time.Minute)
		for _, id := range []string{"top", "child"} {
			if _, err := h.s.Status(id); !errors.Is(err, supervisor.ErrNotFound) {
				t.Errorf("service %s is there: %v", id, err)
			}
		}
	})
}

// The end of the context of Remove ends the waiting, and not the removal.
func TestRemoveGoesOnWithoutItsCaller(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", stop: takes(4 * time.Second)}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := h.s.Remove(ctx, "web"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		pass(2 * time.Second)
		h.in("web", lifecycle.ServiceTryingToStop)
		pass(2 * time.Second)
		if _, err := h.s.Status("web"); !errors.Is(err, supervisor.ErrNotFound) || p.up {
			t.Errorf("error %v, up %t", err, p.up)
		}
	})
}

// S2: one service is stuck in each of an action, an observation and the journal, and
// the others do not wait at all.
func TestNothingBlocksTheTurns(t *testing.T) {
	j := &slowJournal{only: "sv_journal"}
	j.delay.Store(int64(time.Hour))
	bubble(t, supervisor.Config{Shards: 1, Journal: j}, func(h *hall) {
		h.add(&plant{id: "action", start: deaf(time.Hour)}, supervisor.Options{})
		h.add(&plant{id: "look", look: deaf(time.Hour)}, supervisor.Options{})
		go func() {
			_, _ = supervisor.Add(context.Background(), h.s, supervisor.Identity{ID: "journal"}, &plant{id: "journal"}, want{}, supervisor.Options{})
		}()
		pass(30 * time.Second)
		for _, id := range []string{"a", "b", "c"} {
			h.add(&plant{id: id}, supervisor.Options{})
			synctest.Wait()
			h.in(id, lifecycle.ServiceRunning)
		}
		time.Sleep(2 * time.Hour)
	})
}

// S9: who does not return is given up, at most a few times.
func TestDeafCollectionIsRestarted(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		h.add(p, supervisor.Options{})
		pass(5500 * time.Millisecond)
		before := p.looked()
		p.set(func() { p.look = deaf(2 * time.Hour) })
		pass(19 * time.Second)
		if p.looked() != before+1 {
			t.Errorf("%d collections beside a stuck one", p.looked()-before-1)
		}
		pass(3 * time.Second)
		if p.looked() != before+2 {
			t.Errorf("%d collections after 20 s, want another", p.looked()-before)
		}
		pass(time.Hour)
		if s := h.s.Stats(); s.LostCollection != 5 {
			t.Errorf("stats %+v, want 5 lost collections and no more", s)
		}
		p.set(func() { p.look = nil })
		pass(3 * time.Hour)
		h.in("web", lifecycle.ServiceRunning)
		if s := h.s.Stats(); s.LostCollection != 0 || s.OldestSeen > 2*time.Second {
			t.Errorf("stats %+v after they returned", s)
		}
	})
}

func TestStopActionsRunInAShutdown(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", stop: takes(3 * time.Second)}
		h.add(p, supervisor.Options{})
		pass(time.Second)
		if r := h.stop(); len(r.Left) > 0 || p.up || p.began("stop") != 1 {
			t.Errorf("report %+v, up %t, %d stops", r, p.up, p.began("stop"))
		}
	})
}

func TestARestartKnowsWhatRan(t *testing.T) {
	j := &supervisor.MemoryJournal{}
	var first string
	t.Run("dies in an action", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, supervisor.Config{Journal: j})
			h.run()
			x := h.add(&plant{id: "web", start: deaf(time.Minute)}, supervisor.Options{})
			pass(time.Second)
			first = x.Snapshot().Action.ID
			h.s.Force()
			h.stop()
			time.Sleep(time.Minute)
		})
	})
	t.Run("goes on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(t, supervisor.Config{Journal: j})
			h.run()
			var before supervisor.ActionStatus
			p := &plant{id: "web", start: takes(time.Second)}
			p.next = func(_ string, n snapshot) *decision {
				if before.ID == "" {
					before = n.Action
				}
				return nil
			}
			x := h.add(p, supervisor.Options{})
			pass(500 * time.Millisecond)
			if before.Kind != supervisor.KindInterrupted || before.Succeeded || before.Failed || before.InProgress || before.ID != first {
				t.Errorf("first snapshot has %+v, want an interrupted %s", before, first)
			}
			if a := x.Snapshot().Action; !a.InProgress || a.ID != first || a.Fence != before.Fence+1 || a.Retries != before.Retries {
				t.Errorf("then %+v, want the same intent with a higher fence", a)
			}
			pass(5 * time.Second)
			h.in("web", lifecycle.ServiceRunning)
			h.stop()
		})
	})
}

func TestWakeIsAtOnce(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		x := h.add(p, supervisor.Options{})
		pass(1500 * time.Millisecond)
		p.set(func() { p.sick = true })
		x.Wake()
		synctest.Wait() // no time passes
		h.in("web", lifecycle.ServiceDegraded)
	})
}
