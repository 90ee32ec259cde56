package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// desired is the desired state of a loop: it runs, in a run of this generation.
type desired struct {
	Generation uint64 // incremented by each restart that is ordered
	By         string // who ordered the last one
	Why        string // the reason given for it
}

type (
	state    = supervisor.State[observed, desired]
	snapshot = supervisor.Snapshot[observed, desired]
	decision = supervisor.Decision[observed, desired]
)

// A worker is the supervisor.Worker of one loop.
type worker struct{ *loop }

func (w worker) CollectObservedState(context.Context, desired) (observed, error) {
	return w.observe(), nil
}
func (worker) DeriveDesiredState(w desired) (desired, error) { return w, nil }
func (w worker) GetInitialState() state                      { return waiting{w.loop} }

func (w worker) States() []state {
	return []state{waiting{w.loop}, starting{w.loop, ""}, running{w.loop}, failing{w.loop, ""}, stuck{w.loop, ""}, stopping{w.loop, ""}}
}

type (
	waiting  struct{ *loop }
	starting struct {
		*loop
		why string
	}
	running struct{ *loop }
	failing struct {
		*loop
		why string
	}
	stuck struct {
		*loop
		why string
	}
	stopping struct {
		*loop
		why string
	}
)

func (waiting) String() string  { return "waiting" }
func (starting) String() string { return "starting" }
func (running) String() string  { return "running" }
func (failing) String() string  { return "failing" }
func (stuck) String() string    { return "stuck" }
func (stopping) String() string { return "stopping" }

func (waiting) Reason() string    { return "" }
func (s starting) Reason() string { return s.why }
func (running) Reason() string    { return "" }
func (s failing) Reason() string  { return s.why }
func (s stuck) Reason() string    { return s.why }
func (s stopping) Reason() string { return s.why }

func (waiting) Phase() machine.State  { return lifecycle.ServiceStopped }
func (starting) Phase() machine.State { return lifecycle.ServiceTryingToStart }
func (running) Phase() machine.State  { return lifecycle.ServiceRunning }
func (failing) Phase() machine.State  { return lifecycle.ServiceDegraded }
func (stuck) Phase() machine.State    { return lifecycle.ServiceDegraded }
func (stopping) Phase() machine.State { return lifecycle.ServiceTryingToStop }

func (s waiting) Next(n snapshot) decision {
	if n.Shutdown {
		return decision{}
	}
	return supervisor.Go[observed, desired](starting{s.loop, ""})
}

func (s starting) Next(n snapshot) decision {
	switch o := n.Observed; {
	case n.Shutdown:
		return supervisor.Go[observed, desired](stopping{s.loop, "the process ends"})
	case o.Alive:
		return supervisor.Go[observed, desired](running{s.loop})
	case n.Now.Before(o.RetryAt):
		d := decision{State: starting{s.loop, "it ended: " + o.Exit}, RequeueAfter: o.RetryAt.Sub(n.Now), Reason: "the end of the backoff"}
		if o.ConsecutiveFailures >= escalateAfter {
			d.Signal, d.Reason = supervisor.SignalEscalate, fmt.Sprintf("it has ended %d times in a row: %s", o.ConsecutiveFailures, o.Exit)
		}
		return d
	}
	return decision{Action: startAction{s.loop, n.Desired.Generation}}
}

func (s running) Next(n snapshot) decision { return s.next(n) }
func (s failing) Next(n snapshot) decision { return s.next(n) }

func (s stuck) Next(n snapshot) decision {
	d := s.next(n)
	if again, ok := d.State.(stuck); ok {
		d.Signal, d.Reason = supervisor.SignalEscalate, again.why
	}
	return d
}

// next is Next of a loop that has a run.
func (l *loop) next(n snapshot) decision {
	o := n.Observed
	switch {
	case n.Shutdown:
		return supervisor.Go[observed, desired](stopping{l, "the process ends"})
	case !o.Alive:
		return supervisor.Go[observed, desired](starting{l, "it ended: " + o.Exit})
	case o.Generation != n.Desired.Generation:
		return decision{State: stopping{l, n.Desired.text()}, Actor: n.Desired.By}
	}
	if why := l.stuck(o, n.Now); why != "" {
		return supervisor.Go[observed, desired](stuck{l, why})
	}
	if why := l.failing(o, n.Now); why != "" {
		return supervisor.Go[observed, desired](failing{l, "the last round failed: " + why})
	}
	return supervisor.Go[observed, desired](running{l})
}

func (w desired) text() string {
	if w.Why == "" {
		return "a restart was ordered"
	}
	return "a restart was ordered: " + w.Why
}

func (s stopping) Next(n snapshot) decision {
	switch {
	case n.Seen.Fresh && !n.Observed.Alive: // an older observation may not show a run that has just begun
		return supervisor.Go[observed, desired](waiting{s.loop})
	case n.Action.Failed && n.Action.ActionName == (stopAction{}).Name():
		return decision{Signal: supervisor.SignalEscalate, Reason: n.Action.ErrorMessage}
	}
	return decision{Action: stopAction{s.loop}}
}

// startAction is the action that starts a run.
type startAction struct {
	*loop
	generation uint64
}

func (startAction) Name() string { return "begin" }

func (a startAction) Execute(context.Context, supervisor.Run) error {
	a.loop.start(a.generation)
	return nil
}

// stopAction is the action that stops a run. It has one attempt: when the run ends later,
// that wakes the service.
type stopAction struct{ *loop }

func (stopAction) Name() string { return "end" }

func (a stopAction) Execute(ctx context.Context, _ supervisor.Run) error { return a.loop.stop(ctx) }

func (stopAction) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: 30 * time.Second, Attempts: 1}
}
