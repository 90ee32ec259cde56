package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

// instantLayouts are how a time of today is written, in UTC.
var instantLayouts = []string{"15:04:05", "15:04", "15:04:05Z", "15:04Z"}

// parseInstant reads a time of the past: as Pawl shows it, a time of today in UTC, or a
// duration, which is so long ago.
func parseInstant(text string, now time.Time) (time.Time, error) {
	at, ok := instant(strings.TrimSpace(text), now.UTC())
	switch {
	case !ok:
		return at, usage("", "--at %q: want a time such as 2026-01-31T10:00:00Z, one of today in UTC such as 10:00:00, or a duration ago such as 10m", text)
	case at.After(now):
		return at, usage("", "--at %q: %s is in the future", text, console.Stamp(at, nil))
	}
	return at, nil
}

func instant(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(strings.TrimSuffix(text, " ago")); err == nil && ago >= 0 {
		return now.Add(-ago), true
	}
	for _, layout := range []string{time.RFC3339Nano, console.SecondLayout} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, true
		}
	}
	for _, layout := range instantLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			midnight := now.Truncate(24 * time.Hour)
			return midnight.Add(at.Sub(at.Truncate(24 * time.Hour))), true
		}
	}
	return now, false
}

const showLong = `Show a job: its state, its steps, its output or why it failed. With -o json it is
the job as "pawl run -o json" prints it.

--at shows the job as it was at that time: 2026-01-31T10:00:00Z, 10:00:00 of today in
UTC, or 10m for so long ago. --seq N shows it as it was after the Nth move in its own
trail, with its steps as they were at the time of that move. Both rebuild the job from
the audit trail; outputs are those of the steps that had ended by then.`

// momentFlags are --at and --seq.
type momentFlags struct {
	at  string
	seq int
}

func (f *momentFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.at, "at", "", "as it was at that time: RFC 3339, a time of today in UTC, or a duration ago")
	c.Flags().IntVar(&f.seq, "seq", 0, "as it was after that move in the job's own trail, from 1")
}

// job returns the job as it is, or as it was at the moment that is given.
func (f *momentFlags) job(c *cobra.Command, cl *client.Client, id pawl.ID) (*pawl.JobView, error) {
	if !c.Flags().Changed("at") && !c.Flags().Changed("seq") {
		return cl.Jobs.Get(c.Context(), id)
	}
	at, err := f.moment(c.Flags().Changed, time.Now())
	if err != nil {
		return nil, err
	}
	return cl.Inspect.At(c.Context(), id, at)
}

func (f *momentFlags) moment(given func(string) bool, now time.Time) (pawl.Moment, error) {
	switch {
	case given("at") && given("seq"):
		return pawl.Moment{}, usage("", "--at and --seq name two moments: want one of them")
	case given("seq") && f.seq < 1:
		return pawl.Moment{}, usage("", "--seq %d: want 1 or more", f.seq)
	case given("seq"):
		return pawl.Moment{Sequence: int64(f.seq)}, nil
	}
	at, err := parseInstant(f.at, now)
	return pawl.Moment{Time: pawl.Timestamp(pawl.Micros(at))}, err
}
