package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// A wish is what is desired of a loop: that it runs, and was begun after the newest
// order.
type wish struct {
	Order uint64 // 0: none yet
	By    string // who gave it
	Why   string
}

type (
	state    = supervisor.State[sight, wish]
	snapshot = supervisor.Snapshot[sight, wish]
	decision = supervisor.Decision[sight, wish]
)

// A keeper is the supervisor's worker of one loop.
type keeper struct{ *loop }

func (k keeper) CollectObservedState(context.Context, wish) (sight, error) { return k.look(), nil }
func (keeper) DeriveDesiredState(w wish) (wish, error)                     { return w, nil }
func (k keeper) GetInitialState() state                                    { return waiting{k.loop} }

func (k keeper) States() []state {
	return []state{waiting{k.loop}, starting{k.loop, ""}, running{k.loop}, failing{k.loop, ""}, stuck{k.loop, ""}, stopping{k.loop, ""}}
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
	return supervisor.Go[sight, wish](starting{s.loop, ""})
}

func (s starting) Next(n snapshot) decision {
	switch o := n.Observed; {
	case n.Shutdown:
		return supervisor.Go[sight, wish](stopping{s.loop, "the process ends"})
	case o.Alive:
		return supervisor.Go[sight, wish](running{s.loop})
	case n.Now.Before(o.RetryAt):
		d := decision{State: starting{s.loop, "it ended: " + o.Exit}, RequeueAfter: o.RetryAt.Sub(n.Now), Reason: "the end of the backoff"}
		if o.Streak >= tooMany {
			d.Signal, d.Reason = supervisor.SignalEscalate, fmt.Sprintf("it has ended %d times in a row: %s", o.Streak, o.Exit)
		}
		return d
	}
	return decision{Action: begin{s.loop, n.Desired.Order}}
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

// next decides about a loop that has begun.
func (l *loop) next(n snapshot) decision {
	o := n.Observed
	switch {
	case n.Shutdown:
		return supervisor.Go[sight, wish](stopping{l, "the process ends"})
	case !o.Alive:
		return supervisor.Go[sight, wish](starting{l, "it ended: " + o.Exit})
	case o.Order != n.Desired.Order:
		return decision{State: stopping{l, n.Desired.text()}, Actor: n.Desired.By}
	}
	if why := l.stuck(o, n.Now); why != "" {
		return supervisor.Go[sight, wish](stuck{l, why})
	}
	if why := l.failing(o, n.Now); why != "" {
		return supervisor.Go[sight, wish](failing{l, "the last round failed: " + why})
	}
	return supervisor.Go[sight, wish](running{l})
}

func (w wish) text() string {
	if w.Why == "" {
		return "a restart was asked for"
	}
	return "a restart was asked for: " + w.Why
}

func (s stopping) Next(n snapshot) decision {
	switch {
	case n.Seen.Fresh && !n.Observed.Alive: // an older one may not show a run that has just begun
		return supervisor.Go[sight, wish](waiting{s.loop})
	case n.Action.Failed && n.Action.ActionName == (end{}).Name():
		return decision{Signal: supervisor.SignalEscalate, Reason: n.Action.ErrorMessage}
	}
	return decision{Action: end{s.loop}}
}

// begin is the action that begins a run.
type begin struct {
	*loop
	order uint64
}

func (begin) Name() string { return "begin" }

func (b begin) Execute(context.Context, supervisor.Run) error {
	b.loop.begin(b.order)
	return nil
}

// end is the action that ends a run. It is not tried again: the end of the run, when
// it comes, is news by itself.
type end struct{ *loop }

func (end) Name() string { return "end" }

func (e end) Execute(ctx context.Context, _ supervisor.Run) error { return e.loop.end(ctx) }

func (end) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: 30 * time.Second, Attempts: 1}
}
