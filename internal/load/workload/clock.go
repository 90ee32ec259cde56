//go:build linux

package workload

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A clock reads CLOCK_MONOTONIC by way of the runtime, which needs no system call for it.
type clock struct {
	base time.Time
	at   int64 // of CLOCK_MONOTONIC at base
}

func newClock() clock {
	var ts unix.Timespec
	best := clock{}
	least := int64(1) << 62
	for range 8 { // the least interrupted of these
		base := time.Now()
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail: the clock exists
		if took := int64(time.Since(base)); took < least {
			least, best = took, clock{base, ts.Nano() - took/2}
		}
	}
	return best
}

func (c *clock) now() int64 { return c.at + int64(time.Since(c.base)) }

// spin is how long before a time a precise wait stops sleeping.
const spin = 80 * time.Microsecond

// until waits for a time and returns the clock then. A precise wait takes a processor for its last moments.
func (c *clock) until(at int64, precise bool) int64 {
	early := int64(0)
	if precise {
		early = int64(spin)
	}
	now := c.now()
	for now < at-early { // a signal of the runtime ends a sleep early
		sleepUntil(at - early)
		now = c.now()
	}
	for precise && now < at {
		now = c.now()
	}
	return now
}

// parkedEarly is how long before a time a goroutine that is not locked to its thread begins to wait in the system: the
// timers of the runtime may be late by a millisecond.
const parkedEarly = 2 * time.Millisecond

// untilParked waits for a time, without taking the processor from other goroutines, and returns the clock then.
func (c *clock) untilParked(at int64) int64 {
	now := c.now()
	if left := time.Duration(at-now) - parkedEarly; left > 0 {
		time.Sleep(left)
		now = c.now()
	}
	for now < at {
		ts := unix.NsecToTimespec(at)
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) // a signal may end it early
		now = c.now()
	}
	return now
}

// sleepUntil sleeps in the system, where the runtime's timers would be a millisecond late. A
// signal may end it early.
func sleepUntil(at int64) {
	ts := unix.NsecToTimespec(at)
	_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}
