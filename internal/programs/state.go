package programs

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// The states of a program.
const (
	stopped   = "stopped"
	waiting   = "waiting"   // until its needs are met, and it is started
	starting  = "starting"  // it runs, and is not ready yet
	backoff   = "backoff"   // it has ended, and is restarted later
	running   = "running"   // it runs, and is ready
	degraded  = "degraded"  // it runs, and is no longer ready
	stopping  = "stopping"  // until all its processes have ended
	completed = "completed" // it ended with exit code 0, and is not restarted
	failed    = "failed"    // until a start is ordered, or its spec changes
)

// phases maps each state to the state of the table "service" that it stands for.
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
	snapshot = supervisor.Snapshot[observed, desired]
	decision = supervisor.Decision[observed, desired]
)

// A state is one state of a program: a supervisor.State.
type state struct {
	program *program // on which its actions act
	name    string
	reason  string
	after   int       // waiting: the number of attempts when it began
	until   time.Time // backoff: when it ends
}

// String returns the name.
func (s state) String() string { return s.name }

// Reason implements supervisor.State.
func (s state) Reason() string { return s.reason }

// Phase implements supervisor.State.
func (s state) Phase() machine.State { return phases[s.name] }

// Next implements supervisor.State.
func (s state) Next(n snapshot) decision {
	switch s.name {
	case waiting:
		return s.nextWaiting(n)
	case starting:
		return s.nextStarting(n)
	case backoff:
		return s.nextBackoff(n)
	case running, degraded:
		return s.nextUp(n)
	case stopping:
		return s.nextStopping(n)
	}
	return s.nextAtRest(n)
}

func (s state) to(name, reason string) decision {
	return supervisor.Go[observed, desired](state{program: s.program, name: name, reason: reason})
}

// begin moves to waiting, where the program is started once its needs are met.
func (s state) begin(n snapshot, t trigger) decision {
	d := supervisor.Go[observed, desired](state{program: s.program, name: waiting, reason: t.reason, after: n.Observed.Attempts})
	d.Actor = t.actor
	return d
}

// end moves to stopping, with the action that stops the program if it runs.
func (s state) end(n snapshot, t trigger) decision {
	d := s.to(stopping, t.reason)
	d.Actor = t.actor
	if n.Observed.Up {
		d.Action = stop{program: s.program, desired: n.Desired}
	}
	return d
}

// mustEnd reports whether the program has to be ended: it should not run, or it was
// started before RestartBefore.
func mustEnd(n snapshot) (t trigger, yes bool) {
	switch {
	case !n.Desired.Run:
		return n.Desired.trigger(), true
	case n.Shutdown:
		return trigger{reason: "the supervisor stops"}, true
	}
	return n.Desired.trigger(), (n.Observed.Up || n.Observed.Launching) && outdated(n)
}

// interrupted is the reason of a start after the supervisor was killed.
const interrupted = "the supervisor was killed while it ran"

func noDetail(string) string { return "" }

// hasNewOrder reports whether there was an order or a change since the last attempt ended.
// A new manager knows nothing of earlier attempts; that counts as a change.
func hasNewOrder(n snapshot) bool {
	o := n.Observed
	return o.Exit == nil || n.Desired.Generation > o.Exit.Generation || outdated(n)
}

// outdated reports whether the last attempt began before RestartBefore. It may have ended
// by itself at the same time; that makes no difference.
func outdated(n snapshot) bool { return n.Observed.Generation < n.Desired.RestartBefore }

// mayStartAgain reports whether a completed or failed program is to be started. One that
// has completed has done its work: a change that neither restarts it nor makes its exit a
// reason to restart does not do the work twice.
func (s state) mayStartAgain(n snapshot) bool {
	if s.name == completed && n.Observed.Exit != nil && !outdated(n) {
		return judge(n.Desired.Spec.Restart, n.Observed).state != completed
	}
	return hasNewOrder(n)
}

// nextAtRest is Next of stopped, completed and failed.
func (s state) nextAtRest(n snapshot) decision {
	switch {
	case n.Shutdown:
		return decision{}
	case n.Desired.Run && (s.name == stopped || s.mayStartAgain(n)):
		return s.begin(n, n.Desired.trigger())
	case !n.Desired.Run && (s.name == failed || s.name == completed && n.Observed.Attempts == 0):
		d := s.to(stopped, n.Desired.Why)
		d.Actor = n.Desired.Actor
		return d
	case s.name == failed:
		return decision{Signal: supervisor.SignalEscalate, Reason: s.reason}
	}
	return decision{}
}

func (s state) nextWaiting(n snapshot) decision {
	if t, yes := mustEnd(n); yes {
		return s.end(n, t)
	}
	switch o := n.Observed; {
	case n.Action.InProgress || o.Launching:
		return decision{Reason: "it is being started"}
	case o.Up:
		return s.to(starting, "")
	case o.Exit != nil && o.Attempts > s.after:
		return s.ended(n)
	}
	if needs := unmet(n.Desired.Spec.Needs, s.program.manager.currentPeers(n.Dependencies), noDetail); len(needs) > 0 {
		return decision{Reason: strings.Join(needs, "; ")}
	}
	return decision{Action: start{program: s.program, desired: n.Desired}}
}

func (s state) nextStarting(n snapshot) decision {
	if t, yes := mustEnd(n); yes {
		return s.end(n, t)
	}
	left, limited := startTimeLeft(n)
	switch o := n.Observed; {
	case !o.Up:
		return s.ended(n)
	case o.Ready:
		return s.to(running, "")
	case limited && left <= 0:
		why := "it was not ready within " + short(n.Desired.Spec.Start.Timeout)
		return decision{Action: stop{program: s.program, desired: n.Desired, cause: why}, Reason: why + ", and is ended"}
	case limited:
		return decision{RequeueAfter: left, Reason: "it is not ready yet"}
	}
	return decision{Reason: "it is not ready yet"}
}

// startTimeLeft returns how long the program still has to become ready.
func startTimeLeft(n snapshot) (left time.Duration, limited bool) {
	limit := n.Desired.Spec.Start.Timeout
	return limit - n.Now.Sub(n.Observed.Started), limit > 0
}

// nextUp is Next of running and degraded.
func (s state) nextUp(n snapshot) decision {
	if t, yes := mustEnd(n); yes {
		return s.end(n, t)
	}
	switch o := n.Observed; {
	case !o.Up:
		return s.ended(n)
	case o.Unhealthy != "":
		d := decision{Action: stop{program: s.program, desired: n.Desired, cause: o.Unhealthy}, Reason: o.Unhealthy + ", and it is ended"}
		if s.name == running {
			d.State = state{program: s.program, name: degraded, reason: d.Reason}
		}
		return d
	case s.name == running && !o.Ready:
		return s.to(degraded, o.Unready)
	case s.name == degraded && o.Ready:
		return s.to(running, "")
	}
	return decision{}
}

func (s state) nextBackoff(n snapshot) decision {
	t, yes := mustEnd(n)
	switch {
	case yes:
		return s.end(n, t)
	case hasNewOrder(n):
		return s.begin(n, n.Desired.trigger())
	case !n.Now.Before(s.until):
		return s.begin(n, trigger{reason: "the backoff has passed"})
	}
	return decision{RequeueAfter: s.until.Sub(n.Now), Reason: s.reason}
}

func (s state) nextStopping(n snapshot) decision {
	switch o := n.Observed; {
	case n.Action.InProgress && n.Action.ActionName == actionStart, o.Launching:
		return decision{Reason: "it is just being started"}
	case o.Up:
		return decision{Action: stop{program: s.program, desired: n.Desired}, Reason: s.reason}
	case !n.Seen.Fresh:
		return decision{Reason: s.reason}
	}
	if _, yes := mustEnd(n); !yes && !hasNewOrder(n) && !n.Observed.Exit.Ordered {
		if v := judge(n.Desired.Spec.Restart, n.Observed); v.state == completed {
			return s.to(completed, v.cause)
		}
	}
	return s.to(stopped, s.reason)
}

// ended decides what follows when the program has ended by itself.
func (s state) ended(n snapshot) decision {
	o := n.Observed
	switch {
	case o.Exit == nil:
		return s.begin(n, trigger{reason: interrupted})
	case o.Exit.Ordered, outdated(n):
		return s.begin(n, n.Desired.trigger())
	}
	v := judge(n.Desired.Spec.Restart, o)
	switch {
	case v.state == failed:
		return s.to(failed, v.cause)
	case v.state == backoff:
		return supervisor.Go[observed, desired](state{program: s.program, name: backoff, reason: v.reason(n.Now), until: v.at})
	case s.name == running:
		return s.to(completed, v.cause)
	case s.name != degraded && o.WasReady: // it was ready, if briefly
		return s.to(running, "")
	}
	return s.to(stopping, v.cause)
}
