//go:build linux

package workload

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A flight is an operation that was submitted to a ring and is not complete.
type flight struct {
	o          *operation
	target     target
	begin, due int64
	offset     int64
	buffer     []byte
	block      []byte   // the part that is read or written
	filled     *content // what is in the buffer
}

// A flights is a thread's operations in a ring.
type flights struct {
	*ring
	all  []flight
	free []int
}

// newFlights makes a ring, whose operations read into and write from the buffers of the thread.
func (t *thread) newFlights() (*flights, error) {
	depth := t.layout.test.Depth
	r, err := newRing(depth)
	if err != nil {
		return nil, err
	}
	f := &flights{ring: r, all: make([]flight, depth), free: make([]int, 0, depth)}
	for i := range f.all {
		f.all[i].buffer = t.rides[i]
		f.free = append(f.free, i)
	}
	return f, nil
}

// rideRing runs operations by a ring until the end of the run, and returns when all of them are complete.
func (t *thread) rideRing() {
	for t.now < t.turn || !t.look() {
		t.fill()
		t.drain(t.turn)
	}
	for len(t.flights.free) < len(t.flights.all) {
		t.drain(t.now + turnEvery)
	}
}

// fill submits operations until there are as many as may be, or none is due.
func (t *thread) fill() {
	for t.turn > 0 && len(t.flights.free) > 0 && t.left > 0 && (t.period == 0 || t.now >= t.at()) {
		t.submit(t.choose())
		if t.period > 0 {
			t.next(&t.rng)
		}
		t.counted++
		if t.left--; t.left == 0 {
			t.turn = 0
		}
	}
}

// submit begins an operation. It is queued, and handed over with the next one or by drain: an operation that waited for
// those after it would take longer than the device does, which would begin late.
func (t *thread) submit(o *operation) {
	t.flights.submit()
	id := t.flights.free[len(t.flights.free)-1]
	f := &t.flights.all[id]
	f.o, f.begin, f.due = o, t.clock.now(), t.at()
	code, flags := uint8(opRead), t.directFlag()
	if o.kind == spec.Write {
		code, flags = opWrite, flags|syscall.O_WRONLY|t.dsync
	}
	file, spot := t.pick(o)
	var errno syscall.Errno
	if f.target, errno = t.open(o, file, flags, t.opened[o.setAt]); errno != 0 {
		t.failed(o, 0, errno)
		return
	}
	offset, n := t.place(o, spot, f.target.size)
	f.offset, f.block = offset, f.buffer[:n]
	if code == opWrite {
		began := t.clock.now()
		t.load(f)
		f.begin += t.clock.now() - began // filling is no part of the operation
	}
	t.flights.free = t.flights.free[:len(t.flights.free)-1]
	t.flights.push(code, f.target.fd, f.block, offset, uint64(id))
}

// load puts what is written into the buffer of a flight. Only stamps change, where nothing is to be verified.
func (t *thread) load(f *flight) {
	c := t.contents[f.o.setAt]
	if t.verifies {
		copy(f.block, c.at(f.target.content, f.offset, len(f.block)))
		f.filled = nil
		return
	}
	if f.filled != c {
		copy(f.buffer, c.base)
		f.filled = c
	}
	t.fresh++
	v := blend(f.target.content, t.fresh)
	for at := 0; at+8 <= len(f.block); at += sector {
		binary.LittleEndian.PutUint64(f.block[at:], v)
		v += 0x9e3779b97f4a7c15
	}
}

// drain waits for completions until a time, or until the next operation is due, and counts them.
func (t *thread) drain(until int64) {
	if t.period > 0 && len(t.flights.free) > 0 && t.left > 0 {
		until = min(until, t.at())
	}
	if len(t.flights.free) == len(t.flights.all) {
		t.now = t.clock.until(until, t.precise && until == t.at())
		return
	}
	if errno := t.flights.enter(time.Duration(until - t.now)); errno != 0 {
		t.run.fail(inputOutput, fmt.Errorf("wait for the ring: %w", errno))
		t.run.stopped.Store(true)
	}
	t.now = t.clock.now()
	for {
		id, result, ok := t.flights.pop()
		if !ok {
			return
		}
		t.land(&t.flights.all[id], result)
		t.flights.free = append(t.flights.free, int(id))
	}
}

// land counts a completed operation.
func (t *thread) land(f *flight, result int32) {
	n, errno := int64(result), syscall.Errno(0)
	if result < 0 {
		n, errno = int64(len(f.block)), syscall.Errno(-result)
	}
	if errno == 0 && t.verifies && f.o.kind == spec.Read {
		got := int(n)
		if got < len(f.block) { // a ring may read less than there is
			got, errno = pread(f.target.fd, f.block, f.offset)
		}
		t.check.expect(f.o.setAt, f.target, f.offset, int64(len(f.block)), f.block[:got])
		errno = t.verify(errno)
	}
	t.done(f.target)
	if errno != 0 {
		t.failed(f.o, n, errno)
		return
	}
	t.begin = f.begin
	t.count(f.o, n, f.due)
}

// checkRing refuses what a ring does not do.
func (p *prepared) checkRing() error {
	if p.test.Engine != spec.Uring {
		return nil
	}
	for i, m := range p.test.Mix {
		if m.Kind != spec.Read && m.Kind != spec.Write {
			return invalid(fmt.Sprintf("mix[%d].operation", i), "write engine: threads", "the engine uring has reads and writes only, and no %s", m.Kind)
		}
	}
	if p.test.Sync == spec.SyncEach || p.test.Sync == spec.SyncData {
		return invalid("sync", "write sync: dsync, or engine: threads", "the engine uring does no %s after each write", p.test.Sync)
	}
	r, err := newRing(p.test.Depth)
	if err != nil {
		return err
	}
	r.close()
	return nil
}
