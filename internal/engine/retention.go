package engine

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
)

// MinRetention is the shortest time that ended entities are kept.
const MinRetention = time.Hour

func addRemoved(p *pawl.Pruning, r *store.Removed) {
	p.Count(r.Kind, r.Count)
	p.Steps += r.Steps
	p.Entries += r.Entries
	if r.Busy != "" {
		p.Busy = append(p.Busy, r.Busy)
	}
}

// Prune removes what ended longer ago than age, each entity with its whole trail, and
// writes anchors for it (K6). It reports its progress to each after every step. If it is
// stopped or killed, no entity is shown in part.
func (e *Engine) Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error) {
	total := pawl.Pruning{Busy: []string{}}
	if err := checkChange(c); err != nil {
		return total, err
	}
	before, err := e.before(ctx, age)
	if err != nil {
		return total, err
	}
	policy := &store.Policy{Before: before, Actor: c.Actor, Reason: c.Reason}
	for from := (store.Place{}); ; {
		begun := time.Now()
		r, err := e.store.Retain(ctx, policy, from)
		if err != nil {
			return total, err
		}
		addRemoved(&total, &r)
		each(total)
		if from = r.Next; r.Done {
			return total, nil
		}
		if !sleep.For(ctx, time.Since(begun)) {
			return total, ctx.Err()
		}
	}
}

// Prospects returns, for each kind of entity, what Prune would remove and what it would
// leave.
func (e *Engine) Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error) {
	before, err := e.before(ctx, age)
	if err != nil {
		return nil, err
	}
	return e.store.Prospects(ctx, before)
}

// before returns the time age ago, by the database's clock.
func (e *Engine) before(ctx context.Context, age time.Duration) (int64, error) {
	if age < MinRetention {
		return 0, pawl.Errorf(pawl.Invalid, "retention of %s: want %s or more", age, MinRetention)
	}
	var now int64
	err := e.store.Do(ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		now = f.Now
		return nil, nil
	})
	return now - age.Microseconds(), err
}

// retainEvery is the interval between searches for expired entities, give or take half of
// it.
const retainEvery = 10 * time.Minute

// retain removes what ended long ago, until ctx ends.
func (e *Engine) retain(ctx context.Context, r *rounds) {
	wait := time.Duration(e.cfg.Jitter() * float64(time.Minute)) // so that processes do not all begin at once
	for sleep.For(ctx, wait) {
		wait = time.Duration((0.5 + e.cfg.Jitter()) * float64(retainEvery))
		r.begin()
		c := pawl.Change{Actor: "retention", Reason: "older than " + e.cfg.Retention.String()}
		p, err := e.Prune(ctx, e.cfg.Retention, c, func(pawl.Pruning) { r.begin() }) // each step is progress
		r.end(ctx, err)
		if err != nil && ctx.Err() == nil {
			e.log.Warn("removing what has ended failed; it is tried again", "error", err)
		}
		if p.Jobs+p.Workers+p.Schedules+p.Tokens+p.Pauses+p.Webhooks > 0 {
			e.log.Info("removed what has ended", "jobs", p.Jobs, "steps", p.Steps, "workers", p.Workers, "schedules", p.Schedules, "tokens", p.Tokens, "pauses", p.Pauses, "webhooks", p.Webhooks, "entries", p.Entries)
		}
		for _, busy := range p.Busy {
			e.log.Debug("not removed now", "because", busy)
		}
	}
}
