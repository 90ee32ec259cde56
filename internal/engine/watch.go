package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
)

// watches holds the bells of callers that follow a job.
type watches struct {
	mu    sync.Mutex
	bells map[rowkey.Job][]*watch
}

// A watch is a bell for changes of a job, or only for its end.
type watch struct {
	*bell
	end  bool
	last atomic.Pointer[pawl.Job] // the job as this process ended it, if all of it is known
}

func (w *watches) add(job rowkey.Job, end bool) *watch {
	b := &watch{bell: newBell(), end: end}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bells == nil {
		w.bells = make(map[rowkey.Job][]*watch)
	}
	w.bells[job] = append(w.bells[job], b)
	return b
}

func (w *watches) remove(job rowkey.Job, b *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []*watch
	for _, other := range w.bells[job] {
		if other != b {
			rest = append(rest, other)
		}
	}
	if w.bells[job] = rest; len(rest) == 0 {
		delete(w.bells, job)
	}
}

func (w *watches) ring(job rowkey.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bells[job] {
		if !b.end {
			b.ring()
		}
	}
}

// ended rings for the committed end of a job, and keeps the job if all of it is known.
func (w *watches) ended(j *pawl.Job, known *jobFacts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bells[j.Key()] {
		b.last.Store(whole(j, known))
		b.ring()
	}
}

func (w *watches) ringAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, bells := range w.bells {
		for _, b := range bells {
			b.ring()
		}
	}
}

// watchPoll is the interval at which a watched job is read if no hint arrives.
const watchPoll = time.Second

// Watch calls f at once and then whenever the job may have changed, at most every 50 ms,
// until f returns false or ctx ends. Changes by other processes are seen within a second.
func (e *Engine) Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error {
	b := e.watches.add(id.JobKey(), false)
	defer e.watches.remove(id.JobKey(), b)
	poll := time.NewTicker(min(e.cfg.Poll, watchPoll))
	defer poll.Stop()
	for {
		more, err := f()
		if err != nil || !more {
			return err
		}
		select {
		case <-b.c:
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// endsSoon is how long Wait does not read a job that this process works on: reading would
// delay the job, and usually this process ends it.
const endsSoon = 50 * time.Millisecond

// Wait returns the job once it has ended.
func (e *Engine) Wait(ctx context.Context, id pawl.ID) (*pawl.Job, error) {
	b := e.watches.add(id.JobKey(), true)
	defer e.watches.remove(id.JobKey(), b)
	_, here := e.jobs.get(id.JobKey())
	look := time.NewTimer(0)
	if here {
		look.Reset(endsSoon)
	}
	defer look.Stop()
	for {
		select {
		case <-b.c:
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if j := b.last.Load(); j != nil {
			return j, nil
		}
		j, err := e.store.Job(ctx, id.JobKey())
		if err != nil {
			return nil, err
		}
		if lifecycle.Job.Ended(j.State) {
			return j, nil
		}
		look.Reset(min(e.cfg.Poll, watchPoll))
	}
}

// whole returns an ended job with the known facts added, or nil if more has to be read.
func whole(j *pawl.Job, known *jobFacts) *pawl.Job {
	switch {
	case known == nil || known.inputs == nil || j.Definition != definitions.KeyOf(known.def.Hash()):
		return nil
	case j.State != lifecycle.JobCompleted: // its error may be from an earlier commit
		return nil
	case known.def.HasOutput() && j.Output == nil: // the output was set by an earlier commit
		return nil
	}
	end := *j
	end.Inputs, end.Metadata = known.inputs, known.meta
	return &end
}
