package schedule

import "time"

// horizon is how far ahead Next searches, in years. A 29 February on one of a few
// weekdays may be 40 years away, and nothing is further.
const horizon = 50

// Next returns the first due time after the given one, in the time zone of c.
func (c *Cron) Next(after time.Time) time.Time {
	if c.every > 0 {
		return c.nextMultiple(after)
	}
	from := after.Add(1).In(c.zone)
	for limit := from.AddDate(horizon, 0, 0); from.Before(limit); {
		p := periodOf(from, limit)
		if due, ok := c.firstIn(p, from); ok {
			return due
		}
		from = p.end
	}
	return time.Time{} // not reached: Parse refuses what is never due
}

// Upcoming returns the next n due times after now, in the time zone of c.
func Upcoming(c *Cron, now time.Time, n int) []time.Time {
	var times []time.Time
	for range n {
		now = c.Next(now)
		times = append(times, now)
	}
	return times
}

// nextMultiple returns the next multiple of c.every since the Unix epoch.
func (c *Cron) nextMultiple(after time.Time) time.Time {
	every := int64(c.every / time.Second)
	past := after.Unix() % every
	if past < 0 {
		past += every
	}
	return time.Unix(after.Unix()-past+every, 0).In(c.zone)
}

// A period is a time between two changes of the clocks. Local times are represented as
// if they were UTC, so that a day has 24 hours.
type period struct {
	start, end time.Time     // end is not part of it
	ahead      time.Duration // of UTC
	jump       time.Duration // by which the clocks changed at start: below 0, back
}

// periodOf returns the period of t, which ends at limit at the latest.
func periodOf(t, limit time.Time) period {
	start, end := t.ZoneBounds()
	if end.IsZero() || end.After(limit) {
		end = limit
	}
	p := period{start: start, end: end, ahead: ahead(t)}
	if !start.IsZero() {
		p.jump = p.ahead - ahead(start.Add(-1))
	}
	return p
}

// ahead returns how far the clocks are ahead of UTC at t.
func ahead(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// wall returns the local time at t.
func (p *period) wall(t time.Time) time.Time { return t.UTC().Add(p.ahead) }

// firstIn returns the first due time of p that is not before from.
func (c *Cron) firstIn(p period, from time.Time) (time.Time, bool) {
	begin, wall := p.wall(p.start), p.wall(from)
	switch {
	case p.jump > 0 && !c.hourly && from.Equal(p.start):
		if _, left := c.match(begin.Add(-p.jump), begin); left {
			return p.start, true
		}
	case p.jump < 0 && !c.recurs:
		if again := begin.Add(-p.jump); wall.Before(again) {
			wall = again
		}
	}
	due, ok := c.match(wall, p.wall(p.end))
	return due.Add(-p.ahead).In(c.zone), ok
}

// match returns the first local time that matches the fields, not before from, and
// before until.
func (c *Cron) match(from, until time.Time) (time.Time, bool) {
	t := from.Truncate(time.Minute)
	if t.Before(from) {
		t = t.Add(time.Minute)
	}
	for t.Before(until) {
		year, month, day := t.Date()
		switch {
		case !c.month.has(int(month)):
			t = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.onDay(day, t.Weekday()):
			t = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case !c.hour.has(t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !c.minute.has(t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

// onDay reports whether a day of the month and its weekday match the fields.
func (c *Cron) onDay(day int, weekday time.Weekday) bool {
	byDay, byWeekday := c.day.has(day), c.weekday.has(int(weekday))
	if c.eitherDay {
		return byDay || byWeekday
	}
	return byDay && byWeekday
}
