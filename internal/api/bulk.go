package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/machine"
)

// Bounds of a bulk request.
const (
	maxBulk   = 2000 // jobs
	bulkAtOne = 16   // are changed at once
)

func (s *Service) bulkOperations() []operation {
	return []operation{
		{id: "change-jobs", method: post, path: "/api/bulk/{verb}", role: Operator, repeat: replayedEach, errors: []Slug{SlugNotFound, SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: "jobs",
			summary: "Cancel, pause, resume or retry many jobs", detail: "Changes the jobs with these ids, or those that a filter selects, newest first: 2,000 at most. A filter looks at 20,000 jobs at most, and, while it finds none, at 1,000,000. If more is true there may be others, even if the count is 0, which is not the end: send next as cursor, with another request_id. Each has an item of its own. With expect it is 409, and nothing is changed, unless that many are selected. With dry_run it counts, and changes nothing. With a request_id the selection is stored first, and the verb of each job has a key of its own: a repeated request changes the same jobs, and none of them twice.", add: does(s, s.changeJobs)},
	}
}

// bulkVerbs are the verbs by the last word of the path.
var bulkVerbs = map[string]func(*access.Engine, context.Context, pawl.ID, pawl.Change) (pawl.Receipt, error){
	"cancel": (*access.Engine).Cancel,
	"pause":  (*access.Engine).PauseJob,
	"resume": (*access.Engine).ResumeJob,
	"retry": func(e *access.Engine, ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
		return e.RetryJob(ctx, id, pawl.Retry{}, c)
	},
}

// A JobFilter selects jobs, as the parameters of list-jobs do.
type JobFilter struct {
	Status        []string          `json:"status,omitempty" enum:"SUBMITTED,PENDING,RUNNING,COMPLETED,FAILED,CANCELED" maxItems:"6"`
	Workflow      string            `json:"workflow,omitempty" maxLength:"128"`
	Parent        string            `json:"parent_job_id,omitempty" maxLength:"64"`
	Schedule      string            `json:"schedule,omitempty" maxLength:"128"`
	Text          string            `json:"q,omitempty" maxLength:"256"`
	Metadata      map[string]string `json:"metadata,omitempty" doc:"At most 8 members that the metadata of a job has to have."`
	CreatedAfter  time.Time         `json:"created_after,omitzero"`
	CreatedBefore time.Time         `json:"created_before,omitzero"`
}

func (f *JobFilter) query(workspace string) pawl.JobQuery {
	q := pawl.JobQuery{Workspace: workspace, Workflow: f.Workflow, Parent: f.Parent, Schedule: f.Schedule, Text: f.Text, Metadata: f.Metadata, CreatedAfter: stamp(f.CreatedAfter), CreatedBefore: stamp(f.CreatedBefore)}
	for _, state := range f.Status {
		q.Statuses = append(q.Statuses, machine.State(state))
	}
	return q
}

// BulkInput is the body of change-jobs.
type BulkInput struct {
	RequestID string     `json:"request_id,omitempty" maxLength:"255" doc:"The request's key: 1 to 255 visible ASCII characters."`
	Reason    string     `json:"reason,omitempty" maxLength:"4096" doc:"Why, for the audit trail."`
	Workspace string     `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace of the filter and of the request_id. Default: default."`
	Jobs      []string   `json:"jobs,omitempty" maxItems:"2000" doc:"The ids of jobs."`
	Filter    *JobFilter `json:"filter,omitempty" doc:"Which jobs, in place of ids."`
	Cursor    string     `json:"cursor,omitempty" maxLength:"512" doc:"The next of a response to the same filter: only jobs behind it."`
	Expect    *int       `json:"expect,omitempty" minimum:"0" maximum:"2000" doc:"How many jobs have to be selected: the count of a dry run."`
	DryRun    bool       `json:"dry_run,omitempty" doc:"Change nothing."`
}

// A bulk is the response to a bulk change.
type bulk struct {
	Count  int                   `json:"count" doc:"How many jobs are selected."`
	More   bool                  `json:"more" doc:"The filter may select further jobs."`
	Next   string                `json:"next,omitempty" doc:"The cursor of the jobs behind these. Absent: there are none."`
	States map[machine.State]int `json:"states" doc:"How many of them were in which state. Only of a filter."`
	Items  []bulkItem            `json:"items" doc:"What became of each. Of a dry run there are none."`
}

type bulkItem struct {
	ID      string        `json:"id"`
	Receipt *pawl.Receipt `json:"receipt,omitempty"`
	Problem *Problem      `json:"problem,omitempty"`
}

// A selection is what a bulk request changes, as it is stored under its key.
type selection struct {
	Jobs   []string              `json:"jobs"`             // without the prefix
	Behind string                `json:"behind,omitempty"` // where the jobs begin that it does not have
	More   bool                  `json:"more,omitempty"`   // of one that an older version has stored: there are others
	States map[machine.State]int `json:"states,omitempty"`
}

func (s *Service) changeJobs(ctx context.Context, in *struct {
	Key
	Verb string `path:"verb" doc:"cancel, pause, resume or retry." example:"cancel"`
	Body BulkInput
}) (*body[bulk], error) {
	b := &in.Body
	verb := bulkVerbs[in.Verb]
	if verb == nil {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no verb %.100q for many jobs: want one of %v", in.Verb, slices.Sorted(maps.Keys(bulkVerbs)))}
	}
	switch {
	case (len(b.Jobs) > 0) == (b.Filter != nil):
		return nil, pawl.Errorf(pawl.Invalid, "jobs: want one of jobs and filter")
	case b.Cursor != "" && b.Filter == nil:
		return nil, pawl.Errorf(pawl.Invalid, "cursor: want none with jobs: it is of a filter")
	}
	c, err := in.change(ctx, Note{Reason: b.Reason, RequestID: b.RequestID})
	if err != nil {
		return nil, err
	}
	after, err := b.after()
	if err != nil {
		return nil, err
	}
	sel, err := s.selection(ctx, in.Verb, b, after, c)
	if err != nil {
		return nil, err
	}
	out := bulk{Count: len(sel.Jobs), More: sel.More || sel.Behind != "", Next: nextOf(sel.Behind, b.selector()...), States: sel.States, Items: []bulkItem{}}
	if out.States == nil {
		out.States = map[machine.State]int{}
	}
	if !b.DryRun {
		out.Items = s.changeEach(ctx, in.Verb, sel, c)
	}
	return &body[bulk]{out}, nil
}

// selector is what the cursor of a request belongs to.
func (b *BulkInput) selector() []any {
	filter, _ := json.Marshal(b.Filter)
	return []any{"bulk", b.Workspace, string(filter)}
}

// after returns the place at which the jobs of a filter begin; empty: at the newest.
func (b *BulkInput) after() (string, error) {
	w := Window{Cursor: b.Cursor}
	return w.after(b.selector()...)
}

// selection returns what a request changes: with a key, the same as the first time.
func (s *Service) selection(ctx context.Context, verb string, b *BulkInput, after string, c pawl.Change) (sel selection, err error) {
	choose := func() (json.RawMessage, error) {
		if err := s.choose(ctx, b, after, &sel); err != nil {
			return nil, err
		}
		if b.Expect != nil && (*b.Expect != len(sel.Jobs)) {
			return nil, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("%d jobs are selected, and not %d", len(sel.Jobs), *b.Expect), Hint: "look again with dry_run"}
		}
		return json.Marshal(sel)
	}
	if b.DryRun {
		_, err = choose()
		return sel, err
	}
	asked := *b
	asked.RequestID = ""
	stored, _, err := s.Engine.Remember(ctx, b.Workspace, "POST /api/bulk/"+verb, c, asked, choose)
	if err != nil {
		return sel, err
	}
	sel = selection{}
	return sel, json.Unmarshal(stored, &sel)
}

// choose finds the jobs of a request.
func (s *Service) choose(ctx context.Context, b *BulkInput, after string, sel *selection) error {
	sel.Jobs, sel.States = []string{}, map[machine.State]int{}
	if b.Filter == nil {
		for _, id := range b.Jobs {
			if _, err := pawl.ParseID(pawl.JobPrefix, id); err != nil {
				return err
			}
			if id = id[len(pawl.JobPrefix):]; !slices.Contains(sel.Jobs, id) {
				sel.Jobs = append(sel.Jobs, id)
			}
		}
		return nil
	}
	q := b.Filter.query(b.Workspace)
	q.Before = after
	chosen, behind, err := s.Engine.Choose(ctx, q, maxBulk)
	if err != nil {
		return err
	}
	sel.Behind = behind
	for _, j := range chosen {
		sel.Jobs = append(sel.Jobs, j.ID.Public(pawl.JobPrefix)[len(pawl.JobPrefix):])
		sel.States[j.State]++
	}
	return nil
}

// changeEach changes the jobs of a selection, some at once.
func (s *Service) changeEach(ctx context.Context, verb string, sel selection, c pawl.Change) []bulkItem {
	items := make([]bulkItem, len(sel.Jobs))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(bulkAtOne, len(items)) {
		workers.Go(func() {
			for i := range next {
				items[i] = s.changeOne(ctx, verb, pawl.JobPrefix+sel.Jobs[i], c)
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	workers.Wait()
	return items
}

// changeOne changes one job, with a key of its own if the request has one.
func (s *Service) changeOne(ctx context.Context, verb, job string, c pawl.Change) bulkItem {
	item := bulkItem{ID: job}
	id, err := parseID(pawl.JobPrefix, job, "job")
	if err == nil {
		if c.RequestID != "" {
			c.RequestID = partKey("bulk", c.RequestID, verb+" "+job)
		}
		var r pawl.Receipt
		if r, err = bulkVerbs[verb](s.Engine, ctx, id, c); err == nil {
			item.Receipt = &r
		}
	}
	if err != nil {
		item.Problem = s.problem(ctx, "change-jobs", err)
	}
	return item
}
