//go:build linux

package workload

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// turnEvery is how often a thread looks whether it is to stop.
const turnEvery = int64(10 * time.Millisecond)

// A thread issues operations. Only the fields that say so are of others.
type thread struct {
	run   *run
	index int
	clock clock
	rng   random

	operations []*operation
	weights    uint64
	null       bool
	verifies   bool
	pacer
	limits

	slot  *slot
	spare chan *slot   // the collector gives slots back
	first atomic.Int64 // the beginning of the first operation; the run reads it

	now, begin int64
	turn       int64  // when to look around
	boundary   int64  // the end of the interval
	left       uint64 // operations until the end
	counted    uint64 // operations since the last turn

	hands
}

// limits are what a thread may still make.
type limits struct{ bytes, files int64 }

// A pacer says when operations are due; the zero value says at once.
type pacer struct {
	period  float64 // mean nanoseconds from one to the next; 0 without a rate
	poisson bool
	precise bool
	start   int64
	due     float64 // after the start: since the machine has booted, a number of it would lose nanoseconds
}

// at returns when the next operation is due.
func (p *pacer) at() int64 { return p.start + int64(p.due) }

// next moves on to the next operation.
func (p *pacer) next(r *random) {
	if p.poisson {
		p.due += p.period * r.exponential()
	} else {
		p.due += p.period
	}
}

// backlog returns how many operations were due at a time and have not begun; if they arrive at random, about.
func (p *pacer) backlog(at int64) uint64 {
	since := float64(at - p.start)
	if p.period == 0 || since < p.due {
		return 0
	}
	return uint64((since-p.due)/p.period) + 1
}

// loop runs operations from the start time until the end of the run.
func (t *thread) loop(start int64) {
	if t.objects == nil {
		runtime.LockOSThread()                             // and never unlocks it: the system thread ends with the goroutine
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // a coarser sleep is still right
	}
	if t.run.test.Engine == spec.Uring {
		var err error
		if t.flights, err = t.newFlights(); err != nil { // a ring belongs to the thread that makes it
			t.run.fail(otherError, err)
			t.run.stopped.Store(true)
		} else {
			defer t.flights.close()
		}
	}
	if t.objects == nil {
		t.wait(start, true)
	} else {
		t.waitConnected(start)
	}
	t.start = start
	t.boundary = t.run.boundary(t.slot.interval)
	t.first.Store(t.now)
	if t.flights != nil {
		t.rideRing()
		return
	}
	for t.now < t.turn || !t.look() {
		if due := t.at(); t.period > 0 && t.now < due {
			at := min(due, t.turn)
			t.wait(at, at == due)
			continue
		}
		t.step()
	}
}

// wait waits for a time, which is met exactly or passed a little.
func (t *thread) wait(at int64, exactly bool) {
	switch {
	case t.objects == nil:
		t.now = t.clock.until(at, t.precise && exactly)
	case exactly:
		t.now = t.clock.untilParked(at)
	default:
		time.Sleep(time.Duration(at - t.now))
		t.now = t.clock.now()
	}
}

// step runs one operation.
func (t *thread) step() {
	o := t.operations[0]
	if len(t.operations) > 1 {
		o = t.choose()
	}
	t.begin = t.now
	var n int64
	var errno syscall.Errno
	if t.null {
		n = o.block.draw(&t.rng)
	} else {
		n, errno = t.issue(o)
	}
	t.now = t.clock.now()
	if t.check.pending {
		errno = t.verify(errno)
	}
	if errno == 0 {
		t.count(o, n, t.at())
	} else {
		t.failed(o, n, errno)
	}
	if t.period > 0 {
		t.next(&t.rng)
	}
	t.counted++
	if t.left--; t.left == 0 {
		t.turn = 0
	}
	if t.verifies {
		t.now = t.clock.now() // comparing is no part of any operation
	}
}

func (t *thread) count(o *operation, n, due int64) {
	c := t.slot.cell(o.row+classOfSize(n), t.period > 0)
	c.operations++
	c.bytes += uint64(n)
	c.service.Record(t.now - t.begin)
	if t.period > 0 {
		c.response.Record(t.now - due)
	}
	if t.objects != nil {
		t.countRequests(c, o.kind == spec.Read)
	}
}

func (t *thread) choose() *operation {
	n := t.rng.below(t.weights)
	for _, o := range t.operations {
		if n < o.upTo {
			return o
		}
	}
	return t.operations[0]
}

// failed counts a failed operation and ends the run if that is one too many.
func (t *thread) failed(o *operation, n int64, errno syscall.Errno) {
	class := classOf(errno)
	switch errno {
	case errLimit:
		class = noSpace
	case errVerify:
		class = verification
	case errRemote:
		class = classOf(t.objects.err)
	}
	c := t.slot.cell(o.row+classOfSize(n), t.period > 0)
	c.errors[class]++
	if t.objects != nil {
		t.countRequests(c, false)
	}
	t.run.operations.Add(t.counted)
	t.counted = 0
	t.turn = 0
	t.run.fail(class, fmt.Errorf("%s %s: %w", o.kind, t.subject(o), t.cause(errno)))
}

// cause returns the error that a number stands for.
func (t *thread) cause(errno syscall.Errno) error {
	switch errno {
	case errLimit:
		return fmt.Errorf("the run would exceed what the agent allows it in %s", t.run.job.Root)
	case errVerify:
		return t.check.err
	case errRemote:
		return t.objects.err
	}
	return errno
}

// look is called every 10 ms, or when an operation was longer; it reports whether the thread is done.
func (t *thread) look() bool {
	t.run.operations.Add(t.counted)
	t.counted = 0
	if t.now >= t.boundary {
		t.rotate()
	}
	if t.left == 0 || t.now >= t.run.end || t.run.stopped.Load() {
		return true
	}
	t.turn = min(t.now+turnEvery, t.boundary, t.run.end)
	return false
}

// rotate hands the slot over to the collector, if that has returned the other one.
func (t *thread) rotate() {
	was, next := t.slot.interval, t.run.intervalAt(t.now)
	measures := was < t.run.warm && next >= t.run.warm // the warm-up is over
	if measures {
		t.left = t.run.share(t.index)
	}
	t.slot.backlog = t.backlog(t.boundary)
	t.boundary = t.run.boundary(next)
	select {
	case s := <-t.spare:
		t.run.handed <- handover{t, t.slot, next, t.pacer}
		t.slot = s
	default:
		if measures {
			t.slot.reset()
		}
	}
	if t.now >= t.run.end && next > was {
		t.slot.backlog = t.backlog(t.run.end) // no rotation follows the last interval
	}
	t.slot.interval = next
}

// share returns how many operations a thread does.
func (r *run) share(thread int) uint64 {
	if r.test.Count == 0 {
		return math.MaxUint64
	}
	n, jobs := r.test.Count, uint64(r.test.Jobs)
	share := n / jobs
	if uint64(thread) < n%jobs {
		share++
	}
	return share
}

// pace returns when operations of a thread are due: every jobs-th of a constant rate, in turn.
func (r *run) pace(thread int, rng *random) pacer {
	if r.test.Rate == nil {
		return pacer{precise: r.test.Jobs <= runtime.NumCPU()}
	}
	one := 1e9 / r.test.Rate.Operations
	p := pacer{period: one * float64(r.test.Jobs), poisson: r.test.Rate.Arrival == spec.Poisson, precise: r.test.Jobs <= runtime.NumCPU()}
	if p.poisson {
		p.next(rng)
	} else {
		p.due = one * float64(thread)
	}
	return p
}
