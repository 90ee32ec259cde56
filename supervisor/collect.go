package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A collection is the state of observing a service. At most one collection runs, apart
// from those that ignored their context and were given up.
type collection struct {
	token    uint64 // of the last one that began
	running  bool
	wanted   bool // begin the next one as soon as possible
	cancel   context.CancelCauseFunc
	began    time.Time
	next     time.Time // when the next one is due
	giveUp   time.Time // when the running one is given up, once it is cancelled
	lost     int       // given up, and still running
	restarts int       // given up in a row
	failures int       // in a row
}

// due returns when the collection next needs a turn of the service, or zero. It is zero
// while maxLost collections are lost.
func (c *collection) due(u *service) time.Time {
	switch {
	case c.running && c.cancel != nil:
		return c.began.Add(u.opt.Collector.Timeout)
	case c.lost >= maxLost || u.closing:
		return time.Time{}
	case c.running:
		return c.giveUp
	}
	return c.next
}

// observe begins a collection if one is due, and gives up one that ignores its context
// (S9).
func (u *service) observe(now time.Time) {
	c := &u.collection
	if u.frozen || u.loading {
		return
	}
	if c.running && c.cancel != nil && !now.Before(c.began.Add(u.opt.Collector.Timeout)) {
		c.cancel(ErrCollection)
		c.cancel = nil
		c.giveUp = u.restartAt(now)
	}
	if c.running && c.cancel == nil && !u.closing && !now.Before(c.giveUp) && c.lost < maxLost {
		u.giveUpCollection()
	}
	if !c.running && !u.closing && !u.gone && c.lost < maxLost && (c.wanted || !now.Before(c.next)) {
		u.collect(now)
	}
}

// restartAt returns when a collection that ignores its context is given up: when the
// observation is too old or, if others were given up, after a growing backoff.
func (u *service) restartAt(now time.Time) time.Time {
	c := &u.collection
	if c.restarts > 0 {
		return now.Add(u.opt.Collector.Backoff.Delay(c.restarts, u.jitter))
	}
	if u.seen.Sequence == 0 {
		return c.began.Add(u.opt.Collector.RestartAfter)
	}
	return u.seen.Started.Add(u.opt.Collector.RestartAfter)
}

func (u *service) giveUpCollection() {
	c := &u.collection
	c.lost++
	c.restarts++
	c.running, c.wanted, c.giveUp = false, true, time.Time{}
	u.collectionFailed(fmt.Errorf("it ignored its context, and was given up: %w", ErrCollection))
	if c.lost == maxLost {
		u.escalate(fmt.Sprintf("%d collections ignore their context: no more are begun until one returns", maxLost))
	}
}

func (u *service) collectionFailed(err error) {
	c := &u.collection
	c.failures++
	u.dirty = true
	u.seen.Failures, u.seen.Error = c.failures, truncate(err.Error())
	if c.failures == 1 {
		u.later(func() { u.sup.log.Warn("collection failed", "service", u.id.ID, "error", err) })
	}
}

// collect begins a collection.
func (u *service) collect(now time.Time) {
	c := &u.collection
	c.token++
	c.running, c.wanted, c.began = true, false, now
	interval := u.opt.Collector.Interval
	c.next = now.Add(interval - interval/10 + time.Duration(u.jitter*float64(interval/5)))
	ctx, cancel := context.WithCancelCause(u.sup.root)
	c.cancel = cancel
	after := u.act
	if after != nil && (after.live || after.shown) {
		after = nil
	}
	go u.sup.collect(deadline{ctx, now.Add(u.opt.Collector.Timeout)}, u, c.token, u.desired, after)
}

// collect is the goroutine of a collection. If after is not nil, it also compares what it
// observes with what was observed before that attempt.
func (s *Supervisor) collect(ctx context.Context, u *service, token uint64, desired any, after *attempt) {
	m := message{service: u, kind: observed, token: token, err: errExited}
	defer func() {
		m.at, m.err = time.Now(), readable(m.err)
		u.shard.post(m)
	}()
	if panicked := guard(func() {
		m.value, m.err = u.worker.collect(ctx, desired)
		if m.err == nil && after != nil && u.worker.differ(after.before, m.value) {
			m.shows = after
		}
	}); panicked != nil {
		m.err = panicked
	}
}

// markShown records that something else was observed than before an attempt, and so than
// before earlier ones.
func (u *service) markShown(after *attempt) {
	after.shown = true
	for _, a := range u.past {
		if a.token < after.token {
			a.shown = true
		}
	}
}

// collected handles the end of a collection.
func (u *service) collected(m *message) {
	c := &u.collection
	if !c.running || m.token != c.token {
		c.lost--
		return
	}
	if c.cancel != nil {
		c.cancel(nil)
	}
	c.running, c.cancel, c.giveUp = false, nil, time.Time{}
	if m.err != nil {
		var p *panicError
		if errors.As(m.err, &p) {
			u.panicked("CollectObservedState", p)
		}
		u.collectionFailed(m.err)
		if retry := m.at.Add(u.opt.Collector.Backoff.Delay(c.failures, u.jitter)); retry.After(c.next) {
			c.next = retry
		}
	} else {
		c.failures, c.restarts = 0, 0
		u.observed = m.value
		if m.shows != nil {
			u.markShown(m.shows)
		}
		u.seen = Observation{Sequence: m.token, Started: c.began, Ended: m.at}
		u.changed()
	}
	if hook := u.sup.hooks.Observed; hook != nil {
		seen, took := u.seen, m.at.Sub(c.began)
		u.later(func() { hook(u.id, seen, took) })
	}
}

// A deadline is a context whose Deadline is the time at which the timer of the shard
// cancels it, so that no call needs a timer of its own. Its Err is context.Canceled,
// and context.Cause says why.
type deadline struct {
	context.Context
	at time.Time
}

func (d deadline) Deadline() (time.Time, bool) { return d.at, true }
