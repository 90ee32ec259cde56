package supervisor

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
)

// An anew is a restart that is under way: the service comes to rest, then begins
// anew.
type anew struct {
	reason, actor string
	first         own       // where it begins anew
	beginAt       time.Time // not before
	cancelAt      time.Time // when its running action is cancelled; zero: it was
	tellAt        time.Time // when it should rest; zero: not yet known, or told
}

// restarting reports whether the service is to begin anew, and nobody stops it.
func (u *service) restarting() bool { return u.anew != nil && !u.shutdown && !u.removing && !u.gone }

// restartDue answers when a restart has to be looked after.
func (u *service) restartDue(now time.Time) time.Time {
	if !u.restarting() {
		return time.Time{}
	}
	a := u.anew
	due := earlier(a.cancelAt, a.tellAt)
	if now.Before(a.beginAt) {
		due = earlier(due, a.beginAt)
	}
	return due
}

// heed follows the signal of a verdict (S11).
func (u *service) heed(v verdict, now time.Time) {
	switch v.signal {
	case SignalNeedsRemoval:
		if !u.removing {
			u.removing = true
			u.renew()
			u.later(func() { _, _ = u.sup.remove(u) }) // refused when all is being stopped anyway
		}
	case SignalNeedsRestart:
		u.restart(v, now)
	case SignalEscalate:
		reason := v.reason
		fill(&reason, u.state.reason)
		u.escalate(reason)
	}
}

// restart begins a restart, unless there were too many.
func (u *service) restart(v verdict, now time.Time) {
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
	u.anew = &anew{reason: v.reason, actor: v.actor, first: v.first, cancelAt: now.Add(u.opt.StopTimeout)}
	if len(recent) > 0 {
		u.anew.beginAt = now.Add(u.opt.Action.Backoff.Delay(len(recent), u.luck))
	}
	u.restarts = append(recent, now)
	u.renew()
}

// hasten sees to it that a restart comes to its end: when its budget is used up the
// running action is cancelled, and after its grace somebody is told.
func (u *service) hasten(now time.Time) {
	a := u.anew
	switch {
	case !u.restarting(): // who stops it has a budget for it
	case !a.cancelAt.IsZero() && !now.Before(a.cancelAt):
		a.cancelAt, a.tellAt = time.Time{}, now.Add(u.grace())
		u.interrupt(ErrShuttingDown, now)
	case !a.tellAt.IsZero() && !now.Before(a.tellAt):
		a.tellAt = time.Time{}
		if !u.resting() {
			u.escalate("a restart does not come to rest: it waits for " + u.why(now))
		}
	}
}

// rest is what a service does that has come to rest: it leaves, or begins anew.
func (u *service) rest(now time.Time) {
	switch {
	case u.gone || u.held != nil || u.closing || !u.resting():
	case u.removing && !u.sup.needed(u.id.ID):
		u.commit(&change{event: lifecycle.ServiceRemove, leaves: true, reason: "removed"}, now)
	case u.restarting() && !u.frozen && !now.Before(u.anew.beginAt):
		u.begin(now)
	}
}

// begin takes a service that rests back to its initial state.
func (u *service) begin(now time.Time) {
	first := u.anew.first
	c := &change{event: lifecycle.ServiceShift, state: first, reason: u.anew.reason, actor: u.anew.actor, begins: true}
	fill(&c.reason, "restart")
	if u.state.phase == lifecycle.ServiceFailed {
		c.event = lifecycle.ServiceReset
	}
	if u.state.name == first.name {
		c.state = own{}
	}
	u.commit(c, now)
}

// leave ends the life of a service in this supervisor.
func (u *service) leave() {
	u.gone = true
	if u.look.cancel != nil {
		u.look.cancel(ErrShuttingDown)
	}
	u.later(func() { u.sup.forget(u) })
}
