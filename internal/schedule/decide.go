package schedule

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Limits of a decision.
const (
	// Grace is how late the newest time may be looked at and still count,
	// whatever the schedule says about catching up.
	Grace = time.Minute
	// Poll is how long a schedule with a waiting time leaves its last job until
	// it looks at it again.
	Poll = time.Second
	// MaxActs is how many due times one decision takes. What is left over is
	// due at once again.
	MaxActs = 100
)

// A Decision is what to do with a schedule that is due: Acts, in their order and
// in one transaction, after which the schedule has the rest as its fields.
type Decision struct {
	Acts    []Act
	DueAt   int64 // when to decide again; later than before
	Due     int64 // of the newest time that made a job
	Waiting int64 // the time whose job waits for the last one to end, or 0
}

// An Act is one event of a schedule. ScheduleFire makes the job of the time Due.
// ScheduleQueue lets it wait. ScheduleSkip stands for every time that no act
// before it has dealt with, up to Due; Reason says from when.
type Act struct {
	Event     machine.Event
	Due       int64 // in microseconds
	Reason    string
	CancelOld bool // of ScheduleFire: the job before this one is cancelled
}

// Decide returns what to do with the schedule s, whose times are those of c, at
// now, in microseconds. Whether the job s.LastJob runs is the caller's to know:
// running is its public id if it does, else "". Nothing is to be done before
// s.DueAt, unless a time waits and the job has ended.
//
// Times are looked at oldest first. One counts if it is at most s.CatchUp ago;
// the newest also if it is less than Grace ago. Others were missed, and are
// skipped. Each one that counts makes a job, unless the job before it runs: then
// s.Overlap says what happens. Only CancelOld makes several jobs at once.
//
// While s.Waiting is set, s.DueAt is Poll after the decision before, and no time
// of c. A caller that creates, updates or resumes s sets s.DueAt to the next time
// from now on, or to Poll from now if a time waits.
func Decide(s *pawl.Schedule, c *Cron, now int64, running string) Decision {
	d := &decider{
		Decision: Decision{DueAt: s.DueAt, Due: s.Due, Waiting: s.Waiting},
		c:        c, now: now, overlap: s.Overlap, running: running != "",
		last: fmt.Sprintf("the job of %s (%s)", stamp(s.Due), running),
	}
	if now < s.DueAt && (s.Waiting == 0 || d.running) {
		return d.Decision
	}
	first := s.DueAt
	if s.Waiting != 0 {
		first = c.after(s.DueAt - Poll.Microseconds())
		d.waiting()
	}
	d.DueAt = d.times(first, s.CatchUp)
	if d.Waiting != 0 {
		d.DueAt = now + Poll.Microseconds()
	}
	return d.Decision
}

// A decider is a decision in the making.
type decider struct {
	Decision
	c       *Cron
	now     int64
	overlap string
	running bool
	last    string // what runs, if running
}

// waiting takes the time that waits, unless it has to go on waiting.
func (d *decider) waiting() {
	if due := d.Waiting; !d.running || d.overlap != Queue {
		d.Waiting = 0
		d.take(due, due)
	}
}

// times takes the due times from first until now, and returns the next one.
func (d *decider) times(first int64, catchUp time.Duration) int64 {
	if first > d.now {
		return first
	}
	newest := d.c.latest(first, d.now)
	due := d.oldest(first, newest, catchUp)
	if due > first {
		d.skip(first, d.c.latest(first, due-1), fmt.Sprintf("missed, and the catch-up is %v", max(catchUp, 0)))
	}
	for n := 0; due <= d.now && n < MaxActs; n++ {
		due = d.c.after(d.take(due, newest))
	}
	return due
}

// oldest returns the oldest time that counts, or, if none does, the next one
// after now.
func (d *decider) oldest(first, newest int64, catchUp time.Duration) int64 {
	edge := d.now - max(catchUp, 0).Microseconds()
	if first >= edge {
		return first
	}
	due := d.c.after(edge - 1)
	if due > d.now && d.now-newest < Grace.Microseconds() {
		return newest
	}
	return due
}

// take deals with a time that counts, and returns the last time dealt with: if
// it has to be skipped, so have all until newest.
func (d *decider) take(due, newest int64) int64 {
	switch {
	case !d.running || d.overlap == CancelOld:
		d.Acts = append(d.Acts, Act{Event: lifecycle.ScheduleFire, Due: due, CancelOld: d.running})
		d.Due, d.running, d.last = due, true, "the job of "+stamp(due)
	case d.overlap == Queue && d.Waiting == 0:
		d.Acts = append(d.Acts, Act{Event: lifecycle.ScheduleQueue, Due: due, Reason: d.last + " has not ended"})
		d.Waiting = due
	default:
		d.skip(due, newest, d.last+" has not ended")
		return newest
	}
	return due
}

// skip lets the times from first to newest pass.
func (d *decider) skip(first, newest int64, reason string) {
	if first < newest {
		reason = fmt.Sprintf("all from %s to %s: %s", stamp(first), stamp(newest), reason)
	}
	d.Acts = append(d.Acts, Act{Event: lifecycle.ScheduleSkip, Due: newest, Reason: reason})
}

// after is Next in microseconds.
func (c *Cron) after(t int64) int64 { return pawl.Micros(c.Next(pawl.Time(t))) }

// latest returns the newest due time until the given one, of which first is
// one. It halves the time between them, so that a long one costs little.
func (c *Cron) latest(first, until int64) int64 {
	for until-first >= time.Second.Microseconds() {
		middle := first + (until-first)/2
		if due := c.after(middle); due <= until {
			first = due
		} else {
			until = middle
		}
	}
	return first
}

func stamp(t int64) string { return pawl.Time(t).Format(time.RFC3339) }
