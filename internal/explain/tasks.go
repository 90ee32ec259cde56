package explain

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

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

// EntityPage lists the moves of an entity by its public id, oldest first: those of an actor, and
// of a span of time, unless these are empty. It looks at no more than pageLook of them. workspace
// is that of the entity; a token has none.
func (r *Reader) EntityPage(ctx context.Context, entity string, q AuditQuery) (rows []pawl.Transition, next, workspace string, err error) {
	k, workspace, err := r.entityOf(ctx, entity)
	if err != nil {
		return nil, "", "", err
	}
	most, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", "", err
	}
	h := pawl.HistoryQuery{After: q.After, Limit: maxPage}
	for looked := 0; looked < pageLook; looked += maxPage {
		page, behind, err := r.movesPage(ctx, k, h)
		if err != nil {
			return nil, "", "", err
		}
		for i := range page {
			if len(rows) == most {
				return rows, h.After, workspace, nil
			}
			if q.admits(&page[i]) {
				rows = append(rows, page[i])
			}
			h.After = strconv.FormatInt(page[i].Sequence, 10)
		}
		if next = behind; next == "" {
			break
		}
	}
	return rows, next, workspace, nil
}

// An AuditQuery selects moves of one entity.
type AuditQuery struct {
	Actor    string
	From, To pawl.Timestamp
	After    string
	Limit    int
}

func (q *AuditQuery) admits(t *pawl.Transition) bool {
	return (q.Actor == "" || q.Actor == t.Actor) && t.At >= q.From && (q.To == 0 || t.At < q.To)
}

// entityOf returns the key and the workspace of an entity.
func (r *Reader) entityOf(ctx context.Context, entity string) (k store.EntityKey, workspace string, err error) {
	prefix := entity[:strings.Index(entity, "_")+1]
	id, err := pawl.ParseID(prefix, entity)
	if err != nil {
		return k, "", err
	}
	none := pawl.Errorf(pawl.NotFound, "there is no %.100q", entity)
	switch prefix {
	case pawl.JobPrefix:
		j, err := store.FindJob(ctx, r.store, id)
		if err != nil {
			return k, "", err
		}
		return store.JobEntity(j.Key()), j.Workspace, nil
	case pawl.StepPrefix:
		j, err := r.jobOf(ctx, id)
		if err != nil {
			return k, "", err
		}
		return store.StepEntity(id.StepKey()), j.Workspace, nil
	case pawl.WorkerPrefix:
		w, err := store.FindWorker(ctx, r.store, id)
		if err != nil {
			return k, "", err
		}
		return store.WorkerEntity(id.WorkerKey()), w.Workspace, nil
	case pawl.SchedulePrefix:
		s, err := r.store.Schedule(ctx, id.ScheduleKey())
		if errors.Is(err, store.ErrNotFound) || err == nil && s.ID != id {
			err = none
		}
		if err != nil {
			return k, "", err
		}
		return store.ScheduleEntity(id.ScheduleKey()), s.Workspace, nil
	case pawl.TokenPrefix:
		if _, err := store.FindToken(ctx, r.store, id); err != nil {
			return k, "", err
		}
		return store.TokenEntity(id.TokenKey()), "", nil
	}
	return k, "", none
}

// Processes returns the processes that use the database, as they have described themselves.
func (r *Reader) Processes(ctx context.Context) ([]*pawl.Node, error) { return r.store.Nodes(ctx) }
