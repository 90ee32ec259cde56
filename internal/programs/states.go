package programs

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// The names of the states.
const (
	stopped   = "stopped"
	waiting   = "waiting"   // for its needs, and to be started
	starting  = "starting"  // it runs, and is not ready
	backoff   = "backoff"   // it has ended, and is started again later
	running   = "running"   // and ready
	degraded  = "degraded"  // it was ready, and is not
	stopping  = "stopping"  // until nothing of it is left
	completed = "completed" // it has done its work
	failed    = "failed"    // until somebody orders a start, or changes it
)

// phases are what the states stand for.
var phases = map[string]machine.State{
	stopped:   lifecycle.ServiceStopped,
	waiting:   lifecycle.ServiceTryingToStart,
	starting:  lifecycle.ServiceTryingToStart,
	backoff:   lifecycle.ServiceTryingToStart,
	running:   lifecycle.ServiceRunning,
	degraded:  lifecycle.ServiceDegraded,
	stopping:  lifecycle.ServiceTryingToStop,
	completed: lifecycle.ServiceStopped,
	failed:    lifecycle.ServiceFailed,
}

type (
	snapshot = supervisor.Snapshot[sight, wish]
	decision = supervisor.Decision[sight, wish]
)

// A state is one of a program.
type state struct {
	ward   *ward // that its actions act on
	name   string
	reason string
	after  int       // of waiting: the attempt that was the last when it began
	until  time.Time // of backoff
}

// String is its name.
func (s state) String() string { return s.name }

// Reason implements supervisor.State.
func (s state) Reason() string { return s.reason }

// Phase implements supervisor.State.
func (s state) Phase() machine.State { return phases[s.name] }

// Next implements supervisor.State.
func (s state) Next(n snapshot) decision {
	switch s.name {
	case waiting:
		return s.wait(n)
	case starting:
		return s.start(n)
	case backoff:
		return s.pause(n)
	case running, degraded:
		return s.run(n)
	case stopping:
		return s.stop(n)
	}
	return s.rest(n)
}

func (s state) to(name, reason string) decision {
	return supervisor.Go[sight, wish](state{ward: s.ward, name: name, reason: reason})
}

// begin goes to where the program is started as soon as its needs are met.
func (s state) begin(n snapshot, g ground) decision {
	d := supervisor.Go[sight, wish](state{ward: s.ward, name: waiting, reason: g.why, after: n.Observed.Attempts})
	d.Actor = g.by
	return d
}

// end goes to where the program is ended, with the action that does it.
func (s state) end(n snapshot, g ground) decision {
	d := s.to(stopping, g.why)
	d.Actor = g.by
	if n.Observed.Up {
		d.Action = stop{ward: s.ward, wish: n.Desired}
	}
	return d
}

// leaving says whether the program is not to run, or not as it runs now, and why.
func leaving(n snapshot) (g ground, yes bool) {
	switch {
	case !n.Desired.Run:
		return n.Desired.ground(), true
	case n.Shutdown:
		return ground{why: "the supervisor stops"}, true
	}
	return n.Desired.ground(), (n.Observed.Up || n.Observed.Begun) && outdated(n)
}

// interrupted is the reason of a start after the supervisor was killed.
const interrupted = "the supervisor was killed while it ran"

func nothing(string) string { return "" }

// ordered reports whether there was an order, or a change, since the last attempt
// ended. After a restart of the keeper nothing is known of an attempt, and that
// counts as a change.
func ordered(n snapshot) bool {
	o := n.Observed
	return o.Exit == nil || n.Desired.Order > o.Exit.Order || outdated(n)
}

// outdated reports whether the last attempt was made before it was to be made anew. It
// may have ended at the same time, by itself, and is not asked how.
func outdated(n snapshot) bool { return n.Observed.Order < n.Desired.Renew }

// again reports whether what has completed or failed is to be started. What has completed
// has done its work: a change that does not touch that is no reason to do it twice.
func (s state) again(n snapshot) bool {
	if s.name == completed && n.Observed.Exit != nil && !outdated(n) {
		return judge(n.Desired.Program.Restart, n.Observed).end != completed
	}
	return ordered(n)
}

// rest is Next of what does not run, and will not by itself.
func (s state) rest(n snapshot) decision {
	switch {
	case n.Shutdown:
		return decision{}
	case n.Desired.Run && (s.name == stopped || s.again(n)):
		return s.begin(n, n.Desired.ground())
	case !n.Desired.Run && (s.name == failed || s.name == completed && n.Observed.Attempts == 0):
		d := s.to(stopped, n.Desired.Why)
		d.Actor = n.Desired.Actor
		return d
	case s.name == failed:
		return decision{Signal: supervisor.SignalEscalate, Reason: s.reason}
	}
	return decision{}
}

func (s state) wait(n snapshot) decision {
	if g, yes := leaving(n); yes {
		return s.end(n, g)
	}
	switch o := n.Observed; {
	case n.Action.InProgress || o.Begun:
		return decision{Reason: "it is being started"}
	case o.Up:
		return s.to(starting, "")
	case o.Exit != nil && o.Attempts > s.after:
		return s.ended(n)
	}
	if needs := unmet(n.Desired.Program.Needs, s.ward.keeper.lived(n.Dependencies), nothing); len(needs) > 0 {
		return decision{Reason: strings.Join(needs, "; ")}
	}
	return decision{Action: start{ward: s.ward, wish: n.Desired}}
}

func (s state) start(n snapshot) decision {
	if g, yes := leaving(n); yes {
		return s.end(n, g)
	}
	left, limited := remaining(n)
	switch o := n.Observed; {
	case !o.Up:
		return s.ended(n)
	case o.Ready:
		return s.to(running, "")
	case limited && left <= 0:
		why := "it was not ready within " + short(n.Desired.Program.Start.Timeout)
		return decision{Action: stop{ward: s.ward, wish: n.Desired, cause: why}, Reason: why + ", and is ended"}
	case limited:
		return decision{RequeueAfter: left, Reason: "it is not ready yet"}
	}
	return decision{Reason: "it is not ready yet"}
}

// remaining answers how long the program still has to become ready.
func remaining(n snapshot) (left time.Duration, limited bool) {
	limit := n.Desired.Program.Start.Timeout
	return limit - n.Now.Sub(n.Observed.Started), limit > 0
}

// run is Next of a program that was ready.
func (s state) run(n snapshot) decision {
	if g, yes := leaving(n); yes {
		return s.end(n, g)
	}
	switch o := n.Observed; {
	case !o.Up:
		return s.ended(n)
	case o.Sick != "":
		d := decision{Action: stop{ward: s.ward, wish: n.Desired, cause: o.Sick}, Reason: o.Sick + ", and it is ended"}
		if s.name == running {
			d.State = state{ward: s.ward, name: degraded, reason: d.Reason}
		}
		return d
	case s.name == running && !o.Ready:
		return s.to(degraded, o.Unready)
	case s.name == degraded && o.Ready:
		return s.to(running, "")
	}
	return decision{}
}

func (s state) pause(n snapshot) decision {
	g, yes := leaving(n)
	switch {
	case yes:
		return s.end(n, g)
	case ordered(n):
		return s.begin(n, n.Desired.ground())
	case !n.Now.Before(s.until):
		return s.begin(n, ground{why: "the backoff has passed"})
	}
	return decision{RequeueAfter: s.until.Sub(n.Now), Reason: s.reason}
}

func (s state) stop(n snapshot) decision {
	switch o := n.Observed; {
	case n.Action.InProgress && n.Action.ActionName == actionStart, o.Begun:
		return decision{Reason: "it is just being started"}
	case o.Up:
		return decision{Action: stop{ward: s.ward, wish: n.Desired}, Reason: s.reason}
	case !n.Seen.Fresh:
		return decision{Reason: s.reason}
	}
	if _, yes := leaving(n); !yes && !ordered(n) && !n.Observed.Exit.Ordered {
		if v := judge(n.Desired.Program.Restart, n.Observed); v.end == completed {
			return s.to(completed, v.cause)
		}
	}
	return s.to(stopped, s.reason)
}

// ended is what follows when the program has ended though nobody asked for it.
func (s state) ended(n snapshot) decision {
	o := n.Observed
	switch {
	case o.Exit == nil:
		return s.begin(n, ground{why: interrupted})
	case o.Exit.Ordered, outdated(n):
		return s.begin(n, n.Desired.ground())
	}
	v := judge(n.Desired.Program.Restart, o)
	switch {
	case v.end == failed:
		return s.to(failed, v.cause)
	case v.end == backoff:
		return supervisor.Go[sight, wish](state{ward: s.ward, name: backoff, reason: v.reason(n.Now), until: v.at})
	case s.name == running:
		return s.to(completed, v.cause)
	case s.name != degraded && o.WasReady: // it has run, if briefly
		return s.to(running, "")
	}
	return s.to(stopping, v.cause)
}
