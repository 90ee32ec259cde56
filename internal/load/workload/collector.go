//go:build linux

package workload

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// A handover is a thread's slot at the end of an interval. The thread is in the interval next.
type handover struct {
	thread *thread
	slot   *slot
	next   int64
	pacer  // of the thread at that moment
}

// A collector adds up what threads hand over. An interval is emitted when all threads have passed it, or
// another interval later; what comes after that counts for the next one to be emitted, so that nothing is lost
// but what the totals must not have: operations of the warm-up.
type collector struct {
	run    *run
	emit   func(*enginepb.EngineFrame)
	open   []*slot // the intervals from first on
	first  int64
	empty  []*slot // to be used again
	passed []int64 // by thread: the interval in which it is
	totals *slot
	began  rusage // of the run without its warm-up
	last   rusage
}

// A rusage is the processor time of the process in seconds.
type rusage struct{ user, system float64 }

func usage() (u rusage) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u = rusage{float64(r.Utime.Nano()) / 1e9, float64(r.Stime.Nano()) / 1e9}
	}
	return u
}

func newCollector(r *run, emit func(*enginepb.EngineFrame)) *collector {
	u := usage()
	return &collector{run: r, emit: emit, passed: make([]int64, len(r.threads)), totals: newSlot(), began: u, last: u}
}

// take adds a slot and gives it back.
func (c *collector) take(h handover) {
	c.add(h.slot)
	for i := max(h.slot.interval+1, c.first); i < h.next; i++ { // in which it has begun nothing
		if n := h.backlog(c.run.boundary(i)); n > 0 {
			c.at(i).backlog += n
		}
	}
	h.slot.reset()
	h.thread.spare <- h.slot
	c.passed[h.thread.index] = h.next
	c.complete()
}

// finish adds the last slot of a thread that has ended.
func (c *collector) finish(t *thread) {
	for len(c.run.handed) > 0 { // what it has handed over before
		c.take(<-c.run.handed)
	}
	c.add(t.slot)
	c.passed[t.index] = math.MaxInt64
}

// add adds a slot. What is left of the warm-up when its last interval was emitted is for no total.
func (c *collector) add(s *slot) {
	if s.interval < c.run.warm && c.first >= c.run.warm {
		return
	}
	if s.interval < c.first {
		s.backlog = 0 // it is of a moment that has been emitted
	}
	c.at(s.interval).add(s)
}

// at returns the slot of an interval or, if that was emitted, of the next one that will be.
func (c *collector) at(interval int64) *slot {
	at := max(interval-c.first, 0)
	for int64(len(c.open)) <= at {
		c.open = append(c.open, c.spare())
	}
	return c.open[at]
}

func (c *collector) spare() *slot {
	if n := len(c.empty); n > 0 {
		s := c.empty[n-1]
		c.empty = c.empty[:n-1]
		return s
	}
	return newSlot()
}

// complete emits the intervals that all threads have passed.
func (c *collector) complete() {
	least := int64(math.MaxInt64)
	for _, p := range c.passed {
		least = min(least, p)
	}
	for c.first < least && least < math.MaxInt64 {
		c.flush(c.run.boundary(c.first))
	}
}

// overdue emits the intervals for which some thread has kept the others waiting.
func (c *collector) overdue(now int64) {
	for now > c.run.boundary(c.first)+int64(c.run.test.Interval) && c.run.boundary(c.first) < c.run.end {
		c.flush(c.run.boundary(c.first))
	}
}

// flush emits the first open interval.
func (c *collector) flush(end int64) {
	if len(c.open) == 0 {
		c.open = append(c.open, c.spare())
	}
	s, r := c.open[0], c.run
	c.open = c.open[:copy(c.open, c.open[1:])]
	warm := c.first < r.warm
	begin := r.start
	if c.first > 0 {
		begin = r.boundary(c.first - 1)
	}
	u := usage()
	if !warm {
		c.totals.add(s)
	} else if c.first == r.warm-1 {
		c.began = u
	}
	c.emit(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Interval{Interval: &loadpb.Interval{
		StartNs: begin - r.start, EndNs: end - r.start, Warmup: warm, Operations: s.proto(), Backlog: s.backlog,
		CpuUserSeconds: u.user - c.last.user, CpuSystemSeconds: u.system - c.last.system,
	}}})
	c.last = u
	c.first++
	s.reset()
	c.empty = append(c.empty, s)
}

// finished emits what is left and returns the totals.
func (c *collector) finished() *enginepb.Finished {
	r := c.run
	last := r.start
	for i, t := range r.threads {
		if c.passed[i] == math.MaxInt64 { // the others are still at work
			last = max(last, t.now)
		}
	}
	last = max(last, r.start)
	for len(c.open) > 0 {
		c.flush(max(min(c.run.boundary(c.first), last), c.run.boundary(c.first-1)))
	}
	u := usage()
	f := &enginepb.Finished{
		Totals: c.totals.proto(), Seconds: float64(max(last-r.start-int64(r.test.Warmup), 0)) / 1e9,
		CpuUserSeconds: u.user - c.began.user, CpuSystemSeconds: u.system - c.began.system,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.ErrorSamples = r.samples
	if r.fault != nil {
		f.Error = proto(r.fault, loadpb.ErrorCode_ERROR_CODE_IO)
	}
	return f
}
