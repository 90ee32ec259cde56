package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/workflow"
)

// Job returns a job with its steps and its own history.
func (e *Engine) Job(ctx context.Context, id pawl.ID) (*pawl.JobView, error) {
	var v pawl.JobView
	a, err := e.get(ctx, &v, "get-job", jobPath(id))
	if err != nil {
		return nil, err
	}
	v.Sequence, _ = e.versionIn(a) // 0 if a proxy has removed the ETag
	return &v, nil
}

// read reads an operation that answers with a T.
func read[T any](ctx context.Context, e *Engine, operation, path string, query ...string) (*T, error) {
	var v T
	if _, err := e.get(ctx, &v, operation, path, query...); err != nil {
		return nil, err
	}
	return &v, nil
}

// StepPage is a page of the steps of a job.
func (e *Engine) StepPage(ctx context.Context, id pawl.ID, q pawl.StepQuery) ([]pawl.StepView, string, error) {
	c := call{operation: "list-steps", path: jobPath(id) + "/steps", query: values("status", list(q.Statuses), "key", q.Key, "node", q.Node, "fields", fields(q.Summary))}
	return onePage[pawl.StepView](ctx, e, c, q.After, q.Limit)
}

func fields(summary bool) string {
	if summary {
		return "summary"
	}
	return ""
}

// Step returns a step, its job and its workspace.
func (e *Engine) Step(ctx context.Context, id pawl.ID) (s *pawl.StepView, job pawl.ID, workspace string, err error) {
	v, err := read[struct {
		JobID     string `json:"job_id"`
		Workspace string `json:"workspace_id"`
		pawl.StepView
	}](ctx, e, "get-step", at("/api/steps/%s", id.Public(pawl.StepPrefix)))
	if err != nil {
		return nil, pawl.ID{}, "", err
	}
	job, err = pawl.ParseID(pawl.JobPrefix, v.JobID)
	return &v.StepView, job, v.Workspace, err
}

// StepHistory calls f with every move of a step.
func (e *Engine) StepHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	s, job, _, err := e.Step(ctx, id)
	if err != nil {
		return err
	}
	return e.moves(ctx, jobHistory(job, s.Key), f)
}

func jobHistory(id pawl.ID, step string) call {
	return call{operation: "list-job-history", path: jobPath(id) + "/history", query: values("step", step)}
}

// moves calls f with the rows of a history.
func (e *Engine) moves(ctx context.Context, c call, f func(pawl.Transition) error) error {
	return everyPage(ctx, e, c, func(t *pawl.Transition) error { return f(*t) })
}

// History calls f with every move of a job and its steps.
func (e *Engine) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return e.moves(ctx, jobHistory(id, ""), f)
}

// HistoryPage is a page of History.
func (e *Engine) HistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, jobHistory(id, q.Step), q.After, q.Limit)
}

// Past returns a job as it was at a moment.
func (e *Engine) Past(ctx context.Context, id pawl.ID, moment pawl.Moment) (*pawl.JobView, error) {
	seq := ""
	if moment.Sequence != 0 {
		seq = fmt.Sprint(moment.Sequence)
	}
	return read[pawl.JobView](ctx, e, "get-job", jobPath(id), "at", moment.Time.String(), "seq", seq)
}

// Why returns what a job, or one of its steps, waits for.
func (e *Engine) Why(ctx context.Context, id pawl.ID, step string) ([]pawl.Reason, error) {
	p, err := read[page[pawl.Reason]](ctx, e, "explain-job", jobPath(id)+"/why", "step", step)
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// Stuck returns the jobs that have not moved, at most 100.
func (e *Engine) Stuck(ctx context.Context, q pawl.JobQuery, still time.Duration) ([]pawl.StuckJob, error) {
	query := values("workspace_id", q.Workspace, "for", max(still, q.Stuck).String(), "status", list(q.Statuses), "workflow", q.Workflow)
	if q.Limit > 0 {
		query.Set("limit", fmt.Sprint(min(q.Limit, maxPage)))
	}
	selecting(query, &q)
	if q.Stuck != 0 {
		query.Set("attention", "true")
	}
	if q.Depth != nil || q.Parent != "" || q.Continues != "" || q.CreatedAfter != 0 || q.CreatedBefore != 0 || q.Before != "" || q.TimedOut || q.Schedule != "" || q.Text != "" || q.Summary {
		return nil, unsupported("a list of stuck jobs by more than workspace, states, workflow and metadata", "leave the others out")
	}
	var p page[pawl.StuckJob]
	if _, err := e.do(ctx, &call{operation: "list-stuck", method: http.MethodGet, path: "/api/stuck", query: query}, &p); err != nil {
		return nil, err
	}
	return p.Items, nil
}

func logs(id pawl.ID, q pawl.LogQuery) call {
	return call{operation: "list-job-logs", path: jobPath(id) + "/logs", query: values("step", q.Step, "stream", q.Stream)}
}

// Logs calls f with what steps have printed.
func (e *Engine) Logs(ctx context.Context, id pawl.ID, step string, f func(pawl.LogLine) error) error {
	return everyPage(ctx, e, logs(id, pawl.LogQuery{Step: step}), func(l *pawl.LogLine) error { return f(*l) })
}

// LogPage is a page of Logs.
func (e *Engine) LogPage(ctx context.Context, id pawl.ID, q pawl.LogQuery) ([]pawl.LogLine, string, error) {
	return onePage[pawl.LogLine](ctx, e, logs(id, q), q.After, q.Limit)
}

// Definition returns the workflow that a job runs.
func (e *Engine) Definition(ctx context.Context, id pawl.ID) (*workflow.Definition, error) {
	raw, err := read[json.RawMessage](ctx, e, "get-job-definition", jobPath(id)+"/definition")
	if err != nil {
		return nil, err
	}
	return workflow.Load(*raw)
}

// Counts counts workers, jobs and steps by state.
func (e *Engine) Counts(ctx context.Context, workspace string) (*pawl.Counts, error) {
	return read[pawl.Counts](ctx, e, "get-counts", "/api/supervisor/metrics", "workspace_id", workspace)
}

// JobVersion returns a number that rises with every move of a job and of its steps.
func (e *Engine) JobVersion(ctx context.Context, id pawl.ID) (int64, error) {
	a, err := e.get(ctx, nil, "get-job", jobPath(id))
	if err != nil {
		return 0, err
	}
	return e.versionIn(a)
}

// versionIn returns the version of a job that was read. A proxy that compresses makes an ETag weak.
func (e *Engine) versionIn(a *answer) (int64, error) {
	text, err := strconv.Unquote(strings.TrimPrefix(a.etag, "W/"))
	if err != nil {
		return 0, pawl.Errorf(pawl.Internal, "the server at %s has returned a job with the ETag %q", e.base, a.etag)
	}
	return strconv.ParseInt(text, 10, 64)
}

// Approvals is a page of the steps that wait for a decision.
func (e *Engine) Approvals(ctx context.Context, workspace, after string, limit int) ([]pawl.ApprovalView, string, error) {
	c := call{operation: "list-approvals", path: "/api/approvals", query: values("workspace_id", workspace)}
	return onePage[pawl.ApprovalView](ctx, e, c, after, limit)
}

// prospect is a pawl.Prospect as the API shows it.
type prospect struct {
	Kind   string `json:"kind"`
	Goes   int64  `json:"goes"`
	Open   int64  `json:"open"`
	Needed int64  `json:"needed"`
	Beside int64  `json:"beside"`
}

// Prospects returns what a retention would remove.
func (e *Engine) Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error) {
	p, err := read[page[prospect]](ctx, e, "list-prospects", "/api/retention/prospects", "older_than", age.String())
	if err != nil {
		return nil, err
	}
	all := make([]pawl.Prospect, len(p.Items))
	for i, v := range p.Items {
		all[i] = pawl.Prospect(v)
	}
	return all, nil
}

// Findings returns what the server finds wrong with its database, as "pawl doctor" does.
func (e *Engine) Findings(ctx context.Context) ([]health.Finding, error) {
	p, err := read[page[health.Finding]](ctx, e, "diagnose", "/api/doctor")
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// RedactJob withholds the payload of a job, or of one of its steps.
func (e *Engine) RedactJob(ctx context.Context, id pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (r pawl.Redaction, err error) {
	_, err = e.do(ctx, command("redact-job", jobPath(id)+"/redact", c, struct {
		note
		Step string `json:"step,omitempty"`
	}{note{c.Reason}, step}), &r)
	if err == nil && each != nil {
		each(r)
	}
	return r, err
}

// inWorkspace returns the parameter for a workspace.
func inWorkspace(workspace string) url.Values { return values("workspace_id", orDefault(workspace)) }
