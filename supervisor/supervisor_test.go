package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

func TestConfigNamesTheFirstFault(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]supervisor.Config{
		"Shards -1":                   {Shards: -1},
		"Defaults.DependsOn":          {Defaults: supervisor.Options{DependsOn: []string{"db"}}},
		"Collector.Timeout -1s":       {Defaults: supervisor.Options{Collector: supervisor.Collector{Timeout: -time.Second}}},
		"Collector.StaleAfter 10s":    {Defaults: supervisor.Options{Collector: supervisor.Collector{Interval: time.Minute}}},
		"Action.Grace -1ns":           {Defaults: supervisor.Options{Action: supervisor.ActionLimits{Grace: -1}}},
		"Restarts -2: want -1 or mor": {Defaults: supervisor.Options{Restarts: -2}},
	} {
		if _, err := supervisor.New(c); !errors.Is(err, supervisor.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// odd is a plant with invalid states.
type odd struct {
	*plant
	states []state
}

func (o odd) States() []state { return o.states }

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	s, err := supervisor.New(supervisor.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{}
	stopped, removed := own{p: p, is: lifecycle.ServiceStopped}, own{p: p, is: lifecycle.ServiceRemoved}
	for _, tt := range []struct {
		name   string
		id     supervisor.Identity
		states []state
		spec   want
		o      supervisor.Options
		want   string
	}{
		{"no id", supervisor.Identity{}, nil, want{}, supervisor.Options{}, `id "": want 1 to 200 letters, digits and . _ - /`},
		{"an id that no path could have", supervisor.Identity{ID: "a b"}, nil, want{}, supervisor.Options{}, `id "a b"`},
		{"a parent", supervisor.Identity{ID: "a", Parent: "~"}, nil, want{}, supervisor.Options{}, `parent "~" of service a`},
		{"a specification", supervisor.Identity{ID: "a"}, nil, want{Rev: -1}, supervisor.Options{}, "service a: specification: rev: want 0 or more"},
		{"a state twice", supervisor.Identity{ID: "a"}, []state{stopped, stopped}, want{}, supervisor.Options{}, `want each name once, and have "stopped"`},
		{"a state of no phase", supervisor.Identity{ID: "a"}, []state{own{p: p, is: "flying"}}, want{}, supervisor.Options{}, `state flying: Phase is "flying"`},
		{"the end", supervisor.Identity{ID: "a"}, []state{stopped, removed}, want{}, supervisor.Options{}, "state removed: Phase is"},
		{"the first state", supervisor.Identity{ID: "a"}, []state{own{p: p, is: lifecycle.ServiceRunning}}, want{}, supervisor.Options{}, "initial state stopped: want one of States"},
		{"itself", supervisor.Identity{ID: "a", Parent: "a"}, nil, want{}, supervisor.Options{}, "dependency cycle: it depends on a"},
		{"a limit", supervisor.Identity{ID: "a"}, nil, want{}, supervisor.Options{Action: supervisor.ActionLimits{Attempts: -2}}, "Action.Attempts -2: want -1 or more"},
		{"an option", supervisor.Identity{ID: "a"}, nil, want{}, supervisor.Options{StopTimeout: -1}, "StopTimeout -1ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.states == nil {
				tt.states = p.States()
			}
			_, err := supervisor.Add(context.Background(), s, tt.id, odd{p, tt.states}, tt.spec, tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestCycle(t *testing.T) {
	t.Parallel()
	s, _ := supervisor.New(supervisor.Config{})
	add := func(id, parent string, needs ...string) error {
		_, err := supervisor.Add(context.Background(), s, supervisor.Identity{ID: id, Parent: parent}, &plant{}, want{}, supervisor.Options{DependsOn: needs})
		return err
	}
	if err := errors.Join(add("a", "", "b"), add("b", "c")); err != nil {
		t.Fatal(err)
	}
	err := add("c", "", "x", "a")
	if !errors.Is(err, supervisor.ErrCycle) || !strings.HasSuffix(err.Error(), "it depends on a, which depends on b, which depends on c") {
		t.Errorf("error %v", err)
	}
}

// S15: a decision moves by a row of the table, or not at all.
func TestMovesAreRowsOfTheTable(t *testing.T) {
	var refused []error
	c := supervisor.Config{Hooks: supervisor.Hooks{Refused: func(_ supervisor.Identity, err error) { refused = append(refused, err) }}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web"}
		to := lifecycle.ServiceDegraded
		p.next = func(state string, n snapshot) *decision {
			if state == "stopped" && !n.Shutdown {
				return &decision{State: own{p: p, is: to}}
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(10 * time.Second)
		h.in("web", lifecycle.ServiceStopped)
		want := "service web: state degraded stands for degraded, and the table has no transition to it from stopped (stopped)"
		if len(refused) != 1 || refused[0].Error() != want {
			t.Errorf("refused %v, want once: %s", refused, want)
		}
		p.set(func() { to = "flying" })
		pass(10 * time.Second)
		if st, _ := h.s.Status("web"); st.Refused != "service web: state flying is not one of the worker's States" {
			t.Errorf("refused %q", st.Refused)
		}
	})
}

// Two states that send the service to each other do not keep the loop busy.
func TestHopsAreBounded(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", sick: true, up: true}
		p.next = func(state string, n snapshot) *decision {
			if n.Shutdown || state != "running" && state != "degraded" {
				return nil
			}
			to := map[string]machine.State{"running": lifecycle.ServiceDegraded, "degraded": lifecycle.ServiceRunning}[state]
			return &decision{State: own{p: p, is: to}}
		}
		h.add(p, supervisor.Options{})
		pass(9 * time.Second)
		if n := len(h.trace); n < 50 || n > 100 {
			t.Errorf("%d changes of state in 10 s, want 8 for each of 10 observations", n)
		}
	})
}

func TestEscalation(t *testing.T) {
	var reasons []string
	c := supervisor.Config{Hooks: supervisor.Hooks{Escalated: func(_ supervisor.Identity, reason string) { reasons = append(reasons, reason) }}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web"}
		p.next = func(state string, n snapshot) *decision {
			if state == "running" && n.Observed.Sick {
				return &decision{Signal: supervisor.SignalEscalate, Reason: "help"}
			}
			return nil
		}
		x := h.add(p, supervisor.Options{})
		p.set(func() { p.sick = true })
		pass(10 * time.Second)
		st, _ := h.s.Status("web")
		_ = x.SetSpec(want{Rev: 1})
		pass(10 * time.Second)
		if !st.Escalated || !slices.Equal(reasons, []string{"help", "help"}) { // once, and once again after a change
			t.Errorf("escalated %t: %v", st.Escalated, reasons)
		}
	})
}

// S11: a service that failed is restarted by way of stopped.
func TestRestartOfAFailedService(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: failing(1, supervisor.ErrNonRetriable)}
		p.next = func(state string, n snapshot) *decision {
			if state == "failed" && !n.Shutdown && n.Now.Sub(n.Since) >= 5*time.Second {
				return &decision{Signal: supervisor.SignalNeedsRestart}
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(10 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if !slices.ContainsFunc(h.trace, func(l string) bool { return strings.HasSuffix(l, "failed -> stopped") }) {
			t.Errorf("trace %v", h.trace)
		}
	})
}

// S10: while the children stop, the parent is asked nothing, whatever becomes of it.
func TestParentIsHeldWhileItsChildrenStop(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		top := &plant{id: "top"}
		h.add(top, supervisor.Options{})
		h.addAs(supervisor.Identity{ID: "child", Parent: "top"}, &plant{id: "child", stop: takes(3 * time.Second)}, supervisor.Options{})
		pass(2 * time.Second)
		h.trace = nil
		h.cancel()
		pass(time.Second)
		top.set(func() { top.sick = true })
		if err := h.s.Wake("top"); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		st, _ := h.s.Status("top")
		h.stop()
		if len(h.trace) != 4 || st.Waits != "the stop of child" || !slices.Equal(st.StopsAfter, []string{"child"}) {
			t.Errorf("waits for %q, trace %v", st.Waits, h.trace)
		}
	})
}

func TestStopBudgetsAreOfServices(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		for id, parent := range map[string]string{"a": "", "b": "a", "c": "b"} {
			h.addAs(supervisor.Identity{ID: id, Parent: parent}, &plant{id: id, stop: takes(4 * time.Second)}, supervisor.Options{})
		}
		pass(time.Second)
		began := time.Now()
		if r := h.stop(); len(r.Left) != 0 || time.Since(began) != 12*time.Second {
			t.Errorf("report %+v after %s, want nothing left after 12 s", r, time.Since(began))
		}
	})
}

func TestForceEndsTheWaiting(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "web", stop: deaf(time.Hour)}, supervisor.Options{StopTimeout: 10 * time.Minute})
		pass(time.Second)
		h.cancel()
		pass(time.Minute)
		h.s.Force()
		h.s.Force()
		synctest.Wait()
		select {
		case r := <-h.report:
			h.report <- r
			if len(r.Left) != 1 || r.Left[0].Action != "stop" {
				t.Errorf("report %+v", r)
			}
		default:
			t.Error("Run waits after Force")
		}
	})
}

func TestWaitFor(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		x := h.add(&plant{id: "web", start: takes(7 * time.Second)}, supervisor.Options{})
		began := time.Now()
		if err := x.WaitFor(context.Background(), func(s snapshot) bool { return s.Phase == lifecycle.ServiceRunning }); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := x.WaitFor(ctx, func(snapshot) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRequeueAfter(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var asked []time.Duration
		p := &plant{id: "web"}
		p.next = func(_ string, n snapshot) *decision {
			if !n.Shutdown { // as when it is added
				asked = append(asked, n.Now.Sub(h.began))
			}
			return &decision{RequeueAfter: 50 * time.Millisecond}
		}
		h.add(p, supervisor.Options{Collector: supervisor.Collector{Interval: 5 * time.Second}})
		pass(190 * time.Millisecond)
		if len(asked) != 4 || asked[3] != 150*time.Millisecond {
			t.Errorf("asked at %v", asked)
		}
	})
}

// S12: the levels of the lines.
func TestLogLevels(t *testing.T) {
	var text lockedBuffer
	bubble(t, supervisor.Config{Log: slog.New(slog.NewTextHandler(&text, nil))}, func(h *hall) {
		first := true
		h.add(&plant{id: "web", limits: supervisor.ActionLimits{Timeout: time.Second}, start: func(ctx context.Context, p *plant) error {
			if first {
				first = false
				return errTest
			}
			return takes(time.Hour)(ctx, p)
		}}, supervisor.Options{})
		pass(time.Minute)
		for _, want := range []string{
			`level=INFO msg="action accepted" service=web action=start id=web/1 attempt=1`,
			`level=WARN msg="action is to be retried" service=web action=start id=web/1 attempt=1 kind=retriable error="it failed"`,
			`level=ERROR msg="action timed out" service=web action=start id=web/1 attempt=2 kind=timeout`,
			`level=ERROR msg="action failed" service=web action=start id=web/1 attempt=4 kind=timeout error="action timeout"`,
			`level=INFO msg="state changed" service=web from=trying_to_start to=failed event=give_up`,
		} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no line with %s in\n%s", want, text.String())
			}
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// S12: what metrics and traces are made of.
func TestHooks(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	var span any
	var attempts []supervisor.Attempt
	var decided, observed int
	c := supervisor.Config{Hooks: supervisor.Hooks{
		Action: func(ctx context.Context, _ supervisor.Identity, _ supervisor.Run, _ supervisor.Action) (context.Context, func(supervisor.Attempt)) {
			return context.WithValue(ctx, key{}, "span"), func(a supervisor.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				attempts = append(attempts, a)
			}
		},
		Decided:  func(supervisor.Identity, time.Duration, time.Duration) { decided++ },
		Observed: func(supervisor.Identity, supervisor.Observation, time.Duration) { observed++; panic("a hook") },
	}}
	bubble(t, c, func(h *hall) {
		h.add(&plant{id: "web", start: func(ctx context.Context, p *plant) error {
			span = ctx.Value(key{})
			return takes(2*time.Second)(ctx, p)
		}}, supervisor.Options{})
		pass(5 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if span != "span" || len(attempts) != 1 || attempts[0].Took != 2*time.Second || attempts[0].Kind != supervisor.KindNone {
			t.Errorf("span %v, attempts %+v", span, attempts)
		}
		if decided < 5 || observed < 5 {
			t.Errorf("%d decisions, %d observations", decided, observed)
		}
	})
}

func TestStats(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		h.add(&plant{id: "a"}, supervisor.Options{})
		h.add(&plant{id: "b", start: takes(time.Minute)}, supervisor.Options{})
		h.add(&plant{id: "c", look: func(context.Context, *plant) error { return errTest }}, supervisor.Options{})
		pass(5 * time.Second)
		s := h.s.Stats()
		if s.Services[lifecycle.ServiceRunning] != 1 || s.Services[lifecycle.ServiceTryingToStart] != 1 || s.Unseen != 1 ||
			s.Running["start"] != (supervisor.Running{Count: 1, Oldest: 5 * time.Second}) || s.OldestSeen > time.Second {
			t.Errorf("stats %+v", s)
		}
		var ids []string
		for st := range h.s.All() {
			ids = append(ids, st.Identity.ID)
		}
		if !slices.Equal(ids, []string{"a", "b", "c"}) {
			t.Errorf("all: %v", ids)
		}
	})
}
