package supervisor

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A change is what one commit changes: a move, an accepted action, an outcome, or
// a move and an action. Nothing of it holds before it is committed (S3).
type change struct {
	event  machine.Event
	state  own           // without a name: it stays
	action *attempt      // to be started afterwards, or nil
	status *ActionStatus // an outcome, or nil
	reason string

	begins bool // the service begins anew: a restart
	leaves bool // the service leaves

	entry   audit.Entry
	retryAt time.Time // when the journal is tried again; zero while a call is under way
	tries   int
}

// decide takes a decision of Next, as a whole or not at all.
func (u *service) decide(v verdict, now time.Time) {
	if v.cancel {
		u.interrupt(ErrPreempted, now)
	}
	if v.requeueAfter > 0 {
		u.requeue = earlier(u.requeue, now.Add(v.requeueAfter))
	}
	u.heed(v, now)
	c, err := u.weigh(v, now)
	switch {
	case err != nil:
		u.refuse(err)
	case c != nil:
		u.refusal = ""
		u.commit(c, now)
	default:
		u.waits = v.reason
		if v.state.name == u.state.name { // it may have another reason now
			u.state = v.state
		}
	}
}

// weigh answers the change that a verdict leads to: nil if there is none, or none
// yet.
func (u *service) weigh(v verdict, now time.Time) (*change, error) {
	c := change{event: lifecycle.ServiceAct, reason: v.reason}
	if v.state.name == u.state.name {
		v.state = own{}
	}
	if v.state.name != "" {
		if u.hops >= maxHops {
			return nil, fmt.Errorf("service %s: %d changes of state on one observation: state %s waits for the next", u.id.ID, maxHops, v.state.name)
		}
		event, err := u.event(v.state)
		if err != nil {
			return nil, err
		}
		c.event, c.state = event, v.state
	}
	if v.action != nil {
		switch how, err := u.admit(v, now); how {
		case admitted:
			c.action = u.next(v, now)
		case waits, refused:
			return nil, err
		}
	}
	if c.action == nil && c.state.name == "" {
		return nil, nil
	}
	made := c // most turns make none, and allocate nothing
	return &made, nil
}

// event answers the event of the table that leads to a state.
func (u *service) event(to own) (machine.Event, error) {
	if _, ok := u.worker.find(to.name); !ok {
		return "", fmt.Errorf("service %s: state %s is not one of the worker's States", u.id.ID, to.name)
	}
	if to.phase == u.state.phase {
		return lifecycle.ServiceShift, nil
	}
	for event, phase := range lifecycle.Service.Table[u.state.phase] {
		if phase == to.phase {
			return event, nil
		}
	}
	return "", fmt.Errorf("service %s: state %s stands for %s, and the table has no way there from %s (%s)",
		u.id.ID, to.name, to.phase, u.state.phase, u.state.name)
}

// commit makes a change, by way of the journal if there is one. Until it is there
// the service makes no other.
func (u *service) commit(c *change, now time.Time) {
	if u.trail.journal == nil || u.frozen {
		u.apply(c, now)
		return
	}
	from, to, n := u.state.phase, u.state.phase, u.note(c)
	if c.state.name != "" {
		to = c.state.phase
	}
	if c.leaves {
		to = lifecycle.ServiceRemoved
	}
	e, err := u.trail.entry(from, to, c.event, c.reason, n, now)
	if err != nil {
		u.refuse(err)
		return
	}
	c.entry, u.pending = e, c
	u.write(c)
}

// note answers what the entry of a change says beside the table.
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
	}
	return n
}

func (u *service) write(c *change) {
	c.retryAt = time.Time{}
	c.tries++
	go u.sup.write(u, c.entry)
}

// write is the goroutine of an entry.
func (s *Supervisor) write(u *service, e audit.Entry) {
	m := message{service: u, kind: wrote, err: errExited}
	defer func() {
		m.at, m.err = time.Now(), sound(m.err)
		u.shard.post(m)
	}()
	if p := guard(func() { m.err = s.config.Journal.Append(s.writing, e) }); p != nil {
		m.err = p
	}
}

// written takes the answer of the journal. An entry that is not there is tried
// again, the same one, since it may be there after all.
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
		c.retryAt = now.Add(u.opt.Collector.Backoff.Delay(c.tries, u.sup.random()))
		u.later(func() { u.sup.log.Error("journal failed", "service", u.id.ID, "tries", c.tries, "error", m.err) })
	}
}

// rewrite tries the journal again when its time has come.
func (u *service) rewrite(now time.Time) {
	if c := u.pending; c != nil && !c.retryAt.IsZero() && !now.Before(c.retryAt) {
		u.write(c)
	}
}

// apply is what follows from a change that is committed.
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
		u.restarting = false
		u.renew()
	}
	if c.leaves {
		u.leave()
	}
	u.dirty = true
}

// enter goes to another state.
func (u *service) enter(c *change, now time.Time) {
	t := Transition{
		From: u.state.name, To: c.state.name, FromPhase: u.state.phase, ToPhase: c.state.phase,
		Event: c.event, Reason: c.reason, At: now, After: now.Sub(u.since),
	}
	u.state, u.since, u.waits = c.state, now, ""
	u.hops++
	u.lift()
	u.later(func() {
		u.sup.log.Info("state changed", "service", u.id.ID, "from", t.From, "to", t.To, "event", string(t.Event), "reason", t.Reason)
		if hook := u.sup.hooks.Transition; hook != nil {
			hook(u.id, t)
		}
		u.sup.tellRelated(u)
	})
}

// heed follows the signal of a verdict (S11).
func (u *service) heed(v verdict, now time.Time) {
	switch v.signal {
	case SignalNeedsRemoval:
		if !u.removing {
			u.removing = true
			u.renew()
			u.later(func() { _, _ = u.sup.remove(u.id.ID) }) // refused when all is being stopped anyway
		}
	case SignalNeedsRestart:
		u.restart(v.reason, now)
	case SignalEscalate:
		u.escalate(v.reason)
	}
}

// restart begins a restart, unless there were too many.
func (u *service) restart(reason string, now time.Time) {
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
		u.escalate(fmt.Sprintf("%d restarts in %s, and another is asked for: %s", len(recent), u.opt.RestartWindow, reason))
		return
	}
	if len(recent) > 0 {
		u.beginAt = now.Add(u.opt.Action.Backoff.Delay(len(recent), u.sup.random()))
	}
	u.restarts = append(recent, now)
	u.restarting = true
	u.renew()
}

// rest is what a service does that has come to rest: it leaves, or begins anew.
func (u *service) rest(now time.Time) {
	switch {
	case u.gone || u.held || u.closing || !u.resting():
	case u.removing && !u.sup.needed(u.id.ID):
		u.commit(&change{event: lifecycle.ServiceRemove, leaves: true, reason: "removed"}, now)
	case u.restarting && !u.frozen && !u.shutdown && !u.removing && !now.Before(u.beginAt):
		u.begin(now)
	}
}

// begin takes a service that rests back to its initial state.
func (u *service) begin(now time.Time) {
	first := u.worker.initial()
	c := &change{event: lifecycle.ServiceShift, state: first, reason: "restart", begins: true}
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
