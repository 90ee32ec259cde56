package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) scheduleOperations() []operation {
	const tag = "schedules"
	return []operation{
		{id: "create-schedule", method: post, path: "/api/schedules", role: Operator, repeat: replayed, good: []int{201}, errors: []Slug{SlugNotFound, SlugConflict, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Create a schedule", detail: "Makes jobs of a registered workflow at the times of a cron expression.", add: does(s, s.createSchedule)},
		{id: "list-schedules", method: get, path: "/api/schedules", role: Viewer, tag: tag,
			summary: "List schedules by name", detail: "Lists the schedules of a workspace, each with its next times.", add: does(s, s.listSchedules)},
		{id: "preview-schedule", method: post, path: "/api/schedules/preview", role: Viewer, repeat: settles, tag: tag,
			summary: "Say when a cron expression is due", detail: "Returns the next times of a cron expression. Nothing is stored.", add: does(s, s.previewSchedule)},
		{id: "get-schedule", method: get, path: "/api/schedules/{name}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a schedule", detail: "Reads a schedule with its next times.", add: does(s, s.getSchedule)},
		{id: "replace-schedule", method: put, path: "/api/schedules/{name}", role: Operator, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict, SlugPreconditionFailed}, tag: tag,
			summary: "Replace a schedule", detail: "Changes a schedule, whether it is paused or not. What is left out has its default.", add: does(s, s.replaceSchedule)},
		{id: "remove-schedule", method: del, path: "/api/schedules/{name}", role: Operator, repeat: settles, errors: []Slug{SlugNotFound, SlugInvalidTransition, SlugConflict, SlugPreconditionFailed}, tag: tag,
			summary: "Remove a schedule", detail: "Ends a schedule. Its name may be used again; its trail is kept.", add: does(s, s.removeSchedule)},
		{id: "pause-schedule", method: post, path: "/api/schedules/{name}/pause", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Pause a schedule", detail: "Keeps a schedule from making jobs.", add: does(s, s.scheduleVerb(lifecycle.SchedulePause))},
		{id: "resume-schedule", method: post, path: "/api/schedules/{name}/resume", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resume a schedule", detail: "Ends a pause. Times that passed meanwhile make no jobs.", add: does(s, s.scheduleVerb(lifecycle.ScheduleResume))},
		{id: "trigger-schedule", method: post, path: "/api/schedules/{name}/trigger", role: Operator, repeat: replayed, good: []int{201}, errors: verbErrors, tag: tag,
			summary: "Make a job of a schedule now", detail: "Makes a job of the schedule now, whatever its times are. The receipt is of the job.", add: does(s, s.triggerSchedule)},
		{id: "list-schedule-history", method: get, path: "/api/schedules/{name}/history", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a schedule", detail: "Lists the moves of a schedule, oldest first: which times made a job, waited or passed, and why; who changed it, and when.", add: does(s, s.listScheduleHistory)},
	}
}

// A Plan is what a schedule does.
type Plan struct {
	Workflow string          `json:"workflow" maxLength:"256" doc:"NAME or NAME@VERSION of a registered workflow." example:"nightly"`
	Inputs   json.RawMessage `json:"inputs,omitempty" doc:"An object: the inputs of the jobs, by name."`
	Cron     string          `json:"cron" maxLength:"256" doc:"The times, as a cron expression." example:"0 3 * * *"`
	TimeZone string          `json:"timezone,omitempty" maxLength:"64" doc:"Its time zone, by its IANA name. Default: UTC." example:"Europe/Berlin"`
	CatchUp  string          `json:"catch_up,omitempty" maxLength:"32" doc:"A time that was missed by less than this is caught up with: a duration of at most 720h. Default: 0s." example:"1h"`
	Overlap  string          `json:"overlap,omitempty" enum:"skip,queue,cancel_old" doc:"What happens at a time at which the last job still runs. Default: skip."`
	Priority int             `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"The priority of the jobs."`
}

func (p *Plan) of(workspace, name string) (pawl.SchedulePlan, error) {
	out := pawl.SchedulePlan{Workspace: workspace, Name: name, Workflow: p.Workflow, Inputs: p.Inputs, Cron: p.Cron, TimeZone: p.TimeZone, Overlap: p.Overlap, Priority: p.Priority}
	if p.CatchUp == "" {
		return out, nil
	}
	d, err := time.ParseDuration(p.CatchUp)
	if err != nil {
		return out, pawl.Errorf(pawl.Invalid, "catch_up %q: want a duration, such as 1h", p.CatchUp)
	}
	out.CatchUp = d
	return out, nil
}

type createdSchedule struct {
	Status   int
	Location string `header:"Location" doc:"The path of the schedule."`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     pawl.Receipt
}

func (s *Service) createSchedule(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		Plan
		Name      string `json:"name" maxLength:"128" doc:"Its name: letters, 0-9, . _ and -, no sign first." example:"nightly"`
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"The workspace. Default: default."`
	}
}) (*createdSchedule, error) {
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	p, err := in.Body.of(in.Body.Workspace, in.Body.Name)
	if err != nil {
		return nil, err
	}
	r, err := s.client(ctx, "").Schedules.Create(ctx, p, c)
	if err != nil {
		return nil, err
	}
	return &createdSchedule{http.StatusCreated, "/api/schedules/" + p.Name + inQuery(in.Body.Workspace), replayedHeader(r.Replayed), r}, nil
}

// NextTimes is how many of the next times an answer has.
type NextTimes struct {
	Next int `query:"next" minimum:"0" maximum:"100" default:"3" doc:"How many of the next times to return."`
}

func (s *Service) listSchedules(ctx context.Context, in *struct {
	InWorkspace
	Window
	NextTimes
}) (*body[page[pawl.ScheduleView]], error) {
	return sortedPage(in.Window, []any{"schedules", in.Workspace}, func(v *pawl.ScheduleView) string { return v.Name }, func(f func(*pawl.ScheduleView) error) error {
		return s.client(ctx, in.Workspace).Schedules.List(ctx, in.Next, f)
	})
}

func (s *Service) getSchedule(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	NextTimes
}) (*versioned[pawl.ScheduleView], error) {
	v, err := s.client(ctx, in.Workspace).Schedules.Get(ctx, in.Name, in.Next)
	if err != nil {
		return nil, asName(err)
	}
	return &versioned[pawl.ScheduleView]{quoted(v.Version), *v}, nil
}

func (s *Service) replaceSchedule(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	IfMatch
	Body struct {
		Note
		Plan
	}
}) (*receipt, error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	p, err := in.Body.of(in.Workspace, in.Name)
	if err != nil {
		return nil, err
	}
	return receiptOf(s.client(ctx, in.Workspace).Schedules.Replace(ctx, p, pawl.Change{Actor: ActorOf(ctx), Reason: in.Body.Reason, Version: version}))
}

func (s *Service) removeSchedule(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	IfMatch
	Reason string `query:"reason" maxLength:"4096" doc:"Why, for the audit trail."`
}) (*receipt, error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	c := pawl.Change{Actor: ActorOf(ctx), Reason: in.Reason, Version: version}
	return receiptOf(s.client(ctx, in.Workspace).Schedules.Move(ctx, in.Name, lifecycle.ScheduleRemove, c))
}

func (s *Service) scheduleVerb(event machine.Event) func(context.Context, *struct {
	NamePath
	InWorkspace
	Command
}) (*receipt, error) {
	return func(ctx context.Context, in *struct {
		NamePath
		InWorkspace
		Command
	}) (*receipt, error) {
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		return receiptOf(s.client(ctx, in.Workspace).Schedules.Move(ctx, in.Name, event, c))
	}
}

func (s *Service) triggerSchedule(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	Command
}) (*created, error) {
	c, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	return createdJob(s.Engine.TriggerSchedule(ctx, pawl.ScheduleName{Workspace: in.Workspace, Name: in.Name}, c))
}

func (s *Service) listScheduleHistory(ctx context.Context, in *struct {
	NamePath
	InWorkspace
	Window
}) (*body[page[pawl.Transition]], error) {
	return placedPage(in.Window, []any{"schedule", in.Workspace, in.Name}, func(after string, limit int) ([]pawl.Transition, string, error) {
		n := pawl.ScheduleName{Workspace: in.Workspace, Name: in.Name}
		return s.Engine.ScheduleHistoryPage(ctx, n, pawl.HistoryQuery{After: after, Limit: limit})
	})
}

// A preview is when a cron expression is due.
type preview struct {
	Next []pawl.Timestamp `json:"next"`
}

func (s *Service) previewSchedule(_ context.Context, in *struct {
	Body struct {
		Cron     string    `json:"cron" maxLength:"256" doc:"A cron expression." example:"0 3 * * *"`
		TimeZone string    `json:"timezone,omitempty" maxLength:"64" doc:"Its time zone, by its IANA name. Default: UTC."`
		From     time.Time `json:"from,omitzero" doc:"Times after this one. Default: now."`
		Count    int       `json:"count,omitempty" minimum:"1" maximum:"1000" default:"10" doc:"How many times."`
	}
}) (*body[preview], error) {
	c, err := schedule.Parse(in.Body.Cron, in.Body.TimeZone)
	if err != nil {
		return nil, err
	}
	from := in.Body.From
	if from.IsZero() {
		from = s.Now()
	}
	out := preview{Next: []pawl.Timestamp{}}
	for _, at := range schedule.Upcoming(c, from, in.Body.Count) {
		out.Next = append(out.Next, pawl.Timestamp(at.UnixMicro()))
	}
	return &body[preview]{out}, nil
}
