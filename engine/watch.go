package engine

import (
	"context"
	"time"

	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// watches ring bells of those who follow a job.
type watches struct {
	mu    sync.Mutex
	bells map[int64][]*watch
}

// A watch is a bell for changes of a job, or for its end alone.
type watch struct {
	*bell
	end bool
}

func (w *watches) add(job int64, end bool) *watch {
	b := &watch{newBell(), end}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bells == nil {
		w.bells = make(map[int64][]*watch)
	}
	w.bells[job] = append(w.bells[job], b)
	return b
}

func (w *watches) remove(job int64, b *watch) {
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

func (w *watches) ring(job int64, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bells[job] {
		if ended || !b.end {
			b.ring()
		}
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

// watchPoll is how often somebody who watches a job looks at it, if no hint tells.
const watchPoll = time.Second

// Watch calls f when it begins and then whenever the job may have changed, at
// most every 50 ms, until f answers false or ctx ends. Changes by other
// processes are seen within a second.
func (e *Engine) Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error {
	b := e.watches.add(id.Key(), false)
	defer e.watches.remove(id.Key(), b)
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
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Wait answers the job once it has ended.
func (e *Engine) Wait(ctx context.Context, id pawl.ID) (*pawl.Job, error) {
	b := e.watches.add(id.Key(), true)
	defer e.watches.remove(id.Key(), b)
	poll := time.NewTicker(min(e.cfg.Poll, watchPoll))
	defer poll.Stop()
	for {
		j, err := e.store.Job(ctx, id.Key())
		if err != nil {
			return nil, err
		}
		if lifecycle.Job.Ended(j.State) {
			return j, nil
		}
		select {
		case <-b.c:
		case <-poll.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
