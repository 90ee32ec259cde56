package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/schedule"
)

// Next jumps from field to field within a period of constant offset. Its twin
// looks at every minute there is, remembers what the wall has shown, and knows
// nothing of offsets.

// zones are those whose clocks the twin walks past; the last one drops a day.
var zones = []string{
	"UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe",
	"America/Santiago", "Asia/Beirut", "Africa/Casablanca", "Antarctica/Troll", "America/St_Johns", "Pacific/Apia",
}

// An expression is a random one with its meaning.
type expression struct {
	texts  []string
	values []map[int]bool // by field
}

// A part describes a field for the draw.
type part struct {
	min, max int
	names    string
}

var parts = []part{{0, 59, ""}, {0, 23, ""}, {1, 31, ""}, {1, 12, "JanFebMarAprMayJunJulAugSepOctNovDec"}, {0, 6, "SUNMONTUEWEDTHUFRISAT"}}

func drawExpression(t *rapid.T) expression {
	e := expression{}
	for i, p := range parts {
		text, values := "*", map[int]bool{}
		if loose := []int{1, 1, 3, 6, 3}[i]; rapid.IntRange(0, loose).Draw(t, "restricted") == 0 {
			var items []string
			for range rapid.IntRange(1, 3).Draw(t, "items") {
				items = append(items, p.draw(t, values))
			}
			text = strings.Join(items, ",")
		} else {
			p.add(values, p.min, p.max-p.min+1, 1)
		}
		e.texts, e.values = append(e.texts, text), append(e.values, values)
	}
	return e
}

// draw returns an item and adds its values.
func (p part) draw(t *rapid.T, values map[int]bool) string {
	size := p.max - p.min + 1
	low := rapid.IntRange(p.min, p.max).Draw(t, "low")
	if p.max == 23 && rapid.Bool().Draw(t, "at night") {
		low = rapid.IntRange(0, 3).Draw(t, "low")
	}
	count := rapid.IntRange(2, size).Draw(t, "count")
	step := rapid.IntRange(1, count-1).Draw(t, "step")
	high := p.min + (low-p.min+count-1)%size
	switch rapid.SampledFrom([]string{"N", "N", "N-N", "N-N/n", "*/n", "N/n"}).Draw(t, "form") {
	case "N-N":
		p.add(values, low, count, 1)
		return p.name(t, low) + "-" + p.name(t, high)
	case "N-N/n":
		p.add(values, low, count, step)
		return fmt.Sprintf("%s-%s/%d", p.name(t, low), p.name(t, high), step)
	case "*/n":
		p.add(values, p.min, size, step)
		return fmt.Sprintf("*/%d", step)
	case "N/n":
		if room := p.max - low; room > 0 {
			step = min(step, room)
			p.add(values, low, room+1, step)
			return fmt.Sprintf("%s/%d", p.name(t, low), step)
		}
	}
	p.add(values, low, 1, 1)
	return p.name(t, low)
}

// add adds every step-th of count values from low on, around the end.
func (p part) add(values map[int]bool, low, count, step int) {
	for i := 0; i < count; i += step {
		values[p.min+(low-p.min+i)%(p.max-p.min+1)] = true
	}
}

func (p part) name(t *rapid.T, v int) string {
	switch {
	case p.names != "" && rapid.Bool().Draw(t, "by name"):
		return p.names[3*(v-p.min):][:3]
	case p.max == 6 && v == 0 && rapid.Bool().Draw(t, "as 7"):
		return "7"
	}
	return fmt.Sprint(v)
}

func (e expression) String() string { return strings.Join(e.texts, " ") }

func (e expression) matches(t time.Time) bool {
	day, weekday := e.values[2][t.Day()], e.values[4][int(t.Weekday())]
	onDay := day && weekday
	if e.texts[2][0] != '*' && e.texts[4][0] != '*' {
		onDay = day || weekday
	}
	return onDay && e.values[0][t.Minute()] && e.values[1][t.Hour()] && e.values[3][int(t.Month())]
}

// comes reports whether a day of some year matches.
func (e expression) comes() bool {
	minute, hour := slices.Collect(maps.Keys(e.values[0]))[0], slices.Collect(maps.Keys(e.values[1]))[0]
	for day := time.Date(2000, 1, 1, hour, minute, 0, 0, time.UTC); day.Year() < 2050; day = day.AddDate(0, 0, 1) {
		if e.matches(day) {
			return true
		}
	}
	return false
}

func (e expression) hourly() bool { return len(e.values[1]) == 24 }

func (e expression) recurs() bool {
	return e.hourly() || strings.ContainsAny(e.texts[0]+e.texts[1], "*/")
}

// wall returns what the wall shows, written as if it were UTC.
func wall(t time.Time) time.Time {
	year, month, day := t.Date()
	hour, minute, _ := t.Clock()
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
}

// scan returns the due times after from, until the given time, by looking at
// every minute from six hours before on.
func (e expression) scan(from, until time.Time) []time.Time {
	var due []time.Time
	shown := map[time.Time]bool{}
	start := from.Truncate(time.Minute).Add(-6 * time.Hour)
	before := wall(start)
	for t := start; !t.After(until); t = t.Add(time.Minute) {
		now := wall(t)
		is := e.matches(now) && (e.recurs() || !shown[now])
		for left := before.Add(time.Minute); left.Before(now) && !e.hourly(); left = left.Add(time.Minute) {
			is = is || e.matches(left)
		}
		if is && t.After(from) {
			due = append(due, t)
		}
		shown[now], before = true, now
	}
	return due
}

// drawStart returns a time, often one shortly before the clocks change.
func drawStart(t *rapid.T, zone *time.Location) time.Time {
	start := time.Unix(rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(t, "second"), 0).In(zone)
	if zone.String() == "Pacific/Apia" && rapid.Bool().Draw(t, "the day that was not") {
		start = time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC).In(zone)
	}
	if _, end := start.ZoneBounds(); !end.IsZero() && rapid.IntRange(0, 3).Draw(t, "away from a change") > 0 {
		start = end.Add(-time.Duration(rapid.IntRange(1, 3000).Draw(t, "minutes before")) * time.Minute)
	}
	return start
}

func TestNextAgainstEveryMinute(t *testing.T) {
	t.Parallel()
	for _, name := range zones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { compare(t, name, drawExpression(t), drawStart(t, zone)) })
		})
	}
}

func compare(t *rapid.T, zone string, e expression, from time.Time) {
	c, err := schedule.Parse(e.String(), zone)
	if err != nil {
		if e.comes() || !strings.Contains(err.Error(), "never due") {
			t.Fatal(err)
		}
		return
	}
	until := from.AddDate(0, 0, 3)
	want := e.scan(from, until)
	var got []time.Time
	for due := c.Next(from); !due.After(until); due = c.Next(due) {
		got = append(got, due)
	}
	if diff := cmp.Diff(stamps(want), stamps(got)); diff != "" {
		t.Fatalf("%s in %s after %s (-want +got):\n%s", e, zone, from, diff)
	}
}

// Times are always found, however rare, and always later, in every zone and
// from any time on.
func TestNextAdvances(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := schedule.Parse(drawExpression(t).String(), rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			return
		}
		now := time.Unix(rapid.Int64Range(-5_000_000_000, 10_000_000_000).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		for _, due := range schedule.Upcoming(c, now, 5) {
			if !due.After(now) || due.After(now.AddDate(41, 0, 0)) || due.Nanosecond() != 0 {
				t.Fatalf("after %s comes %s", now, due)
			}
			now = due
		}
	})
}
