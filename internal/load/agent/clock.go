package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// maxAhead is how far ahead a start time may be.
const maxAhead = 300 * time.Second

// A reading is one moment on two clocks, in nanoseconds: the agent's, since the Unix epoch, and
// CLOCK_MONOTONIC, which the engine shares.
type reading struct{ unix, monotonic int64 }

// toMonotonic converts a time of the agent's clock. A step of that clock since the reading does
// not matter.
func (r reading) toMonotonic(unix int64) int64 { return unix - r.unix + r.monotonic }

// toUnix is the reverse of toMonotonic.
func (r reading) toUnix(monotonic int64) int64 { return monotonic - r.monotonic + r.unix }

// read reads both clocks, several times: the fastest reading counts.
func read(clock func() time.Time, monotonic func() int64) reading {
	best, took := reading{}, int64(0)
	for i := range 5 {
		before := monotonic()
		now := clock().UnixNano()
		after := monotonic()
		if i == 0 || after-before < took {
			best, took = reading{unix: now, monotonic: before + (after-before)/2}, after-before
		}
	}
	return best
}

// systemMonotonic reads CLOCK_MONOTONIC.
func systemMonotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("CLOCK_MONOTONIC: " + err.Error()) // every system has it
	}
	return t.Nano()
}
