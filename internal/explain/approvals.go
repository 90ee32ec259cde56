package explain

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Approvals lists the steps of a workspace, or of all if it is empty, that wait for a
// decision now: by job, the oldest first, and in the order of the workflow. after is the
// next of the page before, or empty; next is empty after the last page. A page looks at no
// more than maxRows of the steps that the engine owns, and ends once the bodies reach
// maxListBytes, so that it may be short, or empty, though there are more. A step whose job
// or definition cannot be read is left out.
func (r *Reader) Approvals(ctx context.Context, workspace, after string, most int) (approvals []pawl.ApprovalView, next string, err error) {
	if most, err = limit(most); err != nil {
		return nil, "", err
	}
	f := store.WaitFilter{Kind: string(workflow.KindApproval), Workspace: workspace, Limit: most + 1} // one shows whether there is another page
	if after != "" {
		id, err := pawl.ParseID(pawl.StepPrefix, after)
		if err != nil {
			return nil, "", err
		}
		f.After = id.StepKey()
	}
	keys, end, err := r.store.Waits(ctx, f, maxRows)
	if err != nil {
		return nil, "", err
	}
	if len(keys) > most {
		keys, end = keys[:most], keys[most-1]
	}
	steps, full, err := r.stepsAt(ctx, keys)
	if err != nil {
		return nil, "", err
	}
	if full != nil && full.StepKey != keys[len(keys)-1] {
		end = full.StepKey
	}
	if end.Job != 0 {
		next = pawl.MakeID(pawl.KeyTime(int64(end.Job)), uint32(end.Job), uint64(end.Ord)).Public(pawl.StepPrefix)
	}
	approvals, err = r.approvals(ctx, steps)
	return approvals, next, err
}

func (r *Reader) approvals(ctx context.Context, steps []*pawl.Step) ([]pawl.ApprovalView, error) {
	keys := make([]rowkey.Job, len(steps))
	for i, s := range steps {
		keys[i] = s.Job
	}
	jobs, err := r.bare(ctx, keys)
	if err != nil {
		return nil, err
	}
	views := make([]pawl.ApprovalView, 0, len(steps))
	for _, s := range steps {
		j := jobs[s.Job]
		if j == nil || s.State != lifecycle.StepInProgress { // decided meanwhile
			continue
		}
		def, err := r.defs.Get(ctx, j.Definition)
		if err != nil && !store.Unreadable(err) {
			return nil, err
		}
		var w pawl.Wait
		if err != nil || json.Unmarshal(s.Input, &w) != nil {
			continue
		}
		views = append(views, pawl.ApprovalView{JobID: j.ID.Public(pawl.JobPrefix), Workspace: j.Workspace, Workflow: j.Workflow,
			StepID: j.ID.Step(s.Ord).Public(pawl.StepPrefix), Key: def.Key(s.Ord), Prompt: w.Prompt, Form: decide.OrNull(w.Form),
			Since: pawl.Timestamp(s.StartedAt), DueAt: pawl.Timestamp(s.DueAt)})
	}
	return views, nil
}
