package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A draft is a table in the making, whose times are seconds of a clock that was
// never set.
type draft struct {
	table
	begun time.Time
}

func newDraft(overlap string) *draft {
	d := &draft{begun: time.Unix(1e9, 0)}
	d.timetable = timetable{name: "drafted", every: time.Second, overlap: overlap, catchUp: 5 * time.Second}
	d.jobs, d.clock = map[string]*pawl.Job{}, &host{jumps: []jump{{at: d.begun}}}
	return d.entry(0.5, lifecycle.ScheduleCreate, 0, "")
}

func (d *draft) at(second float64) int64 {
	return d.begun.Add(time.Duration(second * float64(time.Second))).UnixMicro()
}

// entry adds an entry of a moment about a time.
func (d *draft) entry(at float64, event machine.Event, due float64, reason string) *draft {
	meta, _ := json.Marshal(map[string]string{"due": pawl.Time(d.at(due)).Format(time.RFC3339), "job": fmt.Sprint("of ", due)})
	d.trail = append(d.trail, audit.Entry{Sequence: int64(len(d.trail) + 1), Event: event, Reason: reason, Metadata: meta, At: d.at(at)})
	return d
}

// fire adds a job that runs until the given end.
func (d *draft) fire(at, due, end float64) *draft {
	d.jobs[fmt.Sprint("of ", due)] = &pawl.Job{Record: pawl.Record{State: lifecycle.JobCompleted}, CompletedAt: d.at(end), Description: "schedule drafted, due " + pawl.Time(d.at(due)).Format(time.RFC3339)}
	return d.entry(at, lifecycle.ScheduleFire, due, "")
}

func (d *draft) pass(at, due float64, reason string) *draft {
	return d.entry(at, lifecycle.ScheduleSkip, due, reason)
}

// What a schedule may do, and what it may not (T10).
func TestTablesFindFaults(t *testing.T) {
	t.Parallel()
	const runs = "the job of 1 has not ended"
	for name, tt := range map[string]struct {
		overlap string
		play    func(*draft) *draft
		want    string
	}{
		"on time":     {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 1.5).fire(2.1, 2, 2.5) }, ""},
		"made up for": {schedule.Skip, func(d *draft) *draft { return d.fire(3.9, 1, 3.95).fire(4, 2, 4.1) }, ""},
		"passed": {schedule.Skip, func(d *draft) *draft {
			return d.fire(1.1, 1, 3.5).pass(2.1, 2, runs).pass(3.1, 3, runs).fire(4.1, 4, 5)
		}, ""},
		"several passed": {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 3.5).pass(3.1, 3, runs).fire(4.1, 4, 5) }, ""},
		"missed":         {schedule.Skip, func(d *draft) *draft { return d.pass(20.5, 15, "missed").fire(20.5, 16, 20.6) }, ""},
		"waited": {schedule.Queue, func(d *draft) *draft {
			return d.fire(1, 1, 3.5).entry(2, "queue", 2, runs).pass(3, 3, runs).fire(3.6, 2, 9)
		}, ""},
		"twice":             {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 1.5).fire(1.6, 1, 1.7) }, "the next time was"},
		"left out":          {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 1.5).fire(3.1, 3, 3.5) }, "the next time was"},
		"early":             {schedule.Skip, func(d *draft) *draft { return d.fire(0.9, 1, 1.5) }, "early"},
		"for no reason":     {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 1.5).pass(2.1, 2, runs) }, "nothing was in the way"},
		"by no policy":      {schedule.CancelOld, func(d *draft) *draft { return d.fire(1.1, 1, 3.5).pass(2.1, 2, runs) }, "does not let this pass"},
		"beside another":    {schedule.Skip, func(d *draft) *draft { return d.fire(1.1, 1, 3.5).fire(2.1, 2, 3) }, "the job before it ran"},
		"nothing cancelled": {schedule.CancelOld, func(d *draft) *draft { return d.fire(1.1, 1, 3.5).fire(2.1, 2, 3) }, "came to be COMPLETED"},
		"missed too soon":   {schedule.Skip, func(d *draft) *draft { return d.pass(4, 2, "missed") }, "in time to be made up for"},
		"made up too late":  {schedule.Skip, func(d *draft) *draft { return d.fire(9, 1, 9.1) }, "its time is over"},
		"two wait": {schedule.Queue, func(d *draft) *draft {
			return d.fire(1, 1, 9).entry(2, "queue", 2, runs).entry(3, "queue", 3, runs).fire(9.1, 2, 10)
		}, "another time waits"},
		"a job too many": {schedule.Skip, func(d *draft) *draft { d.jobs["j"] = &pawl.Job{}; return d.fire(1.1, 1, 2) }, "2 jobs are there, and 1 times"},
		"a job is gone":  {schedule.Skip, func(d *draft) *draft { d.fire(1.1, 1, 2); clear(d.jobs); return d }, "is not there"},
		// From 2.2 to 3.2 the clock is 10 seconds behind. The job of 1 ends at 2.5; what is
		// written then has the time of the entry before it.
		"the clock was set back": {schedule.Queue, func(d *draft) *draft {
			back := d.begun.Add(2200 * time.Millisecond)
			d.clock.jumps = append(d.clock.jumps, jump{back, -10 * time.Second}, jump{back.Add(time.Second), 0})
			return d.fire(1.1, 1, 2.5-10).entry(2.1, "queue", 2, runs).fire(2.1, 2, 4)
		}, ""},
		"nobody was looking": {schedule.Skip, func(d *draft) *draft { return d.fire(1, 1, 2).entry(90, lifecycle.SchedulePause, 0, "") }, "nothing was done for 1m28s"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.play(newDraft(tt.overlap)).check()
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
