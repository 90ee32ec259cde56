package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// The tests supervise a plant: a thing that is up or down, and that can be told
// to misbehave.

type (
	snapshot = supervisor.Snapshot[seen, want]
	decision = supervisor.Decision[seen, want]
	state    = supervisor.State[seen, want]
	handle   = supervisor.Handle[want, seen, want]
)

type seen struct{ Up, Sick bool }

type want struct {
	Down bool // it is to be stopped
	Rev  int  // of a configuration
}

// A plant is a worker, and the thing that it works on.
type plant struct {
	id     string
	start  func(ctx context.Context, p *plant) error // nil: up at once
	stop   func(ctx context.Context, p *plant) error
	look   func(ctx context.Context, p *plant) error // before the look
	next   func(state string, s snapshot) *decision  // nil, or instead of Next
	limits supervisor.ActionLimits

	mu      sync.Mutex
	up      bool
	sick    bool
	running int // actions at this moment
	overlap bool
	runs    []string // names of actions, as they began
	looks   int
}

func (p *plant) CollectObservedState(ctx context.Context, _ want) (seen, error) {
	var look func(context.Context, *plant) error
	p.set(func() {
		p.looks++
		look = p.look
	})
	if look != nil {
		if err := look(ctx, p); err != nil {
			return seen{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return seen{p.up, p.sick}, nil
}

func (p *plant) DeriveDesiredState(w want) (want, error) {
	if w.Rev < 0 {
		return w, errors.New("rev: want 0 or more")
	}
	return w, nil
}

func (p *plant) GetInitialState() state { return own{p: p, is: lifecycle.ServiceStopped} }

func (p *plant) States() []state {
	var all []state
	for _, s := range lifecycle.Service.States {
		if !lifecycle.Service.Ended(s) {
			all = append(all, own{p: p, is: s})
		}
	}
	return all
}

func (p *plant) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// began returns how many actions of a name have begun.
func (p *plant) began(name string) (n int) {
	p.set(func() {
		for _, r := range p.runs {
			if r == name {
				n++
			}
		}
	})
	return n
}

// looked returns how many collections have begun.
func (p *plant) looked() (n int) {
	p.set(func() { n = p.looks })
	return n
}

// own is a state of a plant: it is called what it stands for.
type own struct {
	p   *plant
	is  machine.State
	gen uint64 // of the desired state that it failed to reach
}

func (s own) String() string       { return string(s.is) }
func (s own) Reason() string       { return "" }
func (s own) Phase() machine.State { return s.is }

func (s own) to(is machine.State) decision { return supervisor.Go[seen, want](own{p: s.p, is: is}) }

func (s own) act(name string, f func(context.Context, *plant) error, up bool) decision {
	return decision{Action: &deed{p: s.p, name: name, f: f, up: up}}
}

// Next is how a careful user writes it.
func (s own) Next(n snapshot) decision {
	var next func(string, snapshot) *decision
	s.p.set(func() { next = s.p.next })
	if next != nil {
		if d := next(s.String(), n); d != nil {
			return *d
		}
	}
	down := n.Shutdown || n.Desired.Down
	switch s.is {
	case lifecycle.ServiceStopped:
		switch {
		case !down && n.DependenciesRun():
			return s.to(lifecycle.ServiceTryingToStart)
		case down && n.Seen.Fresh && n.Observed.Up: // it was started from outside
			return s.act("stop", s.p.stop, false)
		}
	case lifecycle.ServiceTryingToStart:
		return s.starting(n, down)
	case lifecycle.ServiceRunning, lifecycle.ServiceDegraded:
		return s.watch(n, down)
	case lifecycle.ServiceTryingToStop:
		return s.stopping(n)
	case lifecycle.ServiceFailed:
		if !down && n.Generation != s.gen {
			return s.to(lifecycle.ServiceTryingToStart)
		}
	}
	return decision{}
}

func (s own) failed(n snapshot) decision {
	return supervisor.Go[seen, want](own{s.p, lifecycle.ServiceFailed, n.Generation})
}

func (s own) starting(n snapshot, down bool) decision {
	switch {
	case down:
		return s.to(lifecycle.ServiceTryingToStop)
	case n.Action.InProgress:
	case n.Action.Failed && n.Action.ActionName == "start":
		return s.failed(n)
	case n.Observed.Up:
		return s.to(lifecycle.ServiceRunning)
	default:
		return s.act("start", s.p.start, true)
	}
	return decision{}
}

func (s own) watch(n snapshot, down bool) decision {
	sick := n.Observed.Sick
	for _, c := range n.Children {
		sick = sick || c.Phase != lifecycle.ServiceRunning
	}
	switch {
	case down:
		return s.to(lifecycle.ServiceTryingToStop)
	case !n.Observed.Up:
		return s.to(lifecycle.ServiceTryingToStart)
	case sick && s.is == lifecycle.ServiceRunning:
		return s.to(lifecycle.ServiceDegraded)
	case !sick && s.is == lifecycle.ServiceDegraded:
		return s.to(lifecycle.ServiceRunning)
	}
	return decision{}
}

func (s own) stopping(n snapshot) decision {
	switch {
	case n.Action.InProgress:
		return decision{Cancel: n.Action.ActionName != "stop"}
	case n.Action.Failed && n.Action.ActionName == "stop":
		return s.failed(n)
	case n.Seen.Fresh && !n.Observed.Up, n.Shutdown && n.Action.Succeeded && n.Action.ActionName == "stop":
		return s.to(lifecycle.ServiceStopped)
	}
	return s.act("stop", s.p.stop, false)
}

// A deed is an action on a plant.
type deed struct {
	p    *plant
	name string
	f    func(context.Context, *plant) error
	up   bool
}

func (d *deed) Name() string                    { return d.name }
func (d *deed) Limits() supervisor.ActionLimits { return d.p.limits }

func (d *deed) Execute(ctx context.Context, run supervisor.Run) error {
	p := d.p
	p.set(func() {
		p.runs = append(p.runs, d.name)
		p.running++
		p.overlap = p.overlap || p.running > 1
	})
	defer p.set(func() { p.running-- })
	if d.f != nil {
		if err := d.f(ctx, p); err != nil {
			return err
		}
	}
	p.set(func() { p.up = d.up })
	return nil
}

// quiet is a log that is discarded.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// A hall is a supervisor in a bubble of fake time, with plants.
type hall struct {
	*testing.T
	s      *supervisor.Supervisor
	cancel context.CancelFunc
	report chan supervisor.Report
	began  time.Time

	mu    sync.Mutex
	trace []string
}

// exact is jitter's middle: backoff is not shortened, intervals are not stretched.
func exact() float64 { return 0 }

// bubble runs a test on a fake clock, with a supervisor that runs, and stops it at
// the end.
func bubble(t *testing.T, c supervisor.Config, f func(h *hall)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, c)
		h.run()
		f(h)
		h.stop()
		time.Sleep(3 * time.Hour) // until the deaf have returned
	})
}

func newHall(t *testing.T, c supervisor.Config) *hall {
	t.Helper()
	h := &hall{T: t, began: time.Now()}
	if c.Log == nil {
		c.Log = quiet()
	}
	if c.Random == nil {
		c.Random = exact
	}
	if c.Hooks.Transition == nil {
		c.Hooks.Transition = func(id supervisor.Identity, tr supervisor.Transition) {
			h.note("%s %s -> %s", id.ID, tr.From, tr.To)
		}
	}
	s, err := supervisor.New(c)
	if err != nil {
		t.Fatal(err)
	}
	h.s = s
	return h
}

func (h *hall) run() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.report = cancel, make(chan supervisor.Report, 1)
	go func() {
		r, err := h.s.Run(ctx)
		if err != nil {
			h.Error(err)
		}
		h.report <- r
	}()
	synctest.Wait()
}

// stop stops the supervisor, and returns its report. Stopping twice is fine.
func (h *hall) stop() supervisor.Report {
	h.cancel()
	r := <-h.report
	h.report <- r
	return r
}

// note adds a line to the trace.
func (h *hall) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trace = append(h.trace, fmt.Sprintf("%7.3f ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

func (h *hall) add(p *plant, o supervisor.Options) *handle {
	h.Helper()
	return h.addAs(supervisor.Identity{ID: p.id}, p, o)
}

func (h *hall) addAs(id supervisor.Identity, p *plant, o supervisor.Options) *handle {
	h.Helper()
	x, err := supervisor.Add(context.Background(), h.s, id, p, want{}, o)
	if err != nil {
		h.Fatal(err)
	}
	return x
}

// pass lets time pass, until everything waits.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// in fails unless a service is in a state.
func (h *hall) in(id string, phase machine.State) {
	h.Helper()
	st, err := h.s.Status(id)
	if err != nil || st.Phase != phase {
		h.Fatalf("service %s is in %q (%v), waiting for %q: want %s", id, st.Phase, err, st.Waits, phase)
	}
}
