package supervisor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// does is an action that begins something, and returns soon.
func does(p *plant, name string, f func()) *decision {
	return &decision{Action: &deed{p: p, name: name, f: func(_ context.Context, p *plant) error {
		time.Sleep(time.Millisecond)
		p.set(f)
		return nil
	}}}
}

// shows is an action whose effect shows later; 0: never.
func shows(p *plant, name string, later time.Duration) *decision {
	return does(p, name, func() {
		if later > 0 {
			time.AfterFunc(later, func() { p.set(func() { p.up = true }) })
		}
	})
}

// S2, S4: a state asks for what it wants as long as it wants it. An action that returns
// at once, and whose effect shows later, is run once, however the states ask for it.
func TestWhatHasSucceededIsNotStartedAgainAtOnce(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(p *plant, state string, n snapshot, later time.Duration) *decision{
		"one state asks": func(p *plant, state string, n snapshot, later time.Duration) *decision {
			if state != "trying_to_start" || n.Shutdown || n.Observed.Up {
				return nil
			}
			return shows(p, "start", later)
		},
		"two states send it to each other": func(p *plant, state string, n snapshot, later time.Duration) *decision {
			switch {
			case n.Shutdown || n.Observed.Up:
				return nil
			case state == "running":
				d := shows(p, "start", later)
				d.State = own{p: p, is: lifecycle.ServiceTryingToStart}
				return d
			case state == "trying_to_start" && n.Action.Succeeded:
				return &decision{State: own{p: p, is: lifecycle.ServiceRunning}}
			case state == "trying_to_start":
				return shows(p, "start", later)
			}
			return nil
		},
		"two actions take turns": func(p *plant, state string, n snapshot, later time.Duration) *decision {
			switch {
			case state != "trying_to_start" || n.Shutdown || n.Observed.Up || n.Action.InProgress:
				return nil
			case n.Action.ActionName == "prepare" && n.Action.Succeeded:
				return shows(p, "start", later)
			}
			return shows(p, "prepare", 0)
		},
	} {
		for _, journal := range []bool{false, true} {
			for later, most := range map[time.Duration]int{time.Second: 1, 0: 60} {
				t.Run(fmt.Sprintf("%s, journal %t, after %s", name, journal, later), func(t *testing.T) {
					var c supervisor.Config
					if journal {
						c.Journal = &supervisor.MemoryJournal{}
					}
					bubble(t, c, func(h *hall) {
						p := &plant{id: "web"}
						p.next = func(state string, n snapshot) *decision { return next(p, state, n, later) }
						h.add(p, supervisor.Options{})
						pass(time.Minute)
						if n := p.began("start"); n == 0 || n > most || later == 0 && n < 15 {
							t.Errorf("start was run %d times in a minute, want %d at most", n, most)
						}
						if later > 0 {
							h.in("web", lifecycle.ServiceRunning)
						}
					})
				})
			}
		}
	}
}

// S5: nor is a stop whose effect shows later run again and again within a shutdown.
func TestAStopThatTakesEffectLater(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		p.set(func() {
			p.next = func(state string, n snapshot) *decision {
				switch {
				case state != "trying_to_stop":
					return nil
				case n.Seen.Fresh && !n.Observed.Up:
					return &decision{State: own{p: p, is: lifecycle.ServiceStopped}}
				}
				return does(p, "stop", func() { time.AfterFunc(time.Second, func() { p.set(func() { p.up = false }) }) })
			}
		})
		if r := h.stop(); len(r.Left) != 0 || p.began("stop") != 1 {
			t.Errorf("%d stops, left %+v", p.began("stop"), r.Left)
		}
	})
}

// What has succeeded is started again at once when something else is observed or desired,
// and says meanwhile what it waits for.
func TestWhatHasSucceededIsStartedAgain(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p, steps := &plant{id: "web", up: true}, 0
		p.next = func(state string, n snapshot) *decision {
			if state != "running" || n.Shutdown || n.Desired.Rev == 0 {
				return nil
			}
			return does(p, "step", func() {
				if steps++; steps < 5 {
					p.sick = !p.sick // four steps that can be seen
				}
			})
		}
		x := h.add(p, supervisor.Options{})
		pass(10 * time.Second)
		_ = x.SetSpec(want{Rev: 1})
		pass(20 * time.Millisecond)
		if n := p.began("step"); n != 5 {
			t.Errorf("%d steps at once, want 5", n)
		}
		if st, _ := h.s.Status("web"); st.Waits != "an observation that shows what action step has done" {
			t.Errorf("waits for %q", st.Waits)
		}
		_ = x.SetSpec(want{Rev: 2})
		pass(20 * time.Millisecond)
		if n := p.began("step"); n != 6 {
			t.Errorf("%d steps after another specification, want 6", n)
		}
	})
}

// S2: what runs and ends soon is started again at once, since it was seen to run.
func TestWhatEndsSoonIsStartedAtOnce(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		x := h.add(p, supervisor.Options{})
		pass(300 * time.Millisecond)
		h.in("web", lifecycle.ServiceRunning)
		p.set(func() { p.up = false })
		x.Wake()
		synctest.Wait()
		if p.began("start") != 2 {
			t.Errorf("%d starts, want 2 within the interval", p.began("start"))
		}
	})
}

// A gauge is observed with something that changes by itself.
type gauge struct {
	Level int
	Looks int64
}

// A dial is a gauge that says what a change is.
type dial struct{ gauge }

func (d dial) Equal(other dial) bool { return d.Level == other.Level }

// A filler has an action that does not show.
type filler[O any] struct {
	look func() O
	runs atomic.Int64
}

func (f *filler[O]) CollectObservedState(context.Context, want) (O, error) { return f.look(), nil }
func (f *filler[O]) DeriveDesiredState(w want) (want, error)               { return w, nil }
func (f *filler[O]) GetInitialState() supervisor.State[O, want]            { return filling[O]{f} }
func (f *filler[O]) States() []supervisor.State[O, want] {
	return []supervisor.State[O, want]{filling[O]{f}}
}
func (f *filler[O]) Name() string { return "fill" }

func (f *filler[O]) Execute(context.Context, supervisor.Run) error {
	time.Sleep(time.Millisecond)
	f.runs.Add(1)
	return nil
}

type filling[O any] struct{ *filler[O] }

func (filling[O]) String() string       { return "filling" }
func (filling[O]) Reason() string       { return "" }
func (filling[O]) Phase() machine.State { return lifecycle.ServiceStopped }

func (s filling[O]) Next(n supervisor.Snapshot[O, want]) supervisor.Decision[O, want] {
	if n.Shutdown {
		return supervisor.Decision[O, want]{}
	}
	return supervisor.Decision[O, want]{Action: s.filler}
}

// What changes by itself in each observation hurries an action a few times at most, and
// not at all where Equal says that it is no change.
func TestObservationsThatAlwaysChange(t *testing.T) {
	var looks atomic.Int64
	looked := func() gauge { return gauge{3, looks.Add(1)} }
	bubble(t, supervisor.Config{}, func(h *hall) {
		g, d := &filler[gauge]{look: looked}, &filler[dial]{look: func() dial { return dial{looked()} }}
		if _, err := supervisor.Add(t.Context(), h.s, supervisor.Identity{ID: "gauge"}, g, want{}, supervisor.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := supervisor.Add(t.Context(), h.s, supervisor.Identity{ID: "dial"}, d, want{}, supervisor.Options{}); err != nil {
			t.Fatal(err)
		}
		pass(500 * time.Millisecond)
		if n, m := g.runs.Load(), d.runs.Load(); n < 2 || n > 9 || m != 1 {
			t.Errorf("%d and %d runs at once, want 9 at most and 1", n, m)
		}
		pass(time.Minute)
		if n, m := g.runs.Load(), d.runs.Load(); n > 9*40 || m < 15 || m > 60 {
			t.Errorf("%d and %d runs in a minute", n, m)
		}
	})
}
