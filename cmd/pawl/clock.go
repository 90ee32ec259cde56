package main

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// took answers how long something has taken, for people: until its end, or
// until now while it has none. It is "" if it has not begun.
func took(from, to pawl.Timestamp, now time.Time) string {
	if from == 0 {
		return ""
	}
	end := now
	if to != 0 {
		end = to.Time()
	}
	return length(end.Sub(from.Time()))
}

// length writes a duration with as many digits as a person wants.
func length(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// stamp writes a time for a line of plain text: RFC 3339 in UTC with
// milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
