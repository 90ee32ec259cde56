package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// elapsed returns how long something has taken, for people: until its end, or until now if it
// has not ended. It returns "" if it has not begun.
func elapsed(from, to pawl.Timestamp, now time.Time) string {
	if from == 0 {
		return ""
	}
	end := now
	if to != 0 {
		end = to.Time()
	}
	return Duration(end.Sub(from.Time()))
}

// Duration formats a duration with as many digits as a person needs.
func Duration(d time.Duration) string {
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

// In converts a time to a zone; nil is UTC.
func In(t time.Time, zone *time.Location) time.Time {
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone)
}

// Stamp formats a time for a line of plain text: RFC 3339 with milliseconds.
func Stamp(t time.Time, zone *time.Location) string {
	return In(t, zone).Format("2006-01-02T15:04:05.000Z07:00")
}

// Second formats a time for a table, or returns "" if there is none.
func Second(t pawl.Timestamp, zone *time.Location) string {
	if t == 0 {
		return ""
	}
	return In(t.Time(), zone).Format(secondLayout)
}

const secondLayout = "2006-01-02 15:04:05Z07:00"

// moment is Second for a time.Time.
func moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return Second(pawl.Timestamp(t.UnixMicro()), zone)
}

// exactly formats a time as it is stored, or returns "" if there is none.
func exactly(t pawl.Timestamp, zone *time.Location) string {
	if t == 0 {
		return ""
	}
	return In(t.Time(), zone).Format("2006-01-02T15:04:05.000000Z07:00")
}

// todayLayouts are the forms of a time without a date: it is a time of today, in UTC.
var todayLayouts = []string{"15:04:05", "15:04", "15:04:05Z", "15:04Z"}

// ParseTime reads a time as this package writes it, a time of the day of now (in UTC), or a
// duration before now. It returns false for any other text.
func ParseTime(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil && ago >= 0 {
		return now.Add(-ago), true
	}
	for _, layout := range []string{time.RFC3339Nano, secondLayout} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	for _, layout := range todayLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			midnight := now.Truncate(24 * time.Hour)
			return midnight.Add(at.Sub(at.Truncate(24 * time.Hour))), true
		}
	}
	return now, false
}
