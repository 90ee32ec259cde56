package api

import (
	"context"
	"sync"
)

// places bounds how many load runs are read at once in a way that takes much memory or long: in all, and of one run,
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

// take takes a place for a run until done is called, if there is one.
func (p *places) take(run string) (done func(), ok bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total >= p.most || p.taken[run] >= p.ofRun {
		return nil, false, p.changed
	}
	p.total++
	p.taken[run]++
	return func() { p.leave(run) }, true, nil
}

// wait is take once there is a place, unless ctx ends before.
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

func (p *places) leave(run string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.taken[run]--; p.taken[run] == 0 {
		delete(p.taken, run)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}
