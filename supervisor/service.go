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

// A service is one service under supervision. Its life is a sequence of turns, all
// of them in the loop of its shard: a turn looks at what came in, asks Next if
// there is reason to, and begins what has to be done elsewhere. What takes time
// (an action, a collection, an entry in the journal) runs in a goroutine of its
// own, which posts a message at its end. So an idle service has no goroutine, and
// a turn never waits.
type service struct {
	sup    *Supervisor
	shard  *shard
	worker behaviour
	id     Identity
	after  []string // Options.DependsOn; guarded by the supervisor's mu
	opt    *Options // the supervisor's defaults, if they are the same

	leaving bool // its removal has begun; guarded by the supervisor's mu

	woken atomic.Bool // a message to wake it is under way

	// Of the shard's loop alone.
	due    time.Time // of the next turn that nothing else causes; zero: none
	place  int       // in the heap of the shard, or -1
	queued bool      // for a turn
	asked  time.Time // when it was queued
	asking bool      // Next, at this moment

	mu sync.Mutex

	state      own
	since      time.Time
	desired    any
	generation uint64
	answered   uint64 // the generation that Next has last decided on

	observed any
	seen     Observation
	look     collection
	floor    uint64 // the first collection that was begun after the last action

	act     *attempt            // the last action, or nil
	past    map[string]*attempt // by key, of other intents, that are not to be started again yet, or not for good
	lingers int                 // attempts before it that are abandoned and still run

	trail   trail
	pending *change // under way to the journal

	dirty    bool      // something that Next sees has changed
	askAfter time.Time // Next has panicked, and is let alone until then
	requeue  time.Time // when Next wants to be asked again, or an action may start; zero: not
	panics   int       // of Next in a row
	hops     int       // changes of state on one observation
	denied   bool      // the last decision was refused
	refusal  string    // of the last one that was
	waits    string    // what Next gave as its reason to stay

	shutdown   bool        // it is being stopped
	removing   bool        // it is to leave, once it rests
	anew       *anew       // it is to begin anew, once it rests; or nil
	loading    bool        // its journal is being read
	held       *drain      // a stop is under way, and its turn to stop has not come; or nil
	frozen     bool        // somebody else writes its trail
	closing    bool        // the supervisor ends: nothing is begun any more
	gone       bool        // it has left
	escalation *string     // why, since state or desired state last changed; nil: it did not
	restarts   []time.Time // within Options.RestartWindow

	luck float64       // jitter, of the last turn: Config.Random is not called with the lock
	told chan struct{} // closed after a turn, if somebody waits for it
	out  []func()      // called when mu is no longer held
}

// turn is one turn. Next and hooks are called without the lock.
func (u *service) turn(now time.Time, waited time.Duration) {
	luck := u.sup.random()
	u.mu.Lock()
	u.luck = luck
	u.hasten(now)
	u.overrun(now)
	u.settle(now)
	u.rewrite(now)
	if !u.requeue.IsZero() && !now.Before(u.requeue) {
		u.requeue, u.dirty = time.Time{}, true
	}
	for u.mayAsk(now) {
		u.dirty = false
		generation, v, ok := u.ask(now, waited)
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
	u.tell()
	u.mu.Unlock()
	u.sup.call(out)
}

// tell has those look up who wait for a turn.
func (u *service) tell() {
	if u.told != nil {
		close(u.told)
		u.told = nil
	}
}

// mayAsk reports whether Next is to be asked now. A shutdown passes the gates of
// observations (S5).
func (u *service) mayAsk(now time.Time) bool {
	switch {
	case !u.dirty, u.pending != nil, u.loading, u.held != nil, u.frozen, u.closing, u.gone, now.Before(u.askAfter):
		return false
	case u.ending():
		return true
	}
	return u.seen.Sequence > 0 && !u.stale(now) && (u.running() || u.fresh())
}

// ending reports whether the service is to come to rest.
func (u *service) ending() bool { return u.shutdown || u.removing || u.anew != nil }

// fresh reports whether the observation was begun after the last action had ended
// (S4).
func (u *service) fresh() bool {
	return u.seen.Sequence > 0 && u.seen.Sequence >= u.floor && !u.running()
}

// stale reports whether the observation is too old to decide on (S9).
func (u *service) stale(now time.Time) bool {
	return now.Sub(u.seen.Started) > u.opt.Collector.StaleAfter
}

// ask asks Next, without the lock, and answers for which generation. It is not ok
// if Next has panicked: then it is let alone for a while.
func (u *service) ask(now time.Time, waited time.Duration) (generation uint64, v verdict, ok bool) {
	f, state, observed, desired, limits := u.facts(now), u.state, u.observed, u.desired, u.opt.Action
	u.mu.Unlock()
	u.sup.relate(u, &f)
	var began time.Time
	if u.sup.hooks.Decided != nil {
		began = time.Now()
	}
	u.asking = true
	panicked := guard(func() { v = u.worker.ask(state, f, observed, desired, limits) })
	u.asking = false
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
	u.stumbled(panicked, f.Generation, now)
	return f.Generation, v, false
}

// stumbled lets Next alone for a while, which has panicked.
func (u *service) stumbled(p *panicError, generation uint64, now time.Time) {
	u.panics++
	if u.dirty = true; generation == u.generation {
		u.askAfter = now.Add(u.opt.Collector.Backoff.Delay(u.panics, u.luck))
	}
	u.panicked("Next", p)
}

// facts are those of the next snapshot, without the peers.
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

// nextDue answers when the next turn is due that nothing else causes.
func (u *service) nextDue(now time.Time) time.Time {
	var due time.Time
	if u.act != nil {
		due = u.act.due()
	}
	if u.gone || u.frozen {
		return due
	}
	due = earlier(due, u.look.due(u))
	due = earlier(due, u.requeue)
	if u.dirty && now.Before(u.askAfter) {
		due = earlier(due, u.askAfter)
	}
	due = earlier(due, u.restartDue(now))
	if u.pending != nil {
		due = earlier(due, u.pending.retryAt)
	}
	return due
}

// earlier answers the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// changed marks that Next would see something new.
func (u *service) changed() { u.dirty, u.hops = true, 0 }

// renew begins another generation: what was refused to the last one may be tried
// again.
func (u *service) renew() {
	u.generation++
	u.askAfter = time.Time{}
	if c := u.pending; c != nil && !c.retryAt.IsZero() && u.ending() {
		c.retryAt = time.Unix(0, 0) // at once
	}
	u.lift()
	u.changed()
}

// lift lets what has failed for good be tried again.
func (u *service) lift() {
	u.escalation = nil
	maps.DeleteFunc(u.past, func(_ string, a *attempt) bool { return !u.unshown(a) })
	if u.act != nil && !u.running() {
		u.act.lifted = true
	}
}

// wake gives the service a turn. It may be called from anywhere, and does not
// wait; calls before the turn are one.
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

// refuse tells of a decision that is not legal, once for each text.
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

// Escalates is the message with which a call for a person is logged.
const Escalates = "service escalates"

// escalate tells that somebody has to look, once until something changes.
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

// resting reports whether nothing of the service runs or will run by itself, Next
// knowing that it is to end.
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
