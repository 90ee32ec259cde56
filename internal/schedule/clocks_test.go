package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
)

// walk moves a fake clock from one due time to the next and returns when jobs
// were made, until the given time.
func walk(t *testing.T, c *schedule.Cron, from, until time.Time) []time.Time {
	t.Helper()
	s := &pawl.Schedule{Overlap: schedule.Skip}
	var fired []time.Time
	for now := c.Next(from); !now.After(until); now = pawl.Time(s.DueAt).In(now.Location()) {
		s.DueAt = pawl.Micros(now)
		d := schedule.Decide(s, c, pawl.Micros(now), "")
		if len(d.Acts) != 1 || d.Acts[0].Event != lifecycle.ScheduleFire || d.DueAt <= s.DueAt {
			t.Fatalf("at %s: %+v, want one job and a later time", now, d)
		}
		fired = append(fired, pawl.Time(d.Acts[0].Due).In(now.Location()))
		s.DueAt, s.Due = d.DueAt, d.Due
	}
	return fired
}

// A change is a day on which the clocks of a zone change, and what is due.
type change struct {
	name, zone  string
	from, until string
	due         map[string]string // by expression: times of the day, an hour of the second round with its offset
}

// Daylight saving in three time zones, in both directions, by a fake clock.
var changes = []change{
	{
		"Berlin in spring, 02:00 to 03:00", "Europe/Berlin", "2026-03-28T23:30:00+01:00", "2026-03-29T04:59:00+02:00",
		map[string]string{
			"30 2 * * *":      "03:00+02",
			"0,20,40 2 * * *": "03:00+02",
			"0 3 * * *":       "03:00+02",
			"0 2,3 * * *":     "03:00+02",
			"59 1 * * *":      "01:59+01",
			"30 1-3 * * *":    "01:30+01 03:00+02 03:30+02",
			"0 * * * *":       "00:00+01 01:00+01 03:00+02 04:00+02",
			"30 * * * *":      "00:30+01 01:30+01 03:30+02 04:30+02",
			"*/30 * * * *":    "00:00+01 00:30+01 01:00+01 01:30+01 03:00+02 03:30+02 04:00+02 04:30+02",
			"*/15 2 * * *":    "03:00+02",
			"*/30 1-3 * * *":  "01:00+01 01:30+01 03:00+02 03:30+02",
			"0 */2 * * *":     "00:00+01 03:00+02 04:00+02",
			"@daily":          "00:00+01",
			"@every 90m":      "01:00+01 03:30+02 ",
		},
	},
	{
		"Berlin in autumn, 03:00 to 02:00", "Europe/Berlin", "2026-10-24T23:30:00+02:00", "2026-10-25T04:29:00+01:00",
		map[string]string{
			"30 2 * * *":     "02:30+02",
			"0 2 * * *":      "02:00+02",
			"0 3 * * *":      "03:00+01",
			"30 1-3 * * *":   "01:30+02 02:30+02 03:30+01",
			"0 * * * *":      "00:00+02 01:00+02 02:00+02 02:00+01 03:00+01 04:00+01",
			"30 * * * *":     "00:30+02 01:30+02 02:30+02 02:30+01 03:30+01",
			"0 0-23 * * *":   "00:00+02 01:00+02 02:00+02 02:00+01 03:00+01 04:00+01",
			"*/30 1-2 * * *": "01:00+02 01:30+02 02:00+02 02:30+02 02:00+01 02:30+01",
			"@daily":         "00:00+02",
		},
	},
	{
		"New York in spring, 02:00 to 03:00", "America/New_York", "2026-03-07T23:30:00-05:00", "2026-03-08T04:29:00-04:00",
		map[string]string{
			"30 2 * * *":   "03:00-04",
			"0 3 * * *":    "03:00-04",
			"0 * * * *":    "00:00-05 01:00-05 03:00-04 04:00-04",
			"*/30 * * * *": "00:00-05 00:30-05 01:00-05 01:30-05 03:00-04 03:30-04 04:00-04",
		},
	},
	{
		"New York in autumn, 02:00 to 01:00", "America/New_York", "2026-10-31T23:30:00-04:00", "2026-11-01T03:29:00-05:00",
		map[string]string{
			"30 1 * * *":   "01:30-04",
			"0 1,2 * * *":  "01:00-04 02:00-05",
			"30 * * * *":   "00:30-04 01:30-04 01:30-05 02:30-05",
			"*/30 * * * *": "00:00-04 00:30-04 01:00-04 01:30-04 01:00-05 01:30-05 02:00-05 02:30-05 03:00-05",
		},
	},
	{
		"Sydney in spring, 02:00 to 03:00", "Australia/Sydney", "2026-10-03T23:30:00+10:00", "2026-10-04T04:29:00+11:00",
		map[string]string{
			"15 2 * * *":     "03:00+11",
			"0 * * * *":      "00:00+10 01:00+10 03:00+11 04:00+11",
			"*/30 1-4 * * *": "01:00+10 01:30+10 03:00+11 03:30+11 04:00+11",
		},
	},
	{
		"Sydney in autumn, 03:00 to 02:00", "Australia/Sydney", "2026-04-04T23:30:00+11:00", "2026-04-05T03:29:00+10:00",
		map[string]string{
			"15 2 * * *": "02:15+11",
			"0 * * * *":  "00:00+11 01:00+11 02:00+11 02:00+10 03:00+10",
		},
	},
	{
		"Lord Howe in spring, 02:00 to 02:30", "Australia/Lord_Howe", "2026-10-03T23:45:00+10:30", "2026-10-04T04:10:00+11:00",
		map[string]string{
			"0 2 * * *":      "02:30+11",
			"15,45 2 * * *":  "02:30+11 02:45+11",
			"30 * * * *":     "00:30+10:30 01:30+10:30 02:30+11 03:30+11",
			"*/15 1-2 * * *": "01:00+10:30 01:15+10:30 01:30+10:30 01:45+10:30 02:30+11 02:45+11",
		},
	},
	{
		"Lord Howe in autumn, 02:00 to 01:30", "Australia/Lord_Howe", "2026-04-04T23:45:00+11:00", "2026-04-05T03:10:00+10:30",
		map[string]string{
			"45 1 * * *":    "01:45+11",
			"15,45 1 * * *": "01:15+11 01:45+11",
			"15 * * * *":    "00:15+11 01:15+11 02:15+10:30",
			"45 * * * *":    "00:45+11 01:45+11 01:45+10:30 02:45+10:30",
		},
	},
	{
		"Santiago in spring, 00:00 to 01:00", "America/Santiago", "2026-09-05T22:30:00-04:00", "2026-09-06T02:29:00-03:00",
		map[string]string{
			"0 0 * * *":  "01:00-03",
			"30 0 * * 0": "01:00-03",
			"0 * * * *":  "23:00-04 01:00-03 02:00-03",
		},
	},
	{
		"Santiago in autumn, 00:00 to 23:00", "America/Santiago", "2026-04-04T21:30:00-03:00", "2026-04-05T01:29:00-04:00",
		map[string]string{
			"30 23 * * 6": "23:30-03",
			"0 0 * * *":   "00:00-04",
			"0 * * * *":   "22:00-03 23:00-03 23:00-04 00:00-04 01:00-04",
		},
	},
	{
		"Beirut in spring, 00:00 to 01:00", "Asia/Beirut", "2026-03-28T22:30:00+02:00", "2026-03-29T02:29:00+03:00",
		map[string]string{"@daily": "01:00+03", "0 * * * *": "23:00+02 01:00+03 02:00+03"},
	},
	{
		"Apia, without 30 December 2011", "Pacific/Apia", "2011-12-29T20:30:00-10:00", "2011-12-31T02:59:00+14:00",
		map[string]string{
			"0 12 30 12 *": "00:00+14",
			"0 12 * * *":   "00:00+14",
			"0 0 * * *":    "00:00+14",
			"30 1,9 * * *": "00:00+14 01:30+14",
			"0 * * * *":    "21:00-10 22:00-10 23:00-10 00:00+14 01:00+14 02:00+14",
			"15 */2 * * *": "22:15-10 00:00+14 00:15+14 02:15+14",
		},
	},
}

func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range changes {
		t.Run(tt.name, tt.run)
	}
}

func (tt change) run(t *testing.T) {
	t.Parallel()
	for expr, want := range tt.due {
		var got []string
		for _, due := range walk(t, parse(t, expr, tt.zone), at(t, tt.from), at(t, tt.until)) {
			got = append(got, strings.TrimSuffix(due.Format("15:04-07:00"), ":00"))
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
}

// What recurs through the hour runs as often as the day has hours.
func TestRunsOfADay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zone, day string
		hours     int
	}{
		{"Europe/Berlin", "2026-03-29", 23},
		{"Europe/Berlin", "2026-06-21", 24},
		{"Europe/Berlin", "2026-10-25", 25},
		{"America/New_York", "2026-03-08", 23},
		{"America/New_York", "2026-11-01", 25},
		{"Australia/Sydney", "2026-10-04", 23},
		{"Australia/Sydney", "2026-04-05", 25},
		{"America/Santiago", "2026-09-06", 23},
		{"America/Santiago", "2026-04-04", 25},
	} {
		for expr, perHour := range map[string]int{"0 * * * *": 1, "30 * * * *": 1, "@hourly": 1, "*/15 * * * *": 4, "* * * * *": 60, "1-59/2 * * * *": 30} {
			c := parse(t, expr, tt.zone)
			runs := 0
			for due := c.Next(at(t, tt.day+"T00:00:00Z").Add(-36 * time.Hour)); due.Format(time.DateOnly) <= tt.day; due = c.Next(due) {
				if due.Format(time.DateOnly) == tt.day {
					runs++
				}
			}
			if runs != tt.hours*perHour {
				t.Errorf("%s in %s on %s: %d runs, want %d", expr, tt.zone, tt.day, runs, tt.hours*perHour)
			}
		}
	}
}

// What is due once a day is due once on every day, those with a change of the
// clocks included.
func TestOnceADay(t *testing.T) {
	t.Parallel()
	for _, zone := range zones {
		for _, expr := range []string{"0 0 * * *", "59 23 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *"} {
			day := at(t, "2026-01-02T00:00:00Z")
			for _, due := range schedule.Upcoming(parse(t, expr, zone), midnight(t, zone), 400) {
				if due.Format(time.DateOnly) != day.Format(time.DateOnly) {
					t.Fatalf("%s in %s: due at %s, want a time on %s", expr, zone, due, day.Format(time.DateOnly))
				}
				day = day.AddDate(0, 0, 1)
			}
		}
	}
}

// midnight returns a time just before the midnight in which 2 January 2026 begins.
func midnight(t *testing.T, name string) time.Time {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2026, 1, 2, 0, 0, 0, 0, zone).Add(-1)
}
