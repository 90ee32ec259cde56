package remote

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
)

// stepPath returns the path of the step of a job with a key.
func (e *Engine) stepPath(ctx context.Context, job pawl.ID, key string) (string, error) {
	id := ""
	c := call{operation: "list-steps", path: jobPath(job) + "/steps", query: values("key", key)}
	err := everyPage(ctx, e, c, func(s *pawl.StepView) error {
		id = s.ID
		return errEnough
	})
	switch {
	case enough(err) != nil:
		return "", err
	case key == "" || id == "":
		return "", pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", job.Public(pawl.JobPrefix), key)
	}
	return at("/api/steps/%s", id), nil
}

// onStep sends a command to the step of a job.
func (e *Engine) onStep(ctx context.Context, job pawl.ID, key, operation, verb string, c pawl.Change, body any) (pawl.Receipt, error) {
	path, err := e.stepPath(ctx, job, key)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.receipt(ctx, command(operation, path+verb, c, body))
}

// RetryStep lets the next attempt of a step begin now.
func (e *Engine) RetryStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.onStep(ctx, id, step, "retry-step", "/retry", c, note{c.Reason})
}

// SkipStep ends a step as skipped.
func (e *Engine) SkipStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.onStep(ctx, id, step, "skip-step", "/skip", c, note{c.Reason})
}

// ResolveStep ends a failed step with an output.
func (e *Engine) ResolveStep(ctx context.Context, id pawl.ID, step string, output json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return e.onStep(ctx, id, step, "resolve-step", "/resolve", c, struct {
		note
		Output json.RawMessage `json:"output"`
	}{note{c.Reason}, output})
}

// Approve completes an approval.
func (e *Engine) Approve(ctx context.Context, id pawl.ID, step string, form map[string]any, c pawl.Change) (pawl.Receipt, error) {
	return e.onStep(ctx, id, step, "approve-step", "/approve", c, struct {
		note
		Form map[string]any `json:"form,omitempty"`
	}{note{c.Reason}, form})
}

// Reject fails an approval for good.
func (e *Engine) Reject(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.onStep(ctx, id, step, "reject-step", "/reject", c, note{c.Reason})
}
