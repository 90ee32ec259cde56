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
	bells map[int64][]*bell
}

func (w *watches) add(job int64) *bell {
	b := newBell()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bells == nil {
		w.bells = make(map[int64][]*bell)
	}
	w.bells[job] = append(w.bells[job], b)
	return b
}

func (w *watches) remove(job int64, b *bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []*bell
	for _, other := range w.bells[job] {
		if other != b {
			rest = append(rest, other)
		}
	}
	if w.bells[job] = rest; len(rest) == 0 {
		delete(w.bells, job)
	}
}

func (w *watches) ring(job int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bells[job] {
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

// Watch calls f when it begins and then whenever the job may have changed, at
// most every 50 ms, until f answers false or ctx ends. Changes by other
// processes are seen within the poll interval.
func (e *Engine) Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error {
	b := e.watches.add(id.Key())
	defer e.watches.remove(id.Key(), b)
	poll := time.NewTicker(e.cfg.Poll)
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
	b := e.watches.add(id.Key())
	defer e.watches.remove(id.Key(), b)
	poll := time.NewTicker(e.cfg.Poll)
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
