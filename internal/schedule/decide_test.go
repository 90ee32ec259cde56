package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// clock reads a time of 2026-05-01 in UTC, such as 10:00 or 10:00:30.
func clock(t testing.TB, s string) int64 {
	t.Helper()
	if s == "" {
		return 0
	}
	return pawl.Micros(at(t, "2026-05-01T"+s+":00Z"[3*strings.Count(s, ":")-3:]))
}

// told renders a decision: a line for each act, and the rest.
func told(d schedule.Decision) string {
	var b strings.Builder
	show := func(t int64) string {
		if t == 0 {
			return "-"
		}
		return pawl.Time(t).Format("15:04:05")
	}
	for _, a := range d.Acts {
		line := fmt.Sprintf("%s %s %s", a.Event, show(a.Due), strings.ReplaceAll(a.Reason, "2026-05-01T", ""))
		if a.CancelOld {
			line += "and cancel"
		}
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	fmt.Fprintf(&b, "due at %s, last %s, waiting %s", show(d.DueAt), show(d.Due), show(d.Waiting))
	return b.String()
}

// A verdict is one decision about a schedule of every ten minutes, of which the
// job of 09:50 was the last.
type verdict struct {
	name                string
	overlap             string
	catchUp             time.Duration
	dueAt, waiting, now string
	running             bool
	want                string
}

var verdicts = []verdict{
	{
		name: "too early", overlap: schedule.Skip, dueAt: "10:00", now: "09:59:59",
		want: "due at 10:00:00, last 09:50:00, waiting -",
	},
	{
		name: "too early, since the clock was set back, and a time waits", overlap: schedule.Queue, dueAt: "10:05:01", waiting: "10:00", now: "09:59:00", running: true,
		want: "due at 10:05:01, last 09:50:00, waiting 10:00:00",
	},
	{
		name: "on time", overlap: schedule.Skip, dueAt: "10:00", now: "10:00",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "of no overlap, as skip", dueAt: "10:00", now: "10:00", running: true,
		want: "skip 10:00:00 the job of 09:50:00Z (j_7) has not ended\ndue at 10:10:00, last 09:50:00, waiting -",
	},
	{
		name: "not of the expression", overlap: schedule.Skip, dueAt: "10:03", now: "10:03",
		want: "fire 10:03:00\ndue at 10:10:00, last 10:03:00, waiting -",
	},

	{
		name: "late by less than a minute", overlap: schedule.Skip, dueAt: "10:00", now: "10:00:59",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "late by a minute", overlap: schedule.Skip, dueAt: "10:00", now: "10:01",
		want: "skip 10:00:00 missed, and the catch-up is 0s\ndue at 10:10:00, last 09:50:00, waiting -",
	},
	{
		name: "several missed, and the newest is in time", overlap: schedule.Skip, dueAt: "10:00", now: "10:20:05",
		want: "skip 10:10:00 all from 10:00:00Z to 10:10:00Z: missed, and the catch-up is 0s\n" +
			"fire 10:20:00\ndue at 10:30:00, last 10:20:00, waiting -",
	},
	{
		name: "several missed, and the newest too", overlap: schedule.Skip, dueAt: "10:00", now: "10:25",
		want: "skip 10:20:00 all from 10:00:00Z to 10:20:00Z: missed, and the catch-up is 0s\ndue at 10:30:00, last 09:50:00, waiting -",
	},
	{
		name: "within the catch-up", overlap: schedule.Skip, catchUp: 5 * time.Minute, dueAt: "10:00", now: "10:05",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "beyond the catch-up", overlap: schedule.Skip, catchUp: 5 * time.Minute, dueAt: "10:00", now: "10:06",
		want: "skip 10:00:00 missed, and the catch-up is 5m0s\ndue at 10:10:00, last 09:50:00, waiting -",
	},
	{
		name: "beyond a catch-up of less than a minute", overlap: schedule.Skip, catchUp: time.Second, dueAt: "10:00", now: "10:00:59",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},

	{
		name: "skip", overlap: schedule.Skip, dueAt: "10:00", now: "10:00", running: true,
		want: "skip 10:00:00 the job of 09:50:00Z (j_7) has not ended\ndue at 10:10:00, last 09:50:00, waiting -",
	},
	{
		name: "skip what comes after the first", overlap: schedule.Skip, catchUp: time.Hour, dueAt: "10:00", now: "10:35",
		want: "fire 10:00:00\nskip 10:30:00 all from 10:10:00Z to 10:30:00Z: the job of 10:00:00Z has not ended\n" +
			"due at 10:40:00, last 10:00:00, waiting -",
	},
	{
		name: "skip what waits, once the schedule does not queue any more", overlap: schedule.Skip, dueAt: "10:07:01", waiting: "10:00", now: "10:07:01", running: true,
		want: "skip 10:00:00 the job of 09:50:00Z (j_7) has not ended\ndue at 10:10:00, last 09:50:00, waiting -",
	},

	{
		name: "queue", overlap: schedule.Queue, dueAt: "10:00", now: "10:00", running: true,
		want: "queue 10:00:00 the job of 09:50:00Z (j_7) has not ended\ndue at 10:00:01, last 09:50:00, waiting 10:00:00",
	},
	{
		name: "queue behind the first", overlap: schedule.Queue, catchUp: time.Hour, dueAt: "10:00", now: "10:35",
		want: "fire 10:00:00\nqueue 10:10:00 the job of 10:00:00Z has not ended\n" +
			"skip 10:30:00 all from 10:20:00Z to 10:30:00Z: the job of 10:00:00Z has not ended\n" +
			"due at 10:35:01, last 10:00:00, waiting 10:10:00",
	},
	{
		name: "go on waiting", overlap: schedule.Queue, dueAt: "10:05:01", waiting: "10:00", now: "10:05:01", running: true,
		want: "due at 10:05:02, last 09:50:00, waiting 10:00:00",
	},
	{
		name: "go on waiting while a time passes", overlap: schedule.Queue, dueAt: "10:10:01", waiting: "10:00", now: "10:10:01", running: true,
		want: "due at 10:10:02, last 09:50:00, waiting 10:00:00",
	},
	{
		name: "go on waiting, and a time comes", overlap: schedule.Queue, dueAt: "10:10:00", waiting: "10:00", now: "10:10:00", running: true,
		want: "skip 10:10:00 the job of 09:50:00Z (j_7) has not ended\ndue at 10:10:01, last 09:50:00, waiting 10:00:00",
	},
	{
		name: "wait no longer", overlap: schedule.Queue, dueAt: "10:05:01", waiting: "10:00", now: "10:05:01",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "wait no longer, and another waits", overlap: schedule.Queue, dueAt: "10:10:00", waiting: "10:00", now: "10:10:00",
		want: "fire 10:00:00\nqueue 10:10:00 the job of 10:00:00Z has not ended\ndue at 10:10:01, last 10:00:00, waiting 10:10:00",
	},
	{
		name: "what waits is made however late, and others are missed", overlap: schedule.Queue, dueAt: "10:05:01", waiting: "10:00", now: "10:45",
		want: "fire 10:00:00\nskip 10:40:00 all from 10:10:00Z to 10:40:00Z: missed, and the catch-up is 0s\n" +
			"due at 10:50:00, last 10:00:00, waiting -",
	},

	{
		name: "cancel the old one", overlap: schedule.CancelOld, dueAt: "10:00", now: "10:00", running: true,
		want: "fire 10:00:00 and cancel\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "nothing to cancel", overlap: schedule.CancelOld, dueAt: "10:00", now: "10:00",
		want: "fire 10:00:00\ndue at 10:10:00, last 10:00:00, waiting -",
	},
	{
		name: "each makes a job and cancels the one before", overlap: schedule.CancelOld, catchUp: 25 * time.Minute, dueAt: "10:00", now: "10:35", running: true,
		want: "skip 10:00:00 missed, and the catch-up is 25m0s\n" +
			"fire 10:10:00 and cancel\nfire 10:20:00 and cancel\nfire 10:30:00 and cancel\ndue at 10:40:00, last 10:30:00, waiting -",
	},
	{
		name: "what waits is made, once the schedule cancels", overlap: schedule.CancelOld, dueAt: "10:05:01", waiting: "10:00", now: "10:05:01", running: true,
		want: "fire 10:00:00 and cancel\ndue at 10:10:00, last 10:00:00, waiting -",
	},
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tt := range verdicts {
		t.Run(tt.name, tt.run)
	}
}

func (tt verdict) run(t *testing.T) {
	t.Parallel()
	s := &pawl.Schedule{
		Overlap: tt.overlap, CatchUp: tt.catchUp, Waiting: clock(t, tt.waiting),
		Record: pawl.Record{DueAt: clock(t, tt.dueAt)}, Due: clock(t, "09:50"), LastJob: 7,
	}
	id := ""
	if tt.running {
		id = "j_7"
	}
	d := schedule.Decide(s, parse(t, "*/10 * * * *", ""), clock(t, tt.now), id)
	if diff := cmp.Diff(tt.want, told(d)); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

// One decision is bounded, and the next one continues from there, with not a time lost.
// However long the process was down, looking costs little.
func TestDecisionIsBounded(t *testing.T) {
	t.Parallel()
	c := parse(t, "@every 1s", "")
	now := clock(t, "12:00")
	s := &pawl.Schedule{Overlap: schedule.CancelOld, CatchUp: 249 * time.Second}
	s.DueAt = now - (20 * 366 * 24 * time.Hour).Microseconds()
	want := clock(t, "11:55:51")
	for _, fires := range []int{schedule.MaxActs, schedule.MaxActs, 50} {
		if s.DueAt > now {
			t.Fatalf("due at %d, want at once", s.DueAt)
		}
		d := schedule.Decide(s, c, now, "j_7")
		for _, a := range d.Acts {
			if a.Event != "fire" {
				continue
			}
			if a.Due != want {
				t.Fatalf("fire %s, want %s", pawl.Time(a.Due), pawl.Time(want))
			}
			want += time.Second.Microseconds()
			fires--
		}
		if fires != 0 {
			t.Errorf("%d jobs are missing", fires)
		}
		s.DueAt, s.Due, s.Waiting = d.DueAt, d.Due, d.Waiting
	}
	if want := clock(t, "12:00:01"); s.DueAt != want {
		t.Errorf("due at %s, want %s", pawl.Time(s.DueAt), pawl.Time(want))
	}
}
