package engine

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
)

// Every try at a mark ends with a commit that clears it, perhaps because the record
// waits for another commit now, or puts it off: to 100 ms from then, and twice as late
// each time. So what cannot be done now holds up nothing that can.

// A seenMark is a mark as it was prepared for. The mark is another one when its time
// is, and something was done about it when the version or the instances made are.
type seenMark struct {
	at, seq     int64
	made, tries int
}

// same returns what is marked still as it was prepared for. What the commit was too
// small for is out of sight.
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

// delay puts off what is marked still, though it was tried.
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
	*at, *tries = t.now+delay(before, e.cfg.Jitter()).Microseconds(), before+1
}

// putOff puts off what a job is marked for, after it could not be evaluated because of
// err. If not even that can be done, it is put off in memory.
func (v *evaluator) putOff(ctx context.Context, a *evaluation, err error, found int64) {
	if pawl.KindOf(err) == pawl.Unavailable {
		return // that is not the job's fault
	}
	if found != 0 {
		v.delays.failed(store.JobEntity(a.job), found, time.Now(), v.e.cfg.Jitter())
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
