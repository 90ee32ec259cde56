package inspect

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// maxRest is the longest pause between two reads of a job with very many steps.
const maxRest = time.Second

// Follow calls show with each state of a job until it has ended, and returns the job. A job
// with very many steps is read less often than it changes.
func Follow(ctx context.Context, cl *client.Client, id pawl.ID, show func(*pawl.JobView)) (*pawl.JobView, error) {
	var last *pawl.JobView
	err := cl.Inspect.Watch(ctx, id, func() (bool, error) {
		began := time.Now()
		v, err := cl.Jobs.Get(ctx, id)
		if err != nil {
			return false, err
		}
		last = v
		show(v)
		if ended(v) {
			return false, nil
		}
		return sleep.For(ctx, min(4*time.Since(began), maxRest)), ctx.Err()
	})
	return last, err
}

// ended reports whether a job has ended, also in a state that a later version has.
func ended(v *pawl.JobView) bool { return lifecycle.Job.Ended(v.Status) || v.CompletedAt != 0 }

// TimedOut reports whether the job was canceled by its own timeout and not by an operator.
func TimedOut(v *pawl.JobView) bool {
	return v.Status == lifecycle.JobCanceled && v.Error != nil && v.Error.Class == pawl.ClassTimeout
}

// maxTailLines is how many lines of a failed step's stderr are shown.
const maxTailLines = 10

// maxTailBytes is how many bytes of stderr those lines are taken from.
const maxTailBytes = 64 << 10

// StderrTail returns the last lines that the last attempt of a step wrote to its standard
// error, and whether the step printed anything.
func StderrTail(ctx context.Context, cl *client.Client, id pawl.ID, step string) (lines []string, printed bool) {
	claim, last := 0, "" // of the last attempt, since claims only increase
	err := cl.Inspect.Logs(ctx, id, step, func(l pawl.LogLine) error {
		printed = true
		if l.Claim > claim {
			claim, last = l.Claim, ""
		}
		if l.Stream == worker.Stderr {
			last += l.Text
			last = last[max(0, len(last)-maxTailBytes):]
		}
		return nil
	})
	text := strings.TrimRight(last, "\n")
	if err != nil || text == "" { // the error is dropped: why the job failed matters more
		return nil, printed
	}
	lines = strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxTailLines):], printed
}

// UntilEnded calls print whenever a job may have printed something, until the job has ended.
func UntilEnded(ctx context.Context, cl *client.Client, id pawl.ID, print func() error) error {
	return cl.Inspect.Watch(ctx, id, func() (bool, error) {
		v, err := cl.Jobs.Get(ctx, id)
		if err != nil {
			return false, err
		}
		return !ended(v), print()
	})
}

// WaitsForApproval reports whether a step waits for an approval now.
func WaitsForApproval(s *pawl.StepView) bool {
	return s.Wait != nil && s.Status == lifecycle.StepInProgress && s.Wait.Kind == string(workflow.KindApproval)
}

// Approvals returns the steps of a job that wait for an approval.
func Approvals(v *pawl.JobView) (steps []*pawl.StepView) {
	for i := range v.Steps {
		if WaitsForApproval(&v.Steps[i]) {
			steps = append(steps, &v.Steps[i])
		}
	}
	return steps
}
