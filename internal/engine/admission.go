package engine

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// Handing a job over directly costs half as much as sending it through the queue. A client
// that submits as fast as it gets replies is always slightly ahead of the workers, so a
// submission that finds too few slots waits for the visits that free them, as long as the
// workers of this process are busy with such visits. Only the choice of what waits depends
// on the state of this process. The wait is short: at most maxPassed commits, or
// admissionLimit if a commit hangs.
const (
	maxPassed      = 8
	admissionLimit = time.Second
)

// Bounds of how soon a worker that was given something is expected back: after as long as
// its last visit took, since a hand-over saves that visit.
const (
	minIdle = 5 * time.Millisecond
	maxIdle = 100 * time.Millisecond
)

// admit returns how many of the submitting groups go with the batch into its commit. They
// keep their order: a group that gains nothing by waiting takes all groups before it along,
// and so does a group that the queue would put before them.
func (e *Engine) admit(later, batch []*group) (ready int) {
	var p prospect
	route, ahead, least, now := rowkey.Route(0), 0, pawl.MaxPriority, time.Now()
	for i, g := range later {
		s := g.cmds[0].(late).late()
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

// A prospect is what the workers of this process have to offer for a route.
type prospect struct {
	capacity int
	slots    int  // that the next commit is likely to have for submissions
	more     bool // more slots are likely to be free soon
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

// expect returns the slots that may be taken, and reports whether the worker is on a visit
// or likely to come soon.
func (o *Slots) expect() (slots int, due bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots, o.visits > 0 || time.Since(o.active) < o.expectedIdle
}

// visit records that a visit begins. The function that it returns records its end.
func (s *offers) visit(x *link.Exchange) (end func()) {
	o := s.of(x.Worker.Key())
	if o == nil || x.Free == 0 {
		return func() {}
	}
	began := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.visits, o.active = o.visits+1, began
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.visits, o.active = o.visits-1, time.Now()
		o.expectedIdle = min(max(o.active.Sub(began), minIdle), maxIdle)
	}
}

// enqueued records how many steps a commit of this process has left in the queue.
func (s *offers) enqueued(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
}

// found records how many steps a scan of the queue has found, and whether that was all.
func (s *offers) found(n int, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting -= n; all {
		s.waiting = 0
	}
}
