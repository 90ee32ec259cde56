package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) stepOperations() []operation {
	const tag = "steps"
	return []operation{
		{id: "list-steps", method: get, path: "/api/jobs/{id}/steps", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List the steps of a job", detail: "Lists steps in the order of the file, and instances of a fan-out in that of its items. With at or seq it lists them as they were.", add: does(s, s.listSteps)},
		{id: "get-step", method: get, path: "/api/steps/{id}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a step", detail: "Reads a step with its output and error.", add: does(s, s.getStep)},
		{id: "list-attempts", method: get, path: "/api/steps/{id}/attempts", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List the attempts of a step", detail: "Lists the last 100 claims of a step, oldest first: who had it, when, and how it ended.", add: does(s, s.listAttempts)},
		{id: "retry-step", method: post, path: "/api/steps/{id}/retry", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Retry a step now", detail: "Lets the next attempt of a step that waits for its backoff begin now.", add: does(s, s.stepVerb((*client.Steps).Retry))},
		{id: "skip-step", method: post, path: "/api/steps/{id}/skip", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Skip a step", detail: "Ends a step as skipped, with the consequences of a false condition.", add: does(s, s.stepVerb((*client.Steps).Skip))},
		{id: "resolve-step", method: post, path: "/api/steps/{id}/resolve", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resolve a step by hand", detail: "Ends a failed step with an output that was made by hand. What depends on it continues.", add: does(s, s.resolveStep)},
		{id: "approve-step", method: post, path: "/api/steps/{id}/approve", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Approve", detail: "Completes an approval, with the fields of its form. A field that is not given has its default.", add: does(s, s.approveStep)},
		{id: "reject-step", method: post, path: "/api/steps/{id}/reject", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Reject an approval", detail: "Fails an approval for good.", add: does(s, s.stepVerb(func(_ *client.Steps, ctx context.Context, job pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
				return s.Engine.Reject(ctx, job, step, c)
			}))},
		{id: "list-approvals", method: get, path: "/api/approvals", role: Viewer, tag: tag,
			summary: "List the approvals that wait", detail: "Lists the steps that wait for a person.", add: does(s, s.listApprovals)},
	}
}

func (s *Service) listSteps(ctx context.Context, in *struct {
	JobPath
	Window
	Status []string `query:"status" enum:"pending,enqueued,in_progress,complete,retryable_error,permanent_error,cancelled,skipped,resolved_manually" doc:"Only in these states, separated by commas."`
	Node   string   `query:"node" maxLength:"128" doc:"Only of this step of the file: itself, and its instances."`
	Key    string   `query:"key" maxLength:"256" doc:"Only the step with this key, such as load or load[3]."`
	AtMoment
	Fields
}) (*body[page[pawl.StepView]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	at, err := in.moment()
	if err != nil {
		return nil, err
	}
	filter := []any{"steps", in.ID, in.Status, in.Node, in.Key, at, in.Fields}
	q := pawl.StepQuery{Key: in.Key, Node: in.Node, Summary: in.summary()}
	for _, state := range in.Status {
		q.Statuses = append(q.Statuses, machine.State(state))
	}
	return placedPage(in.Window, filter, func(after string, limit int) ([]pawl.StepView, string, error) {
		q.After, q.Limit = after, limit
		if at != (pawl.Moment{}) {
			return s.Engine.PastSteps(ctx, id, at, q)
		}
		return s.Engine.StepPage(ctx, id, q)
	})
}

// A jobStep is a step and the job that it belongs to.
type jobStep struct {
	JobID     string `json:"job_id"`
	Workspace string `json:"workspace_id"`
	pawl.StepView
}

// step returns the step that a path names, and its job.
func (s *Service) step(ctx context.Context, p StepPath) (pawl.ID, *jobStep, error) {
	id, err := parseID(pawl.StepPrefix, p.ID, "step")
	if err != nil {
		return id, nil, err
	}
	v, job, workspace, err := s.Engine.Step(ctx, id)
	if err != nil {
		return id, nil, err
	}
	return job, &jobStep{job.Public(pawl.JobPrefix), workspace, *v}, nil
}

func (s *Service) getStep(ctx context.Context, in *struct{ StepPath }) (*body[jobStep], error) {
	_, v, err := s.step(ctx, in.StepPath)
	if err != nil {
		return nil, err
	}
	return &body[jobStep]{*v}, nil
}

// stepVerb makes an operation of a verb of steps that has no arguments.
func (s *Service) stepVerb(verb func(*client.Steps, context.Context, pawl.ID, string, pawl.Change) (pawl.Receipt, error)) func(context.Context, *struct {
	StepPath
	Command
}) (*receipt, error) {
	return func(ctx context.Context, in *struct {
		StepPath
		Command
	}) (*receipt, error) {
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		job, v, err := s.step(ctx, in.StepPath)
		if err != nil {
			return nil, err
		}
		return receiptOf(verb(s.client(ctx, "").Steps, ctx, job, v.Key, c))
	}
}

func (s *Service) resolveStep(ctx context.Context, in *struct {
	StepPath
	Key
	Body struct {
		Note
		Output json.RawMessage `json:"output" doc:"The output of the step."`
	}
}) (*receipt, error) {
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	job, v, err := s.step(ctx, in.StepPath)
	if err != nil {
		return nil, err
	}
	return receiptOf(s.Engine.ResolveStep(ctx, job, v.Key, in.Body.Output, c))
}

func (s *Service) approveStep(ctx context.Context, in *struct {
	StepPath
	Key
	Body *struct {
		Note
		Form map[string]any `json:"form,omitempty" doc:"The fields of the form, by name."`
	} `required:"false"`
}) (*receipt, error) {
	b := given(in.Body)
	c, err := in.change(ctx, b.Note)
	if err != nil {
		return nil, err
	}
	job, v, err := s.step(ctx, in.StepPath)
	if err != nil {
		return nil, err
	}
	return receiptOf(s.Engine.Approve(ctx, job, v.Key, b.Form, c))
}

func (s *Service) listApprovals(ctx context.Context, in *struct {
	OfWorkspace
	Window
}) (*body[page[pawl.ApprovalView]], error) {
	return placedPage(in.Window, []any{"approvals", in.Workspace}, func(after string, limit int) ([]pawl.ApprovalView, string, error) {
		return s.Engine.Approvals(ctx, in.Workspace, after, limit)
	})
}

// attempts are the claims of a step.
type attempts struct {
	Items   []explain.Attempt `json:"items"`
	Omitted int               `json:"omitted,omitempty" doc:"How many earlier ones are left out."`
}

func (s *Service) listAttempts(ctx context.Context, in *struct{ StepPath }) (*body[attempts], error) {
	id, err := parseID(pawl.StepPrefix, in.ID, "step")
	if err != nil {
		return nil, err
	}
	all, omitted, err := s.Engine.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[attempts]{attempts{all, omitted}}, nil
}
