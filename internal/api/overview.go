package api

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Bounds of what looks at many records.
const (
	maxCount    = 1000 // of what is counted
	maxOverview = 10   // records of a kind
	maxFailed   = 100
	overviewFor = 24 * time.Hour
	quietFor    = 10 * time.Minute
	maxDue      = 1000 // times of a calendar
	maxCalendar = 366 * 24 * time.Hour
	maxSearched = 10_000 // jobs, the newest
	maxHits     = 10     // of a kind
)

func (s *Service) overviewOperations() []operation {
	return []operation{
		{id: "get-overview", method: get, path: "/api/overview", role: Viewer, tag: "records",
			summary: "Say what needs a person", detail: "Says what waits for a decision, what is stuck, which jobs of the last 24 hours have failed, what is in flight, and where steps wait longest. To a caller of all workspaces also how many findings the doctor has: of an examination that is 5 minutes old at most, unless one takes longer than 5 seconds; an admin sees them.", add: does(s, s.getOverview)},
		{id: "count-approvals", method: get, path: "/api/approvals/count", role: Viewer, tag: "steps",
			summary: "Count the approvals that wait", detail: "Counts up to 1,000, and says whether there are more.", add: does(s, s.countApprovals)},
		{id: "get-approval-context", method: get, path: "/api/steps/{id}/context", role: Viewer, errors: []Slug{SlugNotFound}, tag: "steps",
			summary: "Read what an approval is about", detail: "Reads the inputs of the job, and the outputs of the steps that this one comes after.", add: does(s, s.getContext)},
		{id: "list-due-times", method: get, path: "/api/calendar", role: Viewer, tag: "schedules",
			summary: "List when schedules are due", detail: "Lists the times of the active schedules of a workspace between two times, at most a year and 1,000 times.", add: does(s, s.listDueTimes)},
		{id: "search", method: get, path: "/api/search", role: Viewer, tag: "records",
			summary: "Find records by their id or name", detail: "Finds, of each kind, up to 10: the newest 10,000 jobs of a workspace by the first digits or last 4 or more of their id, workflows and schedules by a part of their name, workers by their id or a part of their name.", add: does(s, s.search)},
	}
}

// A tally is a count up to a bound.
type tally struct {
	Count int  `json:"count"`
	More  bool `json:"more" doc:"There are more than were counted."`
}

// An overview is what needs a person.
type overview struct {
	Approvals tally            `json:"approvals" doc:"Steps that wait for a decision."`
	Stuck     []pawl.StuckJob  `json:"stuck" doc:"Up to 10 jobs in which nothing has moved for 10 minutes though it should: as list-jobs has them with stuck; as of 5 seconds ago at most."`
	Failed    tally            `json:"failed" doc:"Jobs that were made in the last 24 hours and have failed, up to 100."`
	Newest    []pawl.JobView   `json:"failed_jobs" doc:"The newest 10 of them, without bodies."`
	Counts    pawl.Counts      `json:"counts"`
	Queues    []pawl.QueueView `json:"queues" doc:"Up to 10 queues in which steps wait, the longest first."`
	Doctor    *Examination     `json:"doctor,omitempty" doc:"The last examination of the database. Absent for a token of some workspaces, and where there was none."`
}

func (s *Service) getOverview(ctx context.Context, in *struct{ OfWorkspace }) (*body[overview], error) {
	var o overview
	var err error
	if o.Approvals.Count, o.Approvals.More, err = s.Engine.CountApprovals(ctx, in.Workspace, maxCount); err != nil {
		return nil, err
	}
	if o.Stuck, err = s.stuck.of(ctx, in.Workspace, func() ([]pawl.StuckJob, error) {
		return s.Engine.Stuck(ctx, pawl.JobQuery{Workspace: in.Workspace, Limit: maxOverview, Stuck: quietFor}, quietFor)
	}); err != nil {
		return nil, err
	}
	failed, next, err := s.Engine.JobPage(ctx, pawl.JobQuery{Workspace: in.Workspace, Statuses: []machine.State{lifecycle.JobFailed},
		CreatedAfter: stamp(s.Now().Add(-overviewFor)), Limit: maxFailed, Summary: true})
	if err != nil {
		return nil, err
	}
	o.Failed, o.Newest = tally{len(failed), next != ""}, append([]pawl.JobView{}, failed[:min(len(failed), maxOverview)]...)
	counts, err := s.Engine.Counts(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	queues, err := s.Engine.Queues(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	queues = slices.DeleteFunc(queues, func(q pawl.QueueView) bool { return q.Oldest == 0 })
	slices.SortStableFunc(queues, func(a, b pawl.QueueView) int { return cmp.Compare(a.Oldest, b.Oldest) })
	o.Counts, o.Queues = *counts, append([]pawl.QueueView{}, queues[:min(len(queues), maxOverview)]...)
	if o.Stuck == nil {
		o.Stuck = []pawl.StuckJob{}
	}
	o.Doctor = s.examination(ctx)
	return &body[overview]{o}, nil
}

func (s *Service) countApprovals(ctx context.Context, in *struct{ OfWorkspace }) (*body[tally], error) {
	n, more, err := s.Engine.CountApprovals(ctx, in.Workspace, maxCount)
	if err != nil {
		return nil, err
	}
	return &body[tally]{tally{n, more}}, nil
}

func (s *Service) getContext(ctx context.Context, in *struct{ StepPath }) (*body[explain.Context], error) {
	id, err := parseID(pawl.StepPrefix, in.ID, "step")
	if err != nil {
		return nil, err
	}
	c, err := s.Engine.Context(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[explain.Context]{*c}, nil
}

// A calendar is when schedules are due.
type calendar struct {
	Items []dueTime `json:"items" doc:"By time."`
	More  bool      `json:"more" doc:"There are further times: ask for those from the last one on."`
}

type dueTime struct {
	Schedule  string         `json:"schedule"`
	Workspace string         `json:"workspace_id"`
	Workflow  string         `json:"workflow"`
	At        pawl.Timestamp `json:"at"`
}

func (s *Service) listDueTimes(ctx context.Context, in *struct {
	OfWorkspace
	From time.Time `query:"from" doc:"Times after this one. Default: now."`
	To   time.Time `query:"to" doc:"Times before this one. Default: a week later."`
}) (*body[calendar], error) {
	if in.From.IsZero() {
		in.From = s.Now()
	}
	if in.To.IsZero() {
		in.To = in.From.Add(7 * 24 * time.Hour)
	}
	if span := in.To.Sub(in.From); span < 0 || span > maxCalendar {
		return nil, pawl.Errorf(pawl.Invalid, "to %s: want a time after from, and at most 366 days later", in.To.Format(time.RFC3339))
	}
	out := calendar{Items: []dueTime{}}
	err := s.Engine.Schedules(ctx, in.Workspace, 0, func(v *pawl.ScheduleView) error {
		if v.Status != lifecycle.ScheduleActive {
			return nil
		}
		c, err := schedule.Parse(v.Cron, v.TimeZone)
		if err != nil {
			return err
		}
		at := in.From
		for range maxDue + 1 {
			if at = c.Next(at); at.IsZero() || !at.Before(in.To) {
				break
			}
			out.Items = append(out.Items, dueTime{v.Name, v.Workspace, v.Workflow, stamp(at)})
		}
		if len(out.Items) > 4*maxDue { // what is later than enough others does not come
			out.cut()
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	out.cut()
	return &body[calendar]{out}, nil
}

// cut keeps the first times.
func (c *calendar) cut() {
	slices.SortStableFunc(c.Items, func(a, b dueTime) int { return cmp.Compare(a.At, b.At) })
	c.More = c.More || len(c.Items) > maxDue
	c.Items = c.Items[:min(len(c.Items), maxDue)]
}

// A hit is a record that a search has found.
type hit struct {
	Kind  string `json:"kind" enum:"job,workflow,schedule,worker"`
	ID    string `json:"id" doc:"Its id, or its name if the path of it has that."`
	Name  string `json:"name" doc:"Of a job: its workflow."`
	State string `json:"status,omitempty"`
}

type hits struct {
	Items []hit `json:"items"`
}

func (s *Service) search(ctx context.Context, in *struct {
	InWorkspace
	Text string `query:"q" required:"true" minLength:"1" maxLength:"128" doc:"A part of an id or a name." example:"nightly"`
}) (*body[hits], error) {
	text := strings.ToLower(in.Text)
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
	all := []hit{}
	digits := strings.TrimPrefix(text, pawl.JobPrefix)
	if id, err := pawl.ParseID(pawl.JobPrefix, in.Text); err == nil {
		digits = ""
		page, _, err := s.Engine.JobPage(ctx, pawl.JobQuery{Workspace: in.Workspace, Before: pawl.MakeID(pawl.KeyTime(int64(id.JobKey()+1)), uint32(id.JobKey()+1), 0).Public(pawl.JobPrefix), Limit: 1, Summary: true})
		if err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].ID == in.Text {
				all = append(all, hit{"job", page[i].ID, page[i].Workflow, string(page[i].Status)})
			}
		}
	}
	if len(digits) >= 4 && strings.Trim(digits, "0123456789abcdef") == "" {
		err := s.Engine.RecentJobs(ctx, in.Workspace, maxSearched, func(j *pawl.Job) bool {
			if id := strings.TrimPrefix(j.ID.Public(pawl.JobPrefix), pawl.JobPrefix); strings.HasPrefix(id, digits) || strings.HasSuffix(id, digits) {
				all = append(all, hit{"job", pawl.JobPrefix + id, j.Workflow, string(j.State)})
			}
			return len(all) < maxHits && ctx.Err() == nil
		})
		if err != nil {
			return nil, err
		}
	}
	found := 0
	add := func(h hit) error {
		if all, found = append(all, h), found+1; found == maxHits {
			return errPageFull
		}
		return nil
	}
	err := s.Engine.Workflows(ctx, in.Workspace, func(v *pawl.Version) error {
		if !has(v.Name) {
			return nil
		}
		return add(hit{Kind: "workflow", ID: v.Name, Name: v.Name})
	})
	if found = 0; err == nil || errors.Is(err, errPageFull) {
		err = s.Engine.Schedules(ctx, in.Workspace, 0, func(v *pawl.ScheduleView) error {
			if !has(v.Name) {
				return nil
			}
			return add(hit{"schedule", v.Name, v.Name, string(v.Status)})
		})
	}
	if err != nil && !errors.Is(err, errPageFull) {
		return nil, err
	}
	workers, _, err := s.Engine.WorkerPage(ctx, pawl.WorkerQuery{Workspace: in.Workspace, Limit: maxCount})
	if err != nil {
		return nil, err
	}
	found = 0
	for i := range workers {
		if w := &workers[i]; (has(w.Name) || strings.HasPrefix(w.ID, in.Text)) && add(hit{"worker", w.ID, w.Name, string(w.Status)}) != nil {
			break
		}
	}
	return &body[hits]{hits{all}}, nil
}
