package supervisor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// eager is a Next that starts without a look at what the service depends on.
func eager(p *plant) func(string, snapshot) *decision {
	return func(state string, n snapshot) *decision {
		if state == "stopped" && !n.Shutdown {
			return &decision{State: own{p: p, is: lifecycle.ServiceTryingToStart}}
		}
		return nil
	}
}

// S1: a service starts when what it depends on runs, though Next does not ask for it,
// and says meanwhile what it waits for.
func TestDependsOnHoldsTheStart(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		web := &plant{id: "web"}
		web.next = eager(web)
		h.add(web, supervisor.Options{DependsOn: []string{"db", "cache"}})
		waits := func(want string) {
			t.Helper()
			if st, _ := h.s.Status("web"); st.Waits != want || st.Phase != lifecycle.ServiceStopped || web.began("start") != 0 {
				t.Errorf("web is %s and waits for %q, want %q", st.Phase, st.Waits, want)
			}
		}
		pass(5 * time.Second)
		waits("db, cache to run")
		h.add(&plant{id: "db", start: takes(3 * time.Second)}, supervisor.Options{})
		h.add(&plant{id: "cache"}, supervisor.Options{})
		pass(time.Second)
		waits("db to run")
		pass(2 * time.Second)
		h.in("web", lifecycle.ServiceRunning) // as soon as it does
	})
}

// A service that starts by itself decides by what it sees, and is stopped in order all
// the same. What depends on another one and exits is started again whatever became of it.
func TestStartsByItself(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		web, app, db := &plant{id: "web"}, &plant{id: "app"}, &plant{id: "db"}
		web.next, app.next = eager(web), eager(app)
		h.add(web, supervisor.Options{DependsOn: []string{"db"}, StartsByItself: true})
		h.add(app, supervisor.Options{DependsOn: []string{"db"}})
		pass(time.Second)
		h.in("web", lifecycle.ServiceRunning)
		down := h.add(db, supervisor.Options{})
		pass(time.Second)
		h.in("app", lifecycle.ServiceRunning)
		_ = down.SetSpec(want{Down: true})
		synctest.Wait()
		app.set(func() { app.up = false })
		pass(3 * time.Second)
		h.in("db", lifecycle.ServiceStopped)
		h.in("app", lifecycle.ServiceRunning)
		if app.began("start") != 2 {
			t.Errorf("app was started %d times", app.began("start"))
		}
		_ = down.SetSpec(want{})
		pass(3 * time.Second)
		h.trace = nil
		h.stop()
		if last := h.trace[len(h.trace)-1]; !strings.HasSuffix(last, "db trying_to_stop -> stopped") {
			t.Errorf("trace %q", h.trace)
		}
	})
}

// A lamp is a worker whose states are functions.
type lamp struct{ lit atomic.Bool }

type (
	lampState    = supervisor.State[bool, bool]
	lampSnapshot = supervisor.Snapshot[bool, bool]
	lampDecision = supervisor.Decision[bool, bool]
)

func (l *lamp) CollectObservedState(context.Context, bool) (bool, error) { return l.lit.Load(), nil }
func (l *lamp) DeriveDesiredState(on bool) (bool, error)                 { return on, nil }
func (l *lamp) GetInitialState() lampState                               { return l.off() }
func (l *lamp) States() []lampState {
	return []lampState{l.off(), l.lighting(), l.on(), l.dimming()}
}

func (l *lamp) off() lampState {
	return supervisor.NewState("off", lifecycle.ServiceStopped, func(n lampSnapshot) lampDecision {
		if n.Desired && !n.Shutdown {
			return supervisor.Go(l.lighting())
		}
		return lampDecision{}
	})
}

func (l *lamp) lighting() lampState {
	return supervisor.NewState("lighting", lifecycle.ServiceTryingToStart, func(n lampSnapshot) lampDecision {
		switch {
		case n.Shutdown || !n.Desired:
			return supervisor.Go(l.dimming())
		case n.Observed:
			return lampDecision{State: l.on(), Reason: "it is lit"}
		}
		return lampDecision{Action: flip{l, true}}
	})
}

func (l *lamp) on() lampState {
	return supervisor.NewState("on", lifecycle.ServiceRunning, func(n lampSnapshot) lampDecision {
		if n.Shutdown || !n.Desired {
			return supervisor.Go(l.dimming())
		}
		return lampDecision{}
	})
}

func (l *lamp) dimming() lampState {
	return supervisor.NewState("dimming", lifecycle.ServiceTryingToStop, func(n lampSnapshot) lampDecision {
		if n.Seen.Fresh && !n.Observed {
			return supervisor.Go(l.off())
		}
		return lampDecision{Action: flip{l, false}}
	})
}

// A flip is an action of a lamp.
type flip struct {
	*lamp
	on bool
}

func (f flip) Name() string { return fmt.Sprint("flip ", f.on) }

func (f flip) Execute(context.Context, supervisor.Run) error {
	f.lit.Store(f.on)
	return nil
}

// A state is a function where its name and what it stands for are all that there is to
// say beside.
func ExampleNewState() {
	done, moves := make(chan struct{}), make(chan string, 10)
	s, _ := supervisor.New(supervisor.Config{Log: silent, Hooks: supervisor.Hooks{
		Transition: func(id supervisor.Identity, t supervisor.Transition) { moves <- t.From + " -> " + t.To },
	}})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = s.Run(ctx)
		close(done)
	}()
	h, err := supervisor.Add(ctx, s, supervisor.Identity{ID: "porch"}, &lamp{}, true, supervisor.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = h.WaitFor(ctx, func(n lampSnapshot) bool { return n.Phase == lifecycle.ServiceRunning })
	stop()
	<-done
	close(moves)
	for m := range moves {
		fmt.Println(m)
	}
	// Output:
	// off -> lighting
	// lighting -> on
	// on -> dimming
	// dimming -> off
}

// A state without a reason has that of the decision which led to it. The id is where an id
// is expected.
func TestReasonOfADecision(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		l := &lamp{}
		x, err := supervisor.Add(t.Context(), h.s, supervisor.Identity{ID: "porch"}, l, true, supervisor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for lit, want := range map[bool]string{true: "porch on: it is lit", false: "porch off: "} {
			_ = x.SetSpec(lit)
			pass(time.Second)
			st, _ := h.s.Status("porch")
			if got := st.ID + " " + st.State + ": " + st.Reason; got != want || x.Snapshot().ID != st.ID {
				t.Errorf("status %q, want %q", got, want)
			}
		}
	})
}

// S11: a restart begins anew with the same Worker, and all that it keeps.
func TestARestartKeepsTheWorker(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p, asked := &plant{id: "web"}, false
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && !n.Shutdown && !asked {
				asked = true
				return &decision{Signal: supervisor.SignalNeedsRestart, Reason: "new certificates"}
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if p.began("start") != 2 {
			t.Errorf("the worker has counted %d starts, want both", p.began("start"))
		}
	})
}
