package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A change is what one commit changes: a transition, an accepted action, an outcome, or a
// transition and an action. None of it takes effect before it is committed (S3).
type change struct {
	event  machine.Event
	state  userState     // empty name: it stays
	action *attempt      // to be started afterwards, or nil
	status *ActionStatus // an outcome, or nil
	reason string
	actor  string // empty: that of the supervisor

	begins bool // a restart: the service is in its initial state again
	leaves bool // the service is removed

	entry   audit.Entry
	retryAt time.Time // when the journal is tried again; zero while a call is under way
	tries   int
}

// decide carries out a decision of Next, as a whole or not at all.
func (u *service) decide(v verdict, now time.Time) {
	if v.cancel {
		u.interrupt(ErrPreempted, now)
	}
	if v.requeueAfter > 0 {
		u.requeue = earlier(u.requeue, now.Add(v.requeueAfter))
	}
	u.followSignal(v, now)
	c, waits, err := u.changeFor(v, now)
	u.denied = err != nil
	switch {
	case err != nil:
		u.refuse(err)
	case c != nil:
		u.refusal = ""
		u.commit(c, now)
	default:
		u.waits = waits
		if v.state.name == u.state.name { // it may have a new reason
			u.state = v.state
		}
	}
}

// changeFor returns the change that a verdict leads to. Without one, it returns what the
// service waits for.
func (u *service) changeFor(v verdict, now time.Time) (*change, string, error) {
	if v.fault != nil {
		return nil, "", v.fault
	}
	c := change{event: lifecycle.ServiceAct, reason: v.reason, actor: v.actor}
	if v.state.name == u.state.name {
		v.state = userState{}
	}
	if v.state.name != "" {
		if u.transitions >= maxTransitions {
			return nil, "", fmt.Errorf("service %s: %d changes of state on one observation: state %s waits for the next", u.id.ID, maxTransitions, v.state.name)
		}
		event, err := u.event(v.state)
		if err != nil {
			return nil, "", err
		}
		if event == lifecycle.ServiceStart && len(v.missing) > 0 && !u.opt.StartsByItself && !u.ending() {
			return nil, list(v.missing) + " to run", nil
		}
		c.event, c.state = event, v.state
	}
	if v.action != nil {
		switch how, err := u.admit(v, now); how {
		case admitted:
			c.action = u.newAttempt(v, now)
		case unseen:
			return nil, "an observation that shows what action " + v.name + " has done", nil
		case waits, refused:
			return nil, v.reason, err
		}
	}
	if c.action == nil && c.state.name == "" {
		return nil, v.reason, nil
	}
	made := c // allocated here, since most turns make none
	return &made, "", nil
}

// event returns the event of the table that leads to a state.
func (u *service) event(to userState) (machine.Event, error) {
	if event, ok := eventFor(u.state.phase, to.phase); ok {
		return event, nil
	}
	return "", fmt.Errorf("service %s: state %s stands for %s, and the table has no transition to it from %s (%s)",
		u.id.ID, to.name, to.phase, u.state.phase, u.state.name)
}

// commit makes a change, in the journal first if there is one. Until it is written the
// service makes no other.
func (u *service) commit(c *change, now time.Time) {
	if u.trail.journal == nil || u.frozen {
		u.apply(c, now)
		return
	}
	e := audit.Entry{From: u.state.phase, To: u.state.phase, Event: c.event, Reason: c.reason, Actor: c.actor}
	if c.state.name != "" {
		e.To = c.state.phase
	}
	if c.leaves {
		e.To = lifecycle.ServiceRemoved
	}
	if err := u.trail.seal(&e, u.note(c), now); err != nil {
		u.refuse(err)
		return
	}
	c.entry, u.pending = e, c
	u.write(c)
}

// note returns the metadata of a change's entry.
func (u *service) note(c *change) note {
	n := note{State: u.state.name}
	if c.state.name != "" {
		n.State = c.state.name
	}
	switch {
	case c.status != nil:
		n.Action = c.status
	case c.action != nil:
		n.Action = &c.action.status
	case u.act != nil:
		n.Action = &u.act.status
	default:
		n.Fence = u.trail.fence
	}
	return n
}

func (u *service) write(c *change) {
	c.retryAt = time.Time{}
	c.tries++
	go u.sup.write(u, c.entry)
}

// write is the goroutine that appends an entry.
func (s *Supervisor) write(u *service, e audit.Entry) {
	m := message{service: u, kind: wrote, err: errExited}
	defer func() {
		m.at, m.err = time.Now(), readable(m.err)
		u.shard.post(m)
	}()
	if p := guard(func() { m.err = s.config.Journal.Append(s.writing, e) }); p != nil {
		m.err = p
	}
}

// written handles the result of an Append. After an error the same entry is tried again,
// since it may have been written after all.
func (u *service) written(m *message, now time.Time) {
	c := u.pending
	switch {
	case m.err == nil:
		u.pending = nil
		u.trail.wrote(c.entry)
		u.apply(c, now)
	case errors.Is(m.err, ErrConflict):
		u.pending, u.frozen = nil, true
		u.interrupt(ErrShuttingDown, now)
		u.escalate(m.err.Error())
	default:
		failures := c.tries
		if u.ending() { // a stop retries without a growing backoff
			failures = 1
		}
		c.retryAt = now.Add(u.opt.Collector.Backoff.Delay(failures, u.jitter))
		tries, err := c.tries, m.err // m is reused by then
		u.later(func() { u.sup.log.Error("journal failed", "service", u.id.ID, "tries", tries, "error", err) })
	}
}

// rewrite retries the journal when that is due.
func (u *service) rewrite(now time.Time) {
	if c := u.pending; c != nil && !c.retryAt.IsZero() && !now.Before(c.retryAt) {
		u.write(c)
	}
}

// apply carries out a committed change.
func (u *service) apply(c *change, now time.Time) {
	if c.status != nil {
		u.showOutcome(*c.status)
	}
	if c.state.name != "" {
		u.enter(c, now)
	}
	if c.action != nil {
		u.start(c.action, now)
	}
	if c.begins {
		u.restarting = nil
		u.renew()
	}
	if c.leaves {
		u.leave()
	}
	u.dirty = true
}

// enter changes the state.
func (u *service) enter(c *change, now time.Time) {
	t := Transition{
		From: u.state.name, To: c.state.name, FromPhase: u.state.phase, ToPhase: c.state.phase,
		Event: c.event, Reason: c.reason, Actor: c.actor, At: now, After: now.Sub(u.since),
	}
	u.state, u.since, u.waits = c.state, now, ""
	fill(&u.state.reason, c.reason)
	u.transitions++
	u.lift()
	u.later(func() {
		u.sup.log.Info("state changed", "service", u.id.ID, "from", t.From, "to", t.To, "event", string(t.Event), "reason", t.Reason)
		if hook := u.sup.hooks.Transition; hook != nil {
			hook(u.id, t)
		}
		u.sup.wakeRelated(u)
	})
}
