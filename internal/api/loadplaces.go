package api

import (
	"context"
	"sync"
)

// places bounds how often load runs are read at once in a way that takes much memory or long: in all, and of one run,
// so that one whose files hang leaves places to the others.
type places struct {
	most, ofRun int

	mu      sync.Mutex // guards the fields below
	taken   map[string]int
	total   int
	changed chan struct{} // closed, and made anew, when a place becomes free
}

func newPlaces(most, ofRun int) *places {
	return &places{most: most, ofRun: ofRun, taken: map[string]int{}, changed: make(chan struct{})}
}

// take takes a place until done is called, if there is one. It is one of each of the runs, which are read together: who
// had one of them and waited for the next would keep it from others that do the same.
func (p *places) take(runs ...string) (done func(), ok bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.total >= p.most
	for _, run := range runs {
		full = full || p.taken[run] >= p.ofRun
	}
	if full {
		return nil, false, p.changed
	}
	p.total++
	for _, run := range runs {
		p.taken[run]++
	}
	return func() { p.leave(runs) }, true, nil
}

// wait is take once there is a place, unless ctx ends before. Those that wait have no order.
func (p *places) wait(ctx context.Context, run string) (done func(), err error) {
	for {
		done, ok, changed := p.take(run)
		if ok {
			return done, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *places) leave(runs []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	for _, run := range runs {
		if p.taken[run]--; p.taken[run] == 0 {
			delete(p.taken, run)
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}
