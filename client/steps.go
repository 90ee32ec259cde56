package client

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
)

// Steps changes single steps of jobs. A step is named by its key: its id in the file, and
// for an instance of a fan-out the id with its index or key, such as load[3]. A change
// returns what it did to the step.
type Steps struct{ base }

// Retry lets the next attempt of a step that waits for its backoff begin now.
func (s *Steps) Retry(ctx context.Context, job pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.RetryStep(ctx, job, step, s.by(c))
}

// Skip ends a step as skipped, with the same consequences as a false condition.
func (s *Steps) Skip(ctx context.Context, job pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.SkipStep(ctx, job, step, s.by(c))
}

// Resolve ends a failed step with an output that was made by hand, and what depends on
// it continues. Just after a failure it waits, for 2 s at most, until an engine has
// applied the outcome; see decide.ErrNotApplied.
func (s *Steps) Resolve(ctx context.Context, job pawl.ID, step string, output json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.ResolveStep(ctx, job, step, output, s.by(c))
}

// Approvals decides approvals and sends signals. A decision returns what it did to the
// step, a signal what it did to the job.
type Approvals struct{ base }

// Approve completes an approval, with the fields of its form, by name. A field that is
// not given has its default.
func (a *Approvals) Approve(ctx context.Context, job pawl.ID, step string, form map[string]any, c pawl.Change) (pawl.Receipt, error) {
	return a.engine.Approve(ctx, job, step, form, a.by(c))
}

// Reject fails an approval for good, with the reason of the change.
func (a *Approvals) Reject(ctx context.Context, job pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return a.engine.Reject(ctx, job, step, a.by(c))
}

// Signal sends a signal to a job: the step that has waited longest for the name takes
// it, or the next one that waits for it. nil data is null.
func (a *Approvals) Signal(ctx context.Context, job pawl.ID, name string, data json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return a.engine.Signal(ctx, job, name, data, a.by(c))
}
