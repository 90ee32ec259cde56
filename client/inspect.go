package client

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// Inspect reads what happened to jobs, and why they are in their states. It changes
// nothing.
type Inspect struct{ base }

// History calls f with every move of a job and its steps, oldest first. It ends with the
// first error of f.
func (s *Inspect) History(ctx context.Context, job pawl.ID, f func(pawl.Transition) error) error {
	return s.engine.History(ctx, job, f)
}

// At returns a job as it was at a moment, rebuilt from its trail.
func (s *Inspect) At(ctx context.Context, job pawl.ID, at pawl.Moment) (*pawl.JobView, error) {
	return s.engine.Past(ctx, job, at)
}

// Why returns what a job, or one of its steps, waits for, and what would unblock it.
func (s *Inspect) Why(ctx context.Context, job pawl.ID, step string) ([]pawl.Reason, error) {
	return s.engine.Why(ctx, job, step)
}

// Stuck returns the jobs that have not moved for at least still, and that move only if
// a person acts, each with the reason.
func (s *Inspect) Stuck(ctx context.Context, q pawl.JobQuery, still time.Duration) ([]pawl.StuckJob, error) {
	return s.engine.Stuck(ctx, q, still)
}

// Logs calls f with what a step has printed, or all steps if step is empty. It ends with
// the first error of f.
func (s *Inspect) Logs(ctx context.Context, job pawl.ID, step string, f func(pawl.LogLine) error) error {
	return s.engine.Logs(ctx, job, step, f)
}

// Definition returns the workflow that a job runs.
func (s *Inspect) Definition(ctx context.Context, job pawl.ID) (*workflow.Definition, error) {
	return s.engine.Definition(ctx, job)
}

// Recent calls f with the newest jobs of a workspace, at most limit and without their
// bodies, until f returns false. An empty workspace is the client's.
func (s *Inspect) Recent(ctx context.Context, workspace string, limit int, f func(*pawl.Job) (more bool)) error {
	return s.engine.RecentJobs(ctx, s.workspace(workspace), limit, f)
}

// Watch calls f when it begins and then whenever the job may have changed, at most every
// 50 ms, until f returns false or an error, or ctx ends. Changes by other processes are
// seen within a second.
func (s *Inspect) Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error {
	return s.engine.Watch(ctx, id, f)
}
