package engine

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
)

// Every try at a mark ends with a commit that clears the mark, perhaps because the record
// now waits for another commit, or puts it off: by 100 ms at first, and by twice as long
// each time. So a record that cannot be processed now does not hold up the others.

// A seenMark is a mark as it was when it was prepared for. A different time means a
// different mark; a different version or number of instances made means that something was
// done about it.
type seenMark struct {
	at, seq     int64
	made, tries int
}

// same returns the ords whose marks are unchanged since they were prepared for. Those for
// which the commit was too small are out of sight.
func (a *evaluation) same(t *tx) (same []pawl.Ord) {
	for ord, seen := range a.seen {
		if ord == 0 {
			if j := t.job(a.job); j != nil && j.Mark == pawl.Attention && j.MarkAt == seen.at {
				same = append(same, ord)
			}
			continue
		}
		if s := t.stepInSight(pawl.StepKey{Job: a.job, Ord: ord}); s != nil && s.Mark == pawl.Attention && s.MarkAt == seen.at {
			same = append(same, ord)
		}
	}
	return same
}

// delay puts off the marks that still stand after the try.
func (a *evaluation) delay(t *tx, same []pawl.Ord) {
	for _, ord := range same {
		seen := a.seen[ord]
		if ord == 0 {
			if j := t.job(a.job); j.Mark == pawl.Attention && j.Seq == seen.seq {
				a.e.postpone(t, &j.MarkAt, &j.MarkTries, seen.tries)
				t.jobs[a.job].dirty = true
			}
			continue
		}
		k := pawl.StepKey{Job: a.job, Ord: ord}
		if s := t.step(k); s.Mark == pawl.Attention && s.Seq == seen.seq && s.Made == seen.made {
			a.e.postpone(t, &s.MarkAt, &s.MarkTries, seen.tries)
			t.steps[k].dirty = true
		}
	}
}

func (e *Engine) postpone(t *tx, at *int64, tries *int, before int) {
	*at, *tries = t.now+delay(before, e.cfg.Jitter(), maxDelay).Microseconds(), before+1
}

// putOff puts off the marks of a job that could not be evaluated because of err. If even
// that fails, it puts the job off in memory.
func (v *evaluator) putOff(ctx context.Context, a *evaluation, err error, found int64) {
	if pawl.KindOf(err) == pawl.Unavailable {
		return // not the job's fault
	}
	if found != 0 {
		v.delays.failed(store.JobEntity(a.job), found, time.Now(), v.e.cfg.Jitter(), maxDelay)
	}
	if len(a.seen) == 0 {
		return
	}
	if err := v.e.committer.one(ctx, &putOff{a}); err != nil && ctx.Err() == nil {
		v.e.log.Warn("the marks of a job that could not be evaluated could not be put off", "job", a.job, "error", err)
	}
}

type putOff struct{ *evaluation }

func (p *putOff) query(q *store.Query) {
	var marked decide.ReadSet
	for ord := range p.seen {
		if ord != 0 {
			marked.Steps = append(marked.Steps, ord)
		}
	}
	ask(q, p.job, pawl.StepKey{}, marked)
}

func (p *putOff) decide(t *tx) error {
	p.delay(t, p.same(t))
	return nil
}
