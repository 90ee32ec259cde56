package explain

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const second = int64(time.Second / time.Microsecond)

// TestRates: what began and ended in the span is counted by workflow and by queue, of the
// workspaces that are asked for, with how long it waited and ran (J4, K7).
func TestRates(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	e.jobs(t, 24, func(i int, j *pawl.Job, b *storetest.Batch) {
		now := j.CreatedAt
		step := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}}
		b.AddStep(j, step)
		b.MoveJob(j, lifecycle.JobAllocateResources)
		n := int64(i + 1)
		j.CreatedAt = now - 100*second
		j.StartedAt = j.CreatedAt + n*second/10 // waited for 0.1 s to 2 s
		step.EnqueuedAt, step.StartedAt = j.StartedAt, j.StartedAt+second
		switch {
		case i >= 23: // before the span
			j.CreatedAt, j.StartedAt, step.StartedAt = now-5000*second, now-4000*second, now-4000*second
		case i == 22: // began before it, and ends in it
			j.CreatedAt, j.StartedAt, step.StartedAt = now-5000*second, now-4000*second, now-4000*second
			b.MoveJob(j, lifecycle.JobCancel)
			j.CompletedAt = now - 50*second
		case i >= 20:
			j.Workspace = "other"
		case i%2 == 0:
			b.MoveStep(j, step, lifecycle.StepEnqueue, lifecycle.StepClaim, lifecycle.StepSuccess)
			b.MoveJob(j, lifecycle.JobCancel)
			j.CompletedAt = j.StartedAt + 3*second
			step.EnqueuedAt, step.StartedAt, step.CompletedAt = j.StartedAt, j.StartedAt+second, j.StartedAt+3*second
		}
	})
	of := func(workspaces ...string) *Rates {
		t.Helper()
		r, err := e.Rates(t.Context(), workspaces, time.Hour)
		if err != nil || r.Truncated || r.To-r.From != pawl.Timestamp(3600*second) {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	jobs := Rate{Workspace: "w", Name: "one", Begun: 20, BegunPerMinute: 20.0 / 60, Ended: map[machine.State]int{lifecycle.JobCanceled: 11}, EndedPerMinute: 11.0 / 60,
		Waited: Dwell{20, 1, 1.9, 2}, Ran: Dwell{11, 3, 3950, 3950}}
	steps := Rate{Workspace: "w", Name: "default", Begun: 20, BegunPerMinute: 20.0 / 60, Ended: map[machine.State]int{lifecycle.StepComplete: 10}, EndedPerMinute: 10.0 / 60,
		Waited: Dwell{20, 1, 1, 1}, Ran: Dwell{10, 2, 2, 2}}
	others := []Rate{
		{Workspace: "other", Name: "one", Begun: 2, BegunPerMinute: 2.0 / 60, Ended: map[machine.State]int{}, Waited: Dwell{2, 2.1, 2.2, 2.2}},
		{Workspace: "other", Name: "default", Begun: 2, BegunPerMinute: 2.0 / 60, Ended: map[machine.State]int{}, Waited: Dwell{2, 1, 1, 1}},
	}
	for _, tt := range []struct {
		workspaces        []string
		workflows, queues []Rate
	}{
		{[]string{"w"}, []Rate{jobs}, []Rate{steps}},
		{[]string{""}, []Rate{others[0], jobs}, []Rate{others[1], steps}},
		{[]string{"w", "other"}, []Rate{others[0], jobs}, []Rate{others[1], steps}},
		{[]string{"none"}, []Rate{}, []Rate{}},
		{nil, []Rate{}, []Rate{}},
	} {
		got := of(tt.workspaces...)
		if diff := cmp.Diff(tt.workflows, got.Workflows); diff != "" {
			t.Errorf("workflows of %q (-want +got):\n%s", tt.workspaces, diff)
		}
		if diff := cmp.Diff(tt.queues, got.Queues); diff != "" {
			t.Errorf("queues of %q (-want +got):\n%s", tt.workspaces, diff)
		}
	}
}

// TestRatesOfManyJobs: of more jobs than are looked at, the span begins with the oldest of
// those, so that the rate is that of the time that it is of (J4).
func TestRatesOfManyJobs(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const n = maxRateJobs + 700
	e.jobs(t, n, func(i int, j *pawl.Job, b *storetest.Batch) {
		b.MoveJob(j, lifecycle.JobAllocateResources)
		j.CreatedAt -= int64(n-i) * second
		j.StartedAt = j.CreatedAt
	})
	r, err := e.Rates(t.Context(), []string{""}, 24*time.Hour)
	if err != nil || !r.Truncated || len(r.Workflows) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := r.Workflows[0]; got.Begun != maxRateJobs || math.Abs(got.BegunPerMinute-60) > 1 {
		t.Errorf("%+v; want 60 jobs a minute", got)
	}
}
