package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// submissionOf returns the body for a submission.
func submissionOf(s *pawl.Submission) (*exchange.Submission, error) {
	switch {
	case s.Private:
		return nil, unsupported("a job that only the submitting process runs", "submit it for the workers of the server")
	case s.Dir != "":
		return nil, unsupported("a job whose commands start in a folder of this machine", "let the worker make a folder, or set dir in the workflow to one of the worker's")
	}
	out := &exchange.Submission{Workspace: s.Workspace, Inputs: s.Inputs, Description: s.Description, Priority: s.Priority, Depth: s.Depth, WorkerCount: s.WorkerCount, Metadata: s.Metadata, Traceparent: s.Traceparent}
	if s.Parent != (pawl.ID{}) {
		out.Parent = s.Parent.Public(pawl.JobPrefix)
	}
	if s.Version == 0 {
		out.Definition = s.Definition
		return out, nil
	}
	var head struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(s.Definition, &head); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the definition is not JSON", Err: err}
	}
	out.Workflow = fmt.Sprintf("%s@%d", head.Name, s.Version)
	return out, nil
}

// Limits of one request of submissions.
const (
	maxBatch      = exchange.MaxBatch
	maxBatchBytes = 4 << 20 // of their texts, unless it is a single one
)

// Submit submits jobs, many in one request. If a request fails behind others, its error is the outcome of
// its jobs and of those behind them.
func (e *Engine) Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	done := make([]pawl.Submitted, len(subs))
	for begin := 0; begin < len(subs); {
		n := batch(subs[begin:])
		var err error
		if part := subs[begin : begin+n]; n == 1 {
			err = e.submitOne(ctx, &part[0], &done[begin])
		} else {
			err = e.submitAll(ctx, part, done[begin:begin+n])
		}
		switch {
		case err != nil && begin == 0:
			return nil, err
		case err != nil:
			fail(done[begin:], err)
			return done, nil
		}
		begin += n
	}
	return done, nil
}

// fail makes err the outcome of submissions that have none.
func fail(done []pawl.Submitted, err error) {
	for i := range done {
		if done[i].Err == nil {
			done[i] = pawl.Submitted{Err: err}
		}
	}
}

// batch returns how many submissions go into one request, which has one actor.
func batch(subs []pawl.Submission) int {
	size := 0
	for i := range subs {
		s := &subs[i]
		size += len(s.Definition) + len(s.Inputs) + len(s.Metadata) + len(s.Description)
		if i > 0 && (i == maxBatch || size > maxBatchBytes || s.Actor != subs[0].Actor) {
			return i
		}
	}
	return len(subs)
}

// submitOne submits one job. The error is one that says nothing about the job.
func (e *Engine) submitOne(ctx context.Context, sub *pawl.Submission, done *pawl.Submitted) error {
	body, err := submissionOf(sub)
	if err == nil {
		var r pawl.Receipt
		if r, err = e.receipt(ctx, command("submit-job", "/api/jobs", pawl.Change{Actor: sub.Actor, RequestID: sub.RequestID}, body)); err == nil {
			return submitted(r, done)
		}
	}
	if k := pawl.KindOf(err); k == pawl.Unavailable || k == pawl.Internal {
		return err
	}
	done.Err = err
	return nil
}

func submitted(r pawl.Receipt, done *pawl.Submitted) (err error) {
	done.Receipt, done.Replayed = r, r.Replayed
	done.ID, err = pawl.ParseID(pawl.JobPrefix, r.ID)
	return err
}

// submitAll submits jobs in one request. If they are of one workspace, the request has a key of its own;
// otherwise each job has one, since a key belongs to a workspace.
func (e *Engine) submitAll(ctx context.Context, subs []pawl.Submission, done []pawl.Submitted) error {
	bodies, places := make([]exchange.Submission, 0, len(subs)), make([]int, 0, len(subs))
	for i := range subs {
		b, err := submissionOf(&subs[i])
		if err != nil {
			done[i].Err = err
			continue
		}
		b.RequestID = subs[i].RequestID
		bodies, places = append(bodies, *b), append(places, i)
	}
	if len(bodies) == 0 {
		return nil
	}
	c := command("submit-jobs", "/api/jobs/batch", pawl.Change{Actor: subs[0].Actor}, &exchange.Batch{Jobs: bodies})
	if slices.ContainsFunc(bodies, func(b exchange.Submission) bool { return b.Workspace != bodies[0].Workspace }) {
		c.key = ""
		for i := range bodies {
			bodies[i].RequestID = cmp.Or(bodies[i].RequestID, newKey())
		}
	}
	var out exchange.Outcomes
	switch _, err := e.do(ctx, c, &out); {
	case err != nil && pawl.KindOf(err) == pawl.NotFound: // the workspace
		for _, at := range places {
			done[at].Err = err
		}
		return nil
	case err != nil:
		return err
	}
	if len(out.Items) != len(bodies) {
		return pawl.Errorf(pawl.Internal, "the server at %s has returned %d submissions of %d", e.base, len(out.Items), len(bodies))
	}
	for i := range out.Items {
		e.outcome(c, &out.Items[i], &done[places[i]])
	}
	return nil
}

// outcome takes over what became of one submission of a batch.
func (e *Engine) outcome(c *call, item *exchange.Outcome, done *pawl.Submitted) {
	var p problem
	if item.Receipt != nil {
		done.Err = submitted(*item.Receipt, done)
	} else if err := json.Unmarshal(item.Problem, &p); err != nil {
		done.Err = &pawl.Error{Kind: pawl.Internal, Message: "the response of the server at " + e.base + " has neither a receipt nor a problem for a submission", Err: err}
	} else {
		done.Err = e.of(c, &p)
	}
}

// SubmitTx returns an error: a server is in no transaction of its callers.
func (e *Engine) SubmitTx(context.Context, any, ...pawl.Submission) ([]pawl.Submitted, error) {
	return nil, unsupported("a submission in a transaction of the caller", "open the database with local.Open, or use Submit with a request id after the commit")
}

// Hint does nothing: what a server has committed it knows.
func (e *Engine) Hint() {}

// watchPause is the least time between two calls of the function of Watch.
const watchPause = 50 * time.Millisecond

// Watch calls f at once and then whenever the job has changed.
func (e *Engine) Watch(ctx context.Context, id pawl.ID, f func() (more bool, err error)) error {
	path := jobPath(id)
	a, err := e.get(ctx, nil, "get-job", path)
	for err == nil {
		var more bool
		if more, err = f(); err != nil || !more {
			return err
		}
		if !wait(ctx, watchPause) {
			return ctx.Err()
		}
		a, err = e.change(ctx, path, a.etag)
	}
	return err
}

// change returns the answer to a read of a job once it is not what the ETag names.
func (e *Engine) change(ctx context.Context, path, etag string) (*answer, error) {
	for {
		a, err := e.do(ctx, &call{operation: "get-job", method: http.MethodGet, path: path, query: values("wait", "changed"), match: etag, patient: true}, nil)
		if err != nil || a.status != http.StatusNotModified {
			return a, err
		}
	}
}

// Wait returns the job once it has ended, as much as the API shows of it.
func (e *Engine) Wait(ctx context.Context, id pawl.ID) (*pawl.Job, error) {
	for {
		var v pawl.JobView
		c := &call{operation: "get-job", method: http.MethodGet, path: jobPath(id), query: values("wait", "ended"), patient: true}
		if _, err := e.do(ctx, c, &v); err != nil {
			return nil, err
		}
		if lifecycle.Job.Ended(v.Status) || v.CompletedAt != 0 { // in a state of a later version
			return jobOf(&v)
		}
	}
}

// jobOf returns what a view shows of a job.
func jobOf(v *pawl.JobView) (*pawl.Job, error) {
	id, err := pawl.ParseID(pawl.JobPrefix, v.ID)
	if err != nil {
		return nil, err
	}
	j := &pawl.Job{ID: id, Workspace: v.Workspace, Workflow: v.Workflow, Description: v.Description, Version: v.Version, Depth: v.Depth,
		WorkerCount: v.WorkerCount, Paused: v.Paused, Ending: v.Ending, StartedAt: int64(v.StartedAt), CompletedAt: int64(v.CompletedAt),
		Inputs: v.Inputs, Output: v.Output, Error: v.Error, Metadata: v.Metadata}
	j.State, j.CreatedAt, j.UpdatedAt = v.Status, int64(v.CreatedAt), int64(v.UpdatedAt)
	if j.Parent, err = keyOf(v.ParentJobID); err != nil {
		return nil, err
	}
	j.Continues, err = keyOf(v.Continues)
	return j, err
}

// keyOf returns the key of a job by its id, or 0.
func keyOf(id *string) (rowkey.Job, error) {
	if id == nil {
		return 0, nil
	}
	of, err := pawl.ParseID(pawl.JobPrefix, *id)
	if err != nil {
		return 0, err
	}
	return of.JobKey(), nil
}

func jobPath(id pawl.ID) string { return at("/api/jobs/%s", id.Public(pawl.JobPrefix)) }

// Cancel requests the end of a job.
func (e *Engine) Cancel(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command("cancel-job", jobPath(id)+"/cancel", c, note{c.Reason}))
}

// PauseJob keeps a job from beginning further steps.
func (e *Engine) PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command("pause-job", jobPath(id)+"/pause", c, note{c.Reason}))
}

// ResumeJob ends a pause.
func (e *Engine) ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command("resume-job", jobPath(id)+"/resume", c, note{c.Reason}))
}

// RetryJob makes a job that continues one that has ended.
func (e *Engine) RetryJob(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.Receipt, error) {
	if r.Private {
		return pawl.Receipt{}, unsupported("a job that only the submitting process runs", "continue it on the machine of the database, with: pawl job retry")
	}
	return e.receipt(ctx, command("retry-job", jobPath(id)+"/retry", c, struct {
		note
		From    []string                   `json:"from_step,omitempty"`
		Inputs  map[string]any             `json:"inputs,omitempty"`
		Results map[string]json.RawMessage `json:"results,omitempty"`
	}{note{c.Reason}, r.From, r.Set, r.Resolve}))
}

// MoveJob moves an unfinished job to another version of its workflow.
func (e *Engine) MoveJob(ctx context.Context, id pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error) {
	var m workflow.Moved
	_, err := e.do(ctx, command("move-job", jobPath(id)+"/move", c, struct {
		note
		Version int  `json:"version"`
		DryRun  bool `json:"dry_run,omitempty"`
	}{note{c.Reason}, version, dryRun}), &m)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// Signal sends a signal to a job.
func (e *Engine) Signal(ctx context.Context, id pawl.ID, name string, data json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command("signal-job", jobPath(id)+"/signals", c, struct {
		note
		Name string          `json:"name"`
		Data json.RawMessage `json:"data,omitempty"`
	}{note{c.Reason}, name, data}))
}

// selecting adds the members of metadata that a query selects by.
func selecting(to url.Values, q *pawl.JobQuery) {
	for _, key := range slices.Sorted(maps.Keys(q.Metadata)) {
		to.Add("metadata", key+"="+q.Metadata[key])
	}
}

// jobList returns the call of a list of jobs, and the cursor at which it begins.
func jobList(q *pawl.JobQuery) (c call, cursor string) {
	c = call{operation: "list-jobs", path: "/api/jobs", query: values("workspace_id", q.Workspace, "status", list(q.Statuses), "workflow", q.Workflow,
		"parent_job_id", q.Parent, "continues", q.Continues, "created_after", q.CreatedAfter.String(), "created_before", q.CreatedBefore.String(),
		"schedule", q.Schedule, "q", q.Text, "fields", fields(q.Summary))}
	selecting(c.query, q)
	if q.Stuck != 0 {
		c.query.Set("stuck", q.Stuck.String())
	}
	if q.Depth != nil {
		c.query.Set("depth", fmt.Sprint(*q.Depth))
	}
	if q.TimedOut {
		c.query.Set("timed_out", "true")
	}
	if _, err := pawl.ParseID(pawl.JobPrefix, q.Before); err != nil {
		return c, q.Before
	}
	c.query.Set("before", q.Before)
	return c, ""
}

// Jobs lists jobs, newest first.
func (e *Engine) Jobs(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error) {
	c, cursor := jobList(&q)
	if cursor != "" {
		return nil, pawl.Errorf(pawl.Invalid, "before: %q: want the id of a job", cursor)
	}
	return upTo[pawl.JobView](ctx, e, c, q.Limit)
}

// JobPage is a page of Jobs.
func (e *Engine) JobPage(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, string, error) {
	c, cursor := jobList(&q)
	return onePage[pawl.JobView](ctx, e, c, cursor, q.Limit)
}

// RecentJobs calls f with the newest jobs of a workspace until f returns false.
func (e *Engine) RecentJobs(ctx context.Context, workspace string, limit int, f func(*pawl.Job) (more bool)) error {
	if limit <= 0 {
		return nil
	}
	c, _ := jobList(&pawl.JobQuery{Workspace: workspace})
	n := 0
	err := everyPage(ctx, e, c, func(v *pawl.JobView) error {
		j, err := jobOf(v)
		if err != nil {
			return err
		}
		j.Inputs, j.Output, j.Metadata = nil, nil, nil
		if n++; !f(j) || n == limit {
			return errEnough
		}
		return nil
	})
	return enough(err)
}

// list returns names, separated by commas.
func list[S ~string](names []S) string {
	out := ""
	for i, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if i > 0 {
			out += ","
		}
		out += string(n)
	}
	return out
}
