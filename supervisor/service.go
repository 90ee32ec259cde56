package supervisor

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A service is one service under supervision. Its life is a sequence of turns, all of them
// in the loop of its shard: a turn handles what has happened, calls Next if there is a
// reason to, and begins what has to be done elsewhere. What takes time (an action, a
// collection, an entry in the journal) runs in a goroutine of its own, which posts a
// message at its end. So an idle service has no goroutine, and a turn never waits.
type service struct {
	sup    *Supervisor
	shard  *shard
	worker anyWorker
	id     Identity
	after  []string // Options.DependsOn; guarded by the supervisor's mu
	opt    *Options // the supervisor's defaults, if they are the same

	leaving bool // its removal has begun; guarded by the supervisor's mu

	woken atomic.Bool // a message to wake it is in the inbox

	// Used by the shard's loop only.
	due    time.Time // the next turn that time alone causes; zero: none
	place  int       // its index in the heap of the shard, or -1
	queued bool      // for a turn
	asked  time.Time // when it was queued
	inNext bool      // Next is being called

	mu sync.Mutex

	state      userState
	since      time.Time
	desired    any
	generation uint64
	answered   uint64 // the generation of the last decision of Next

	observed   any
	seen       Observation
	collection collection
	floor      uint64 // the first collection that was begun after the last action

	act       *attempt            // the last action, or nil
	past      map[string]*attempt // by key: the last attempts at other intents that may not be started again yet, or ever
	abandoned int                 // earlier attempts that still run

	trail   trail
	pending *change // under way to the journal

	dirty       bool      // something that Next sees has changed
	nextAfter   time.Time // Next has panicked, and is not called before
	requeue     time.Time // when to call Next again; zero: only when something changes
	panics      int       // of Next in a row
	transitions int       // changes of state on one observation
	denied      bool      // the last decision was refused
	refusal     string    // of the last one that was
	waits       string    // the reason of Next's decision to stay

	shutdown   bool        // it is being stopped
	removing   bool        // it is removed once it rests
	restarting *restart    // it begins again once it rests; or nil
	loading    bool        // its journal is being read
	held       *drain      // a stop is under way, and its dependants have not ended; or nil
	frozen     bool        // another writer has written to its trail
	closing    bool        // the supervisor ends: nothing is begun
	gone       bool        // it was removed
	escalation *string     // the reason, if it has escalated since the state or desired state changed
	restarts   []time.Time // within Options.RestartWindow

	jitter float64       // of this turn: Config.Random is not called with mu held
	turned chan struct{} // closed after a turn, if a caller waits for one
	out    []func()      // called when mu is no longer held
}

// turn is one turn. Next and hooks are called without the lock.
func (u *service) turn(now time.Time, waited time.Duration) {
	jitter := u.sup.random()
	u.mu.Lock()
	u.jitter = jitter
	u.checkRestart(now)
	u.checkDeadline(now)
	u.settle(now)
	u.rewrite(now)
	if !u.requeue.IsZero() && !now.Before(u.requeue) {
		u.requeue, u.dirty = time.Time{}, true
	}
	for u.mayCallNext(now) {
		u.dirty = false
		generation, v, ok := u.callNext(now, waited)
		if ok && generation == u.generation {
			u.answered = generation
			u.decide(v, now)
		}
		u.settle(now)
	}
	u.rest(now)
	u.observe(now)
	u.due = u.nextDue(now)
	out := u.out
	u.out = nil
	u.wakeWaiters()
	u.mu.Unlock()
	u.sup.call(out)
}

// wakeWaiters wakes the callers that wait for a turn.
func (u *service) wakeWaiters() {
	if u.turned != nil {
		close(u.turned)
		u.turned = nil
	}
}

// mayCallNext reports whether Next is to be called now. During a shutdown it need not wait
// for an observation (S5).
func (u *service) mayCallNext(now time.Time) bool {
	switch {
	case !u.dirty, u.pending != nil, u.loading, u.held != nil, u.frozen, u.closing, u.gone, now.Before(u.nextAfter):
		return false
	case u.ending():
		return true
	}
	return u.seen.Sequence > 0 && !u.stale(now) && (u.running() || u.fresh())
}

// ending reports whether the service has to come to rest.
func (u *service) ending() bool { return u.shutdown || u.removing || u.restarting != nil }

// fresh reports whether the observation was begun after the last action had ended
// (S4).
func (u *service) fresh() bool {
	return u.seen.Sequence > 0 && u.seen.Sequence >= u.floor && !u.running()
}

// stale reports whether the observation is too old to decide on (S9).
func (u *service) stale(now time.Time) bool {
	return now.Sub(u.seen.Started) > u.opt.Collector.StaleAfter
}

// callNext calls Next without the lock, and returns the generation that it decided on. It
// is not ok if Next has panicked.
func (u *service) callNext(now time.Time, waited time.Duration) (generation uint64, v verdict, ok bool) {
	f, state, observed, desired, limits := u.facts(now), u.state, u.observed, u.desired, u.opt.Action
	u.mu.Unlock()
	u.sup.relate(u, &f)
	var began time.Time
	if u.sup.hooks.Decided != nil {
		began = time.Now()
	}
	u.inNext = true
	panicked := guard(func() { v = u.worker.next(state, f, observed, desired, limits) })
	u.inNext = false
	u.mu.Lock()
	if u.sup.hooks.Decided != nil {
		took := time.Since(began)
		u.later(func() { u.sup.hooks.Decided(u.id, waited, took) })
	}
	if panicked == nil {
		u.panics = 0
		v.missing = f.missing()
		return f.Generation, v, true
	}
	u.nextPanicked(panicked, f.Generation, now)
	return f.Generation, v, false
}

// nextPanicked starts the backoff after a panic in Next.
func (u *service) nextPanicked(p *panicError, generation uint64, now time.Time) {
	u.panics++
	if u.dirty = true; generation == u.generation {
		u.nextAfter = now.Add(u.opt.Collector.Backoff.Delay(u.panics, u.jitter))
	}
	u.panicked("Next", p)
}

// facts returns those of the next snapshot, without the peers.
func (u *service) facts(now time.Time) Facts {
	f := Facts{
		Identity: u.id, Now: now, State: u.state.name, Phase: u.state.phase, Since: u.since,
		Generation: u.generation, Seen: u.seen, Shutdown: u.ending(),
	}
	f.Seen.Fresh = u.fresh()
	if u.act != nil {
		f.Action = u.act.status
		f.Action.Failed = f.Action.Failed && !u.act.lifted
	}
	return f
}

// nextDue returns when time alone causes the next turn.
func (u *service) nextDue(now time.Time) time.Time {
	var due time.Time
	if u.act != nil {
		due = u.act.due()
	}
	if u.gone || u.frozen {
		return due
	}
	due = earlier(due, u.collection.due(u))
	due = earlier(due, u.requeue)
	if u.dirty && now.Before(u.nextAfter) {
		due = earlier(due, u.nextAfter)
	}
	due = earlier(due, u.restartDue(now))
	if u.pending != nil {
		due = earlier(due, u.pending.retryAt)
	}
	return due
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// changed marks that Next would see something new.
func (u *service) changed() { u.dirty, u.transitions = true, 0 }

// renew begins another generation: what was refused or has failed in the last one may be
// tried again.
func (u *service) renew() {
	u.generation++
	u.nextAfter = time.Time{}
	if c := u.pending; c != nil && !c.retryAt.IsZero() && u.ending() {
		c.retryAt = time.Unix(0, 0) // at once
	}
	u.lift()
	u.changed()
}

// lift allows another attempt at what has failed permanently.
func (u *service) lift() {
	u.escalation = nil
	maps.DeleteFunc(u.past, func(_ string, a *attempt) bool { return !u.effectPending(a) })
	if u.act != nil && !u.running() {
		u.act.lifted = true
	}
}

// wake gives the service a turn. It may be called from any goroutine, and does not wait;
// calls before the turn are merged.
func (u *service) wake() {
	if !u.woken.Swap(true) {
		u.shard.post(message{service: u, kind: woken})
	}
}

// later calls f when the lock is no longer held.
func (u *service) later(f func()) { u.out = append(u.out, f) }

func (u *service) panicked(where string, p *panicError) {
	u.later(func() {
		u.sup.log.Error("panic", "service", u.id.ID, "where", where, "panic", fmt.Sprint(p.value), "stack", string(p.stack))
		if hook := u.sup.hooks.Panicked; hook != nil {
			hook(u.id, where, p.value, p.stack)
		}
	})
}

// refuse reports a decision that is not legal, once per text.
func (u *service) refuse(err error) {
	if err.Error() == u.refusal {
		return
	}
	u.refusal = err.Error()
	u.later(func() {
		u.sup.log.Warn("decision refused", "service", u.id.ID, "error", err)
		if hook := u.sup.hooks.Refused; hook != nil {
			hook(u.id, err)
		}
	})
}

// Escalates is the log message of an escalation.
const Escalates = "service escalates"

// escalate reports that a person has to act, once until something changes.
func (u *service) escalate(reason string) {
	if u.escalation != nil {
		return
	}
	u.escalation = &reason
	u.later(func() {
		u.sup.log.Error(Escalates, "service", u.id.ID, "reason", reason)
		if hook := u.sup.hooks.Escalated; hook != nil {
			hook(u.id, reason)
		}
	})
}

// resting reports whether nothing of the service runs or will run by itself, and Next has
// seen that it is being stopped.
func (u *service) resting() bool {
	switch {
	case u.gone:
		return true
	case u.loading || u.pending != nil || u.busy():
		return false
	}
	return u.frozen || resting(u.state.phase) && u.answered == u.generation
}

func resting(phase machine.State) bool {
	return phase == lifecycle.ServiceStopped || phase == lifecycle.ServiceFailed
}
