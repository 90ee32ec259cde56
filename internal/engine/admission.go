package engine

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A job that is handed over costs half of one that goes through the queue, and whoever
// submits as fast as it gets replies is always a little ahead of the workers. So a
// submission for which there are too few slots waits for the visits that free them,
// while the workers of this process are at it. Only who waits depends on what is here,
// and nobody waits for long: for as many commits, and should one hang, for that time.
const (
	maxPassed      = 8
	admissionLimit = time.Second
)

// Bounds of how long a worker is expected back that was given something: for as long as
// its last visit took, which is what is saved.
const (
	minIdle = 5 * time.Millisecond
	maxIdle = 100 * time.Millisecond
)

// admit returns how many of the groups that submit go with the batch into its commit.
// They keep their order: with one that gains nothing by waiting go all before it, and
// so they do with one that the queue would put before them.
func (e *Engine) admit(later, batch []*group) (ready int) {
	var p prospect
	route, ahead, least, now := rowkey.Route(0), 0, pawl.MaxPriority, time.Now()
	for i, g := range later {
		s := g.cmds[0].(*submit)
		if s.route != route {
			route, p = s.route, e.offers.prospect(s.route, batch)
		}
		ahead += min(len(g.cmds), p.capacity)
		if !p.more || ahead <= p.slots || s.sub.Priority > least || g.passed >= maxPassed || now.Sub(g.came) >= admissionLimit {
			ready = i + 1
		}
		least = min(least, s.sub.Priority)
	}
	return ready
}

// A prospect is what workers of this process have for a route.
type prospect struct {
	capacity int
	slots    int  // that the next commit is likely to have for what is submitted
	more     bool // there are likely to be more soon
}

func (s *offers) prospect(route rowkey.Route, batch []*group) (p prospect) {
	for _, g := range batch {
		if c, ok := g.cmds[len(g.cmds)-1].(*claim); ok && slices.Contains(c.worker.Routes, route) {
			p.slots += c.free
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if slices.Contains(o.worker.Routes, route) {
			slots, due := o.expect()
			p.slots, p.capacity, p.more = p.slots+slots, p.capacity+o.worker.Capacity, p.more || due
		}
	}
	p.slots -= s.waiting
	p.more = p.more && s.waiting >= 0 && s.waiting <= p.capacity // else the queue is far from empty
	return p
}

// expect returns the slots that may be taken, and whether the worker is on a visit, or
// likely to come soon.
func (o *Slots) expect() (slots int, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots, o.visiting || time.Since(o.active) < o.expectedIdle
}

// visit notes that a visit begins, or has ended.
func (s *offers) visit(x *link.Exchange, begins bool) {
	o := s.of(x.Worker.Key())
	if o == nil || x.Free == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !begins {
		o.expectedIdle = min(max(now.Sub(o.active), minIdle), maxIdle)
	}
	o.visiting, o.active = begins, now
}

// enqueued notes how much a commit of this process has left in the queue.
func (s *offers) enqueued(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
}

// found notes how much a look at the queue has found, and whether that was all.
func (s *offers) found(n int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting -= n; all {
		s.waiting = 0
	}
}
