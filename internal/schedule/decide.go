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
	// Grace is how late the newest time may be decided and still count, whatever the
	// catch-up of the schedule.
	Grace = time.Minute
	// Poll is how often a schedule with a waiting time checks whether its last job has
	// ended.
	Poll = time.Second
	// MaxActs is how many due times one decision takes. The rest are due again at once.
	MaxActs = 100
)

// A Decision is what to do with a schedule that is due: Acts, in order and in one
// transaction; the other fields are the new values of the schedule.
type Decision struct {
	Acts    []Act
	DueAt   int64 // when to decide again; later than before
	Due     int64 // of the newest time that made a job
	Waiting int64 // the time whose job waits for the last one to end, or 0
}

// An Act is one event of a schedule. ScheduleFire makes the job of the time Due.
// ScheduleQueue lets it wait. ScheduleSkip covers every time up to Due that no earlier
// act has handled; Reason says since when.
type Act struct {
	Event     machine.Event
	Due       int64 // in microseconds
	Reason    string
	CancelOld bool // of ScheduleFire: the job before this one is cancelled
}

// Decide returns what to do with the schedule s, whose times are those of c, at now, in
// microseconds. The caller passes whether the job s.LastJob runs: running is its public
// id if it does, else "". There is nothing to do before s.DueAt, unless a time waits
// and the job has ended.
//
// Times are handled oldest first. A time counts if it is at most s.CatchUp ago; the
// newest also if it is less than Grace ago. Others were missed, and are skipped. Each
// one that counts makes a job, unless the job before it runs: then s.Overlap says what
// happens. Only CancelOld makes several jobs at once.
//
// While s.Waiting is set, s.DueAt is Poll after the last decision, and not a time of c.
// A caller that creates, updates or resumes s sets s.DueAt to the next time from now
// on, or to Poll from now if a time waits.
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

// waiting takes the time that waits, unless it has to keep waiting.
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

// take handles a time that counts, and returns the last time that is handled: if this
// one has to be skipped, so have all until newest.
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

// latest returns the newest due time from first, which is due, to until. It is a binary
// search, so that a long time costs little.
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
