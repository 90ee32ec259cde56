package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// A rig is a host of one component, "r", in a synctest bubble.
type rig struct {
	t           *testing.T
	host        *server.Host
	stop        context.CancelFunc
	ended       chan supervisor.Report
	escalations atomic.Int32 // escalations
}

func newRig(t *testing.T, r server.Component) *rig {
	t.Helper()
	r.Name = "r"
	g := &rig{t: t, ended: make(chan supervisor.Report, 1)}
	host, err := server.New(server.Config{Name: "server-1", Components: []server.Component{r},
		Hooks: supervisor.Hooks{Escalated: func(supervisor.Identity, string) { g.escalations.Add(1) }}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	g.host, g.stop = host, stop
	go func() {
		report, err := host.Run(ctx)
		if err != nil {
			t.Error(err)
		}
		g.ended <- report
	}()
	return g
}

// end stops the host, and returns what is left.
func (g *rig) end() []supervisor.Left {
	g.t.Helper()
	g.stop()
	return (<-g.ended).Left
}

// after returns the service once d has passed.
func (g *rig) after(d time.Duration) control.Service {
	g.t.Helper()
	time.Sleep(d) // in the bubble's time
	synctest.Wait()
	s, err := g.host.Service("r")
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *rig) order(v control.Verb) error {
	return g.host.Order(context.Background(), "r", control.Order{Verb: v, Change: pawl.Change{Actor: "cli:bob", Reason: "a new file"}})
}

func until(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// moves returns the states that the service went through.
func (g *rig) moves() string {
	h, err := g.host.History(context.Background(), "r")
	if err != nil {
		g.t.Fatal(err)
	}
	var names []string
	for _, m := range h {
		name := strings.TrimSuffix(strings.TrimPrefix(string(m.Metadata), `{"state":"`), `"}`)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// (S14) A component that returns, fails or panics is restarted after a growing backoff,
// which jitter shortens by up to a half.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := make(chan time.Time, 8)
		g := newRig(t, server.Component{Run: func(ctx context.Context) error {
			starts <- time.Now()
			switch len(starts) {
			case 1:
				return nil
			case 2:
				return errors.New("the disk is full")
			case 3, 4, 5, 6:
				panic("a nil map")
			case 7:
				time.Sleep(time.Minute)
				return errors.New("the network is down")
			}
			return until(ctx)
		}})
		s := g.after(100 * time.Millisecond)
		if s.State != "starting" || s.Phase != lifecycle.ServiceTryingToStart || s.Starts != 1 || s.Exit != "it returned without an error" || len(s.Why) != 2 {
			t.Errorf("after the first run: %+v", s)
		}
		if u := g.host.Unready(); !slices.Equal(u, []string{"r is starting: it ended: it returned without an error"}) {
			t.Errorf("unready: %q", u)
		}
		if s = g.after(time.Second); s.Starts != 2 || s.Exit != "the disk is full" {
			t.Errorf("after a second: %d starts, %q", s.Starts, s.Exit)
		}
		if s = g.after(2 * time.Second); s.Starts != 3 || s.Exit != "panic: a nil map" {
			t.Errorf("after 3 s: %d starts, %q", s.Starts, s.Exit)
		}
		s = g.after(80 * time.Second)
		if s.State != "running" || s.Starts != 7 || len(s.Why) != 0 || len(g.host.Unready()) != 0 {
			t.Errorf("in the end: %+v", s)
		}
		if s = g.after(time.Minute); s.Starts != 8 || s.Exit != "the network is down" {
			t.Errorf("after a run of a minute: %+v", s)
		}
		ended := <-starts
		for _, backoff := range []time.Duration{1, 2, 4, 8, 16, 32, 1} {
			backoff *= time.Second
			start := <-starts
			if d := start.Sub(ended); d < backoff/2 || d > backoff {
				t.Errorf("started again after %s: want %s to %s", d, backoff/2, backoff)
			}
			if ended = start; len(starts) == 1 {
				ended = start.Add(time.Minute)
			}
		}
		if g.escalations.Load() == 0 {
			t.Error("5 ends in a row did not escalate")
		}
		if left := g.end(); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

// (S14) A component that is stuck is shown and escalated, not started twice; when it
// progresses, it runs again.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p atomic.Pointer[server.Progress]
		p.Store(&server.Progress{Rounds: 1, At: time.Now(), Busy: time.Now()})
		g := newRig(t, server.Component{Run: until, Progress: func() server.Progress { return *p.Load() }, Every: 10 * time.Second, StuckAfter: time.Minute})
		if s := g.after(50 * time.Second); s.State != "running" {
			t.Errorf("after 50 s: %+v", s)
		}
		s := g.after(20 * time.Second)
		if s.State != "stuck" || s.Phase != lifecycle.ServiceDegraded || !strings.HasPrefix(s.Reason, "a round has been running for 1m") || s.Starts != 1 || !s.Escalated {
			t.Errorf("stuck: %+v", s)
		}
		g.after(time.Minute)
		if n := g.escalations.Load(); n != 1 {
			t.Errorf("%d escalations: want 1", n)
		}
		p.Store(&server.Progress{Rounds: 2, At: time.Now()})
		if s := g.after(10 * time.Second); s.State != "running" {
			t.Errorf("when it got on: %+v", s)
		}
		if s := g.after(90 * time.Second); s.State != "stuck" || !strings.Contains(s.Reason, "no round has begun for") {
			t.Errorf("without rounds: %+v", s)
		}
		p.Store(&server.Progress{Rounds: 3, At: time.Now(), Error: "the database is down"})
		if s := g.after(10 * time.Second); s.State != "failing" || s.Reason != "the last round failed: the database is down" || len(g.host.Unready()) != 0 {
			t.Errorf("failing: %+v; unready %q", s, g.host.Unready())
		}
		if got := g.moves(); got != "waiting starting running stuck running stuck failing" {
			t.Errorf("moves: %s", got)
		}
		g.end()
	})
}

// (S14) A restart is another run, a start ends a backoff, and a stop, logs and a reload
// are refused.
func TestOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		g := newRig(t, server.Component{Run: func(ctx context.Context) error {
			if broken.Load() {
				return errors.New("broken")
			}
			return until(ctx)
		}})
		g.after(time.Second)
		if err := g.order(control.Stop); pawl.KindOf(err) != pawl.Refused || !strings.Contains(err.Error(), "a part of server-1") {
			t.Errorf("stop: %v", err)
		}
		if err := g.order("sing"); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("sing: %v", err)
		}
		for v, kind := range map[control.Verb]pawl.Kind{control.Start: pawl.Conflict, control.Stop: pawl.Refused, "sing": pawl.Invalid} {
			if err := g.host.Check("r", v); pawl.KindOf(err) != kind {
				t.Errorf("check %s: %v", v, err)
			}
		}
		if err := g.host.Check("r", control.Restart); err != nil || g.after(0).Starts != 1 {
			t.Errorf("check restart: %v", err)
		}
		if err := g.host.Order(t.Context(), "q", control.Order{Verb: control.Start}); pawl.KindOf(err) != pawl.NotFound || !strings.HasSuffix(err.Error(), "want one of r") {
			t.Errorf("unknown service: %v", err)
		}
		if err := g.host.Logs(t.Context(), "r", control.LogQuery{}, nil); pawl.KindOf(err) != pawl.Refused {
			t.Errorf("logs: %v", err)
		}
		if _, err := g.host.Reload(t.Context(), pawl.Change{}); pawl.KindOf(err) != pawl.Refused {
			t.Errorf("reload: %v", err)
		}
		if err := g.order(control.Restart); err != nil {
			t.Fatal(err)
		}
		s := g.after(time.Second)
		if s.State != "running" || s.Starts != 2 || s.By != "cli:bob" || s.Exit != "it was stopped" {
			t.Errorf("restarted: %+v", s)
		}
		h, err := g.host.History(t.Context(), "r")
		if err != nil || h[3].Reason != "a restart was ordered: a new file" || h[3].Sequence != 4 || h[3].Actor != "cli:bob" || h[4].Actor != "supervisor" || *h[3].From != lifecycle.ServiceRunning {
			t.Errorf("history: %+v, %v", h, err)
		}
		broken.Store(true)
		if err := g.order(control.Restart); err != nil {
			t.Fatal(err)
		}
		if s := g.after(20 * time.Second); s.State != "starting" {
			t.Errorf("broken: %+v", s)
		}
		if err := g.host.Check("r", control.Start); err != nil {
			t.Errorf("check start in the backoff: %v", err)
		}
		broken.Store(false)
		if err := g.order(control.Start); err != nil {
			t.Fatal(err)
		}
		if s := g.after(50 * time.Millisecond); s.State != "running" {
			t.Errorf("started: %+v", s)
		}
		if left := g.end(); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

// (S10, S14) A component that ignores its context is named in the report, and by an order
// that waits for it.
func TestRunIgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		g := newRig(t, server.Component{Run: func(context.Context) error {
			<-free
			return nil
		}})
		g.after(time.Second)
		if err := g.order(control.Restart); err != nil {
			t.Fatal(err)
		}
		if s := g.after(time.Minute); s.State != "stopping" || s.Starts != 1 || !s.Escalated || len(g.host.Unready()) != 1 {
			t.Errorf("ignores its context: %+v", s)
		}
		if left := g.end(); len(left) != 1 || left[0].ID != "r" {
			t.Errorf("left: %+v", left)
		}
		close(free)
	})
}

// A component that fails for months fills no memory.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Component{Run: func(context.Context) error { return errors.New("broken") }})
		for range 200 {
			if err := g.order(control.Restart); err != nil {
				t.Fatal(err)
			}
			g.after(90 * time.Second)
		}
		h, err := g.host.History(t.Context(), "r")
		if err != nil || len(h) > 100 || h[len(h)-1].Sequence < h[0].Sequence+int64(len(h))-1 {
			t.Errorf("%d moves, %v", len(h), err)
		}
		g.end()
	})
}

// A shutdown that comes before a new run was observed still stops the run.
func TestShutdownStopsANewRun(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			begun := make(chan struct{})
			var alive atomic.Bool
			g := newRig(t, server.Component{Run: func(ctx context.Context) error {
				alive.Store(true)
				defer alive.Store(false)
				close(begun)
				return until(ctx)
			}})
			<-begun
			if left := g.end(); len(left) != 0 || alive.Load() {
				t.Errorf("left %+v, alive %t", left, alive.Load())
			}
		})
	}
}
