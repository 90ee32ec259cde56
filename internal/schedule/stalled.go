package schedule

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Stall is why an active schedule would never again make a job, or not when it
// should. No decision leaves one.
type Stall string

// The stalls.
const (
	StallTime Stall = "it has no next time"
	StallLast Stall = "the job for which a time waits has ended"
)

// Stalled returns why the schedule would wait for ever at now, in microseconds, or "".
// The caller passes whether its last job runs. A time that has passed, however long
// ago, is no stall: it is due, and will be found.
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
