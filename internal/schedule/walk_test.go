package schedule_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A world runs one schedule by a fake clock, with jobs that take their time and
// a process that is down now and then. It follows every due time on its own, one
// by one, and knows from the rules what has to become of it.
type world struct {
	*rapid.T
	s       *pawl.Schedule
	c       *schedule.Cron
	now     int64
	seen    int64          // the newest time that was dealt with
	jobEnds int64          // when the last job ends
	fired   map[int64]bool // the times that made a job
}

const second = int64(time.Second / time.Microsecond)

func newWorld(t *rapid.T) *world {
	c, err := schedule.Parse(rapid.SampledFrom([]string{
		"* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *", "*/10 9-17 * * MON-FRI", "@every 1s", "@every 10s", "@every 45s", "@every 25m",
	}).Draw(t, "cron"), "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, c: c, fired: map[int64]bool{}, s: &pawl.Schedule{
		Overlap: rapid.SampledFrom([]string{schedule.Skip, schedule.Queue, schedule.CancelOld}).Draw(t, "overlap"),
		CatchUp: rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 10 * time.Minute, time.Hour}).Draw(t, "catch-up"),
	}}
	w.now = pawl.Micros(time.Date(2026, 10, 24, rapid.IntRange(0, 48).Draw(t, "hour"), 0, 0, 0, time.UTC))
	w.seen = w.now
	w.s.DueAt = w.next(w.now)
	return w
}

func (w *world) next(t int64) int64 { return pawl.Micros(w.c.Next(pawl.Time(t))) }

// sleep moves the clock to the next decision, mostly on time, or the process is
// down for a while.
func (w *world) sleep() {
	w.now = max(w.now, w.s.DueAt)
	switch rapid.IntRange(0, 7).Draw(w.T, "sleep") {
	case 0:
		w.now += second * rapid.Int64Range(0, 10_000).Draw(w.T, "down")
	case 1, 2:
		w.now += second * rapid.Int64Range(0, 100).Draw(w.T, "late")
	case 3:
		w.now += rapid.Int64Range(0, 3*second).Draw(w.T, "lag")
	}
}

// An outcome is what becomes of a due time.
type outcome struct {
	Due   int64
	Event machine.Event
	Why   string // of a skip
}

const (
	missed = "missed"
	busy   = "has not ended"
)

// due returns the times that the next decision deals with.
func (w *world) due() []int64 {
	var times []int64
	for t := w.next(w.seen); t <= w.now; t = w.next(t) {
		times = append(times, t)
	}
	return times
}

// expected says by the rules what has to become of each of the times, and of
// the one that waits. The last result is false if the decision leaves some over.
func (w *world) expected(times []int64) (want []outcome, waiting int64, all bool) {
	running, taken := w.jobEnds > w.now, 0
	if waiting = w.s.Waiting; waiting != 0 && !running {
		want, waiting, running = append(want, outcome{Due: waiting, Event: lifecycle.ScheduleFire}), 0, true
	}
	for i, t := range times {
		late := time.Duration(w.now-t) * time.Microsecond
		switch {
		case late > w.s.CatchUp && (i < len(times)-1 || late >= schedule.Grace):
			want = append(want, outcome{t, lifecycle.ScheduleSkip, missed})
			continue
		case taken == schedule.MaxActs:
			return want, waiting, false
		case !running || w.s.Overlap == schedule.CancelOld:
			want, running = append(want, outcome{Due: t, Event: lifecycle.ScheduleFire}), true
			taken++
		case w.s.Overlap == schedule.Queue && waiting == 0:
			want, waiting = append(want, outcome{Due: t, Event: lifecycle.ScheduleQueue}), t
		default:
			want = append(want, outcome{t, lifecycle.ScheduleSkip, busy})
		}
	}
	return want, waiting, true
}

// unfolded returns what a decision does with each of the times.
func (w *world) unfolded(d schedule.Decision, times []int64) []outcome {
	var got []outcome
	for _, a := range d.Acts {
		if a.Event != lifecycle.ScheduleSkip {
			got = append(got, outcome{Due: a.Due, Event: a.Event})
			if len(times) > 0 && times[0] == a.Due {
				times = times[1:]
			}
			continue
		}
		why := missed
		if strings.Contains(a.Reason, busy) {
			why = busy
		}
		for len(times) > 0 && times[0] <= a.Due {
			got = append(got, outcome{times[0], a.Event, why})
			times = times[1:]
		}
	}
	return got
}

// step makes one decision and holds it against the rules.
func (w *world) step() {
	running := w.jobEnds > w.now
	id := ""
	if running {
		id = "j_1"
	}
	d := schedule.Decide(w.s, w.c, w.now, id)
	times := w.due()
	want, waiting, all := w.expected(times)
	if got := w.unfolded(d, times); !slices.Equal(want, got) { // cmp is slow, and the lists are long
		w.Fatalf("at %s, with %+v (-want +got):\n%s", pawl.Time(w.now), w.s, cmp.Diff(want, got))
	}
	if d.Waiting != waiting {
		w.Fatalf("waiting %d, want %d", d.Waiting, waiting)
	}
	w.fires(d, running)
	w.seen = w.now
	if !all {
		w.seen = want[len(want)-1].Due
	}
	w.onward(d)
}

// fires lets the jobs of a decision begin: none twice, and but for cancel_old
// none beside another.
func (w *world) fires(d schedule.Decision, running bool) {
	for _, a := range d.Acts {
		if a.Event != lifecycle.ScheduleFire {
			continue
		}
		switch {
		case w.fired[a.Due]:
			w.Fatalf("%s makes a second job", pawl.Time(a.Due))
		case running && w.s.Overlap != schedule.CancelOld:
			w.Fatalf("%s makes a job beside another", pawl.Time(a.Due))
		case a.CancelOld != running:
			w.Fatalf("%s: cancel %v, want %v", pawl.Time(a.Due), a.CancelOld, running)
		case a.Due <= w.s.Due || d.Due < a.Due:
			w.Fatalf("%s makes a job after %s; the last is %s", pawl.Time(a.Due), pawl.Time(w.s.Due), pawl.Time(d.Due))
		}
		w.fired[a.Due], running = true, true
		w.jobEnds = w.now + rapid.SampledFrom([]int64{0, second / 2, 20 * second, 90 * second, 4000 * second}).Draw(w.T, "length")
	}
}

// onward gives the schedule its new fields: it is always due later, and no later
// than the next time there is.
func (w *world) onward(d schedule.Decision) {
	want := w.next(w.seen)
	if d.Waiting != 0 {
		want = w.now + schedule.Poll.Microseconds()
	}
	if d.DueAt <= w.s.DueAt || d.DueAt != want {
		w.Fatalf("due at %s and then at %s, want %s", pawl.Time(w.s.DueAt), pawl.Time(d.DueAt), pawl.Time(want))
	}
	w.s.DueAt, w.s.Due, w.s.Waiting = d.DueAt, d.Due, d.Waiting
}

// No time within the window is lost, none makes two jobs, a schedule is always
// due later than before, and there is one job at a time where that is asked for.
func TestDecideByFakeClock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range 40 {
			w.sleep()
			w.step()
		}
	})
}
