package supervisor

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
)

// A restart is one that is under way: the service comes to rest, then begins again in its
// initial state.
type restart struct {
	reason, actor string
	first         userState // its initial state
	beginAt       time.Time // the end of the backoff
	cancelAt      time.Time // when its running action is cancelled; zero: it was
	escalateAt    time.Time // when it escalates if it does not rest; zero: not yet known, or done
}

// isRestarting reports whether the service restarts, and nothing stops it.
func (u *service) isRestarting() bool {
	return u.restarting != nil && !u.shutdown && !u.removing && !u.gone
}

// restartDue returns when the restart next needs a turn.
func (u *service) restartDue(now time.Time) time.Time {
	if !u.isRestarting() {
		return time.Time{}
	}
	a := u.restarting
	due := earlier(a.cancelAt, a.escalateAt)
	if now.Before(a.beginAt) {
		due = earlier(due, a.beginAt)
	}
	return due
}

// followSignal carries out the signal of a verdict (S11).
func (u *service) followSignal(v verdict, now time.Time) {
	switch v.signal {
	case SignalNeedsRemoval:
		if !u.removing {
			u.removing = true
			u.renew()
			u.later(func() { _, _ = u.sup.remove(u) }) // refused only when all services are being stopped
		}
	case SignalNeedsRestart:
		u.beginRestart(v, now)
	case SignalEscalate:
		reason := v.reason
		fill(&reason, u.state.reason)
		u.escalate(reason)
	}
}

// beginRestart begins a restart, unless there were too many.
func (u *service) beginRestart(v verdict, now time.Time) {
	if u.ending() {
		return
	}
	recent := u.restarts[:0]
	for _, at := range u.restarts {
		if now.Sub(at) < u.opt.RestartWindow {
			recent = append(recent, at)
		}
	}
	u.restarts = recent
	if len(recent) >= u.opt.Restarts {
		u.escalate(fmt.Sprintf("%d restarts in %s, and another is asked for: %s", len(recent), u.opt.RestartWindow, v.reason))
		return
	}
	u.restarting = &restart{reason: v.reason, actor: v.actor, first: v.first, cancelAt: now.Add(u.opt.StopTimeout)}
	if len(recent) > 0 {
		u.restarting.beginAt = now.Add(u.opt.Action.Backoff.Delay(len(recent), u.jitter))
	}
	u.restarts = append(recent, now)
	u.renew()
}

// checkRestart limits how long a restart takes: when its budget is used up the running
// action is cancelled, and after the grace of that it escalates.
func (u *service) checkRestart(now time.Time) {
	a := u.restarting
	switch {
	case !u.isRestarting(): // a stop has its own budget
	case !a.cancelAt.IsZero() && !now.Before(a.cancelAt):
		a.cancelAt, a.escalateAt = time.Time{}, now.Add(u.grace())
		u.interrupt(ErrShuttingDown, now)
	case !a.escalateAt.IsZero() && !now.Before(a.escalateAt):
		a.escalateAt = time.Time{}
		if !u.resting() {
			u.escalate("a restart does not come to rest: it waits for " + u.why(now))
		}
	}
}

// rest removes or restarts a service that has come to rest, if it is to be.
func (u *service) rest(now time.Time) {
	switch {
	case u.gone || u.held != nil || u.closing || !u.resting():
	case u.removing && !u.sup.needed(u.id.ID):
		u.commit(&change{event: lifecycle.ServiceRemove, leaves: true, reason: "removed"}, now)
	case u.isRestarting() && !u.frozen && !now.Before(u.restarting.beginAt):
		u.begin(now)
	}
}

// begin returns a service that rests to its initial state.
func (u *service) begin(now time.Time) {
	first := u.restarting.first
	c := &change{event: lifecycle.ServiceShift, state: first, reason: u.restarting.reason, actor: u.restarting.actor, begins: true}
	fill(&c.reason, "restart")
	if u.state.phase == lifecycle.ServiceFailed {
		c.event = lifecycle.ServiceReset
	}
	if u.state.name == first.name {
		c.state = userState{}
	}
	u.commit(c, now)
}

// leave removes the service from the supervisor.
func (u *service) leave() {
	u.gone = true
	if u.collection.cancel != nil {
		u.collection.cancel(ErrShuttingDown)
	}
	u.later(func() { u.sup.forget(u) })
}
