package schedule

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Stall is why an active schedule would make no job any more, or not when it should,
// though nothing says so. No decision leaves one.
type Stall string

// The stalls.
const (
	StallTime Stall = "it has no next time"
	StallLast Stall = "the job for which a time waits has ended"
)

// Stalled returns why the schedule would wait for ever at now, in microseconds, or "".
// Whether its last job runs is the caller's to know. A time that has passed, however long
// ago, is none: it is due, and found like all that is.
func Stalled(s *pawl.Schedule, now int64, running bool) Stall {
	switch {
	case s.State != lifecycle.ScheduleActive:
	case s.DueAt <= 0:
		return StallTime
	case s.Waiting != 0 && !running && s.DueAt > now+Poll.Microseconds():
		return StallLast
	}
	return ""
}
