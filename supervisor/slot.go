package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
)

// An attempt is the one action of a service: accepted, running, or the last one that ran.
// It holds the slot until its outcome is visible and its goroutine has ended (S3, S6).
type attempt struct {
	status ActionStatus
	action Action
	limits ActionLimits
	token  uint64 // its fence

	live    bool // its goroutine runs
	cancel  context.CancelCauseFunc
	endsAt  time.Time // the deadline; zero once it is cancelled
	graceAt time.Time // when it is abandoned; zero until it is cancelled
	cause   error     // of its cancellation
	unknown bool      // it is unknown whether it took effect: it was abandoned, or the process died
	ended   *outcome  // its outcome, until that is visible

	before  any  // what was observed when it was accepted
	shown   bool // something else was observed after its end
	repeats int  // successful attempts in a row at the same intent, each right after the one before

	generation uint64 // that it was accepted in
	lifted     bool   // the state or desired state has changed since: it may be tried again
}

// running reports whether there is an accepted action whose outcome is not visible.
func (u *service) running() bool { return u.act != nil && u.act.status.InProgress }

// busy reports whether the slot is taken.
func (u *service) busy() bool {
	return u.running() || u.act != nil && u.act.live && !u.act.limits.AllowOverlap
}

// due returns when the attempt next needs a turn of the service.
func (a *attempt) due() time.Time {
	if !a.live || !a.status.InProgress || a.ended != nil {
		return time.Time{}
	}
	return earlier(a.endsAt, a.graceAt)
}

// checkDeadline cancels an attempt at its deadline, and abandons it when its grace has
// passed, too.
func (u *service) checkDeadline(now time.Time) {
	a := u.act
	if a == nil || a.due().IsZero() || now.Before(a.due()) {
		return
	}
	if a.graceAt.IsZero() {
		u.interrupt(ErrActionTimeout, now)
		return
	}
	o := judge(errors.New("it ignored its cancellation, and was abandoned"), a.cause)
	a.ended, a.unknown, a.status.Abandoned = &o, true, true
	u.collection.wanted, u.floor = true, u.collection.token+1
	u.later(func() {
		u.sup.log.Error("action abandoned", "service", u.id.ID, "action", a.status.ActionName, "id", a.status.ID)
	})
}

// interrupt cancels the running attempt, if it was not cancelled before.
func (u *service) interrupt(cause error, now time.Time) {
	a := u.act
	if a == nil || !a.live || !a.graceAt.IsZero() {
		return
	}
	a.cause, a.endsAt, a.graceAt = cause, time.Time{}, now.Add(a.limits.Grace)
	a.cancel(cause)
}

// An admission says whether an action may start.
type admission int

const (
	admitted  admission = iota
	redundant           // it is running
	waits               // it may not start yet, and nothing of the decision is done
	unseen              // likewise: it has succeeded, and its effect was not observed yet
	refused
)

// admit checks whether the action of a verdict may take the slot.
func (u *service) admit(v verdict, now time.Time) (admission, error) {
	a := u.act
	switch {
	case a == nil:
		return admitted, nil
	case u.busy() && v.cancel:
		return waits, nil
	case u.busy() && a.status.Key == v.key:
		return redundant, nil
	case u.busy():
		return refused, &BusyError{Service: u.id.ID, Refused: v.name, Running: a.status.ActionName, Since: a.status.StartedAt}
	}
	switch a = u.latest(v.key); {
	case a == nil:
		return admitted, nil
	case a.final() && v.state.name == "":
		return waits, nil
	case a.generation == u.generation && now.Before(a.status.NotBefore):
		u.requeue = earlier(u.requeue, a.status.NotBefore)
		return waits, nil
	case (a.status.Succeeded || a.unknown) && !u.fresh():
		return waits, nil // during a shutdown only: what the action did was not observed yet
	case u.effectPending(a):
		return unseen, nil
	}
	return admitted, nil
}

// recent reports whether an attempt has succeeded for the same desired state, and no
// observation was begun more than an interval later.
func (u *service) recent(a *attempt) bool {
	return a.status.Succeeded && a.generation == u.generation &&
		u.seen.Started.Sub(a.status.FinishedAt) <= u.opt.Collector.Interval
}

// effectPending reports whether an attempt has just succeeded and what is observed has
// not changed, so that its effect may still be to come. It is not started again then,
// whichever states were entered meanwhile (S2). If observations differ all the time,
// that also holds after maxRepeats attempts in a row.
func (u *service) effectPending(a *attempt) bool {
	return u.recent(a) && (!a.shown || a.repeats >= maxRepeats)
}

// latest returns the last attempt at an intent, if it is known: the last attempt of all,
// or an earlier one in past (S7).
func (u *service) latest(key string) *attempt {
	if u.act != nil && u.act.status.Key == key {
		return u.act
	}
	return u.past[key]
}

// supersede makes a the last attempt, and remembers the one before if its intent may not
// be started again yet, or ever.
func (u *service) supersede(a *attempt) {
	delete(u.past, a.status.Key)
	if l := u.act; l != nil && l.status.Key != a.status.Key && (!l.lifted && !l.status.Succeeded || u.effectPending(l)) {
		if u.past == nil {
			u.past = make(map[string]*attempt)
		}
		u.past[l.status.Key] = l
	}
	if len(u.past) > maxPast {
		oldest := slices.MinFunc(slices.Collect(maps.Values(u.past)), func(a, b *attempt) int { return cmp.Compare(a.token, b.token) })
		delete(u.past, oldest.status.Key)
	}
	u.act = a
}

// final reports whether the intent is not to be tried again without a change (S7).
func (a *attempt) final() bool {
	return !a.lifted && (a.status.Failed || a.status.Kind == KindCancelled)
}

// newAttempt creates the attempt that a verdict asks for. If the last attempt with that
// key did not succeed, it is a retry of it, unless the state or desired state has changed.
func (u *service) newAttempt(v verdict, now time.Time) *attempt {
	a := &attempt{
		action: v.action, limits: v.limits, generation: u.generation, before: u.observed,
		status: ActionStatus{InProgress: true, ActionName: v.name, Key: v.key, StartedAt: now},
	}
	a.token = u.trail.fence + 1
	if u.act != nil {
		a.token = u.act.token + 1
	}
	if l := u.latest(v.key); l != nil {
		switch {
		case u.recent(l):
			a.repeats = l.repeats + 1
		case l.status.Succeeded:
		case l.status.Kind == KindInterrupted:
			a.status.ID, a.status.Retries = l.status.ID, l.status.Retries
		case l.status.Kind.retriable() && !l.status.Failed && !l.lifted && v.state.name == "":
			a.status.ID, a.status.Retries = l.status.ID, l.status.Retries+1
		}
	}
	a.status.Fence = a.token
	if a.status.ID == "" {
		a.status.ID = fmt.Sprintf("%s/%d", u.id.ID, a.token)
	}
	return a
}

// start starts an attempt that was accepted, and is in the journal if there is one.
func (u *service) start(a *attempt, now time.Time) {
	if u.act != nil && u.act.live {
		u.abandoned++
	}
	u.supersede(a)
	if u.closing || u.ending() && a.generation != u.generation { // accepted before the shutdown
		a.ended = &outcome{kind: KindCancelled, text: "a shutdown came before it started"}
		return
	}
	ctx, cancel := context.WithCancelCause(u.sup.root)
	a.live, a.cancel = true, cancel
	a.status.StartedAt, a.endsAt = now, now.Add(a.limits.Timeout)
	run := Run{ID: a.status.ID, Fence: a.token, Attempt: a.status.Retries + 1}
	run.Log = u.sup.log.With("service", u.id.ID, "action", a.status.ActionName, "id", run.ID, "attempt", run.Attempt)
	go u.sup.perform(deadline{ctx, a.endsAt}, u, a.action, run)
}

// perform is the goroutine of an attempt.
func (s *Supervisor) perform(ctx context.Context, u *service, a Action, run Run) {
	m := message{service: u, kind: ended, token: run.Fence, err: errExited}
	defer func() { u.shard.post(m) }()
	s.call([]func(){func() { run.Log.Info("action accepted") }})
	began, traced := time.Now(), ctx
	var end func(Attempt)
	defer func() {
		m.at, m.err = time.Now(), readable(m.err)
		o := judge(m.err, context.Cause(ctx))
		m.outcome = &o
		if end != nil {
			s.call([]func(){func() { end(Attempt{Kind: o.kind, Err: m.err, Took: m.at.Sub(began)}) }})
		}
	}()
	if hook := s.hooks.Action; hook != nil {
		s.call([]func(){func() { traced, end = hook(ctx, u.id, run, a) }})
	}
	if panicked := guard(func() { m.err = s.executor.Execute(traced, u.id, a, run) }); panicked != nil {
		m.err = panicked
	}
}

// endedAttempt handles the end of an attempt. That of an abandoned one only frees the slot
// (S6).
func (u *service) endedAttempt(m *message, now time.Time) {
	u.collection.wanted, u.floor = true, u.collection.token+1
	a := u.act
	if a == nil || m.token != a.token {
		u.abandoned--
		return
	}
	a.live = false
	a.cancel(nil)
	u.changed()
	var p *panicError
	if errors.As(m.err, &p) {
		u.panicked("Execute", p)
	}
	if a.status.Abandoned {
		a.status.Abandoned = false
		u.later(func() {
			u.sup.log.Warn("abandoned action has ended, its result is discarded", "service", u.id.ID, "action", a.status.ActionName, "id", a.status.ID)
		})
		return
	}
	a.ended = m.outcome
}

// settle makes the outcome of an attempt visible, in the journal first.
func (u *service) settle(now time.Time) {
	a := u.act
	if a == nil || a.ended == nil || u.pending != nil {
		return
	}
	st := u.settled(a, now)
	u.commit(&change{event: lifecycle.ServiceSettle, status: &st, reason: st.ErrorMessage}, now)
}

// settled returns the status with the outcome.
func (u *service) settled(a *attempt, now time.Time) ActionStatus {
	st, o := a.status, a.ended
	st.InProgress, st.Succeeded, st.FinishedAt = false, o.kind == KindNone, now
	st.Kind, st.ErrorMessage = o.kind, truncate(o.text)
	if o.kind == KindNone || o.kind == KindCancelled || o.kind == KindInterrupted {
		return st
	}
	st.Failed = !o.kind.retriable() || a.limits.Attempts > 0 && st.Retries+1 >= a.limits.Attempts
	delay := o.after
	if delay <= 0 {
		delay = a.limits.Backoff.Delay(st.Retries+1, u.jitter)
	}
	st.NotBefore = now.Add(delay)
	return st
}

// showOutcome carries out a committed outcome.
func (u *service) showOutcome(st ActionStatus) {
	a := u.act
	st.Abandoned = a.status.Abandoned && a.live
	a.status, a.ended = st, nil
	a.lifted = a.generation != u.generation
	u.changed()
	level, text := slog.LevelInfo, "action "+string(st.Kind)
	switch {
	case st.Succeeded:
		text = "action succeeded"
	case st.Failed:
		level, text = slog.LevelError, "action failed"
	case st.Kind == KindTimeout:
		level, text = slog.LevelError, "action timed out"
	case st.Kind == KindRetriable:
		level, text = slog.LevelWarn, "action is to be retried"
	}
	u.later(func() {
		u.sup.log.Log(context.Background(), level, text, "service", u.id.ID, "action", st.ActionName, "id", st.ID,
			"attempt", st.Retries+1, "kind", string(st.Kind), "error", st.ErrorMessage)
		if hook := u.sup.hooks.Settled; hook != nil {
			hook(u.id, st)
		}
	})
}
