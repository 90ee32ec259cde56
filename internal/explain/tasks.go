package explain

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// CountApprovals counts the steps of a workspace, or of all if it is empty, that wait for a
// decision: at most so many, and says whether there may be more.
func (r *Reader) CountApprovals(ctx context.Context, workspace string, most int) (n int, more bool, err error) {
	f := store.WaitFilter{Kind: string(workflow.KindApproval), Workspace: workspace, Limit: most + 1}
	keys, next, err := r.store.Waits(ctx, f, maxRows)
	return min(len(keys), most), len(keys) > most || next.Job != 0, err
}

// maxContext is how many bytes of outputs the context of an approval has.
const maxContext = 1 << 20

// A Context is what a person who decides an approval may want to know.
type Context struct {
	JobID  string          `json:"job_id"`
	StepID string          `json:"step_id"`
	Inputs json.RawMessage `json:"inputs" doc:"Those of the job."`
	Needs  []NeededStep    `json:"needs" doc:"The steps that it comes after."`
}

// A NeededStep is a step that another comes after.
type NeededStep struct {
	Step    string          `json:"step"`
	Status  machine.State   `json:"status"`
	Output  json.RawMessage `json:"output"`
	Omitted bool            `json:"omitted,omitempty" doc:"The output is left out: together they have more than 1 MiB."`
}

// Context returns what the step of an id comes after, with outputs.
func (r *Reader) Context(ctx context.Context, id pawl.ID) (*Context, error) {
	j, err := r.jobOf(ctx, id)
	if err != nil {
		return nil, err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	n := id.StepKey().Ord.Node()
	if n > len(def.Nodes) {
		return nil, store.NoStep(id)
	}
	c := &Context{JobID: j.ID.Public(pawl.JobPrefix), StepID: id.Public(pawl.StepPrefix), Inputs: orObject(j.Inputs), Needs: []NeededStep{}}
	size := 0
	for _, need := range def.Node(n).Needs {
		steps, err := r.store.StepsAt(ctx, []pawl.StepKey{{Job: j.Key(), Ord: pawl.MakeOrd(need, 0)}})
		if err != nil {
			return nil, err
		}
		for _, s := range steps {
			v := NeededStep{Step: def.Key(s.Ord), Status: s.State, Output: decide.OrNull(s.Output)}
			if size += len(s.Output); size > maxContext {
				v.Output, v.Omitted = decide.OrNull(nil), true
			}
			c.Needs = append(c.Needs, v)
		}
	}
	return c, nil
}

// StepLog returns a page of what one claim of a step has printed, beyond a place; an empty one is
// the end of what there is.
func (r *Reader) StepLog(ctx context.Context, step pawl.ID, claim int, after store.LogPlace) ([]pawl.Chunk, error) {
	k := step.StepKey()
	if after.Ord == 0 {
		after = store.LogPlace{Ord: k.Ord, Claim: claim}
	}
	page, err := r.store.Logs(ctx, k.Job, k.Ord, after, logPage)
	for i := range page {
		if page[i].Claim != claim {
			return page[:i], err
		}
	}
	return page, err
}

// What a step does in a job that continues another.
const (
	RunsAgain = "again" // it runs; of a fan-out, its complete instances are taken over unless it was named
	IsKept    = "kept"  // its result is taken over
	IsGiven   = "given" // its result is the one that was given
)

// A RetryPlan is what a retry would do.
type RetryPlan struct {
	Inputs json.RawMessage `json:"inputs" doc:"Those of the new job."`
	Steps  []RetriedStep   `json:"steps"`
}

// A RetriedStep is what a retry would do with a step.
type RetriedStep struct {
	Step string `json:"step"`
	Does string `json:"does" enum:"again,kept,given" doc:"again: it runs. kept: its result is taken over. given: its result is the one in results."`
	Fans bool   `json:"fans,omitempty" doc:"It is a fan-out: if it runs again without being named, its complete instances are taken over."`
}

// Processes returns the processes that use the database, as they have described themselves.
func (r *Reader) Processes(ctx context.Context) ([]*pawl.Node, error) { return r.store.Nodes(ctx) }
