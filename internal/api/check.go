package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/explain"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

func (s *Service) checkOperations() []operation {
	return []operation{
		{id: "check-submission", method: post, path: "/api/jobs/check", role: Viewer, repeat: settles, errors: []Slug{SlugNotFound}, tag: "jobs",
			summary: "Say what a submission would be", detail: "Checks a submission as submit-job does, and returns the version and the inputs of the job. The problem of wrong inputs has a fault for each. Nothing is stored.", add: does(s, s.checkSubmission)},
		{id: "check-retry", method: post, path: "/api/jobs/{id}/retry/check", role: Viewer, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict}, tag: "jobs",
			summary: "Say what a retry would do", detail: "Checks a retry as retry-job does, and returns which steps would run again, and which results are taken over. Nothing is stored.", add: does(s, s.checkRetry)},
		{id: "check-cancel", method: get, path: "/api/jobs/{id}/cancel/check", role: Viewer, errors: []Slug{SlugNotFound}, tag: "jobs",
			summary: "Say what a cancel would end", detail: "Counts the steps in progress of a job, and its descendants that have not ended, up to 1,000.", add: does(s, s.checkCancel)},
		{id: "get-inputs-schema", method: get, path: "/api/workflows/{name}/inputs", role: Viewer, errors: []Slug{SlugNotFound}, tag: "workflows",
			summary: "Read the inputs of a workflow as a JSON Schema", detail: "Reads the inputs of the newest version as a JSON Schema. Its patterns are those of RE2.", add: does(s, s.getInputsSchema)},
		{id: "list-job-actions", method: get, path: "/api/jobs/{id}/actions", role: Viewer, errors: []Slug{SlugNotFound}, tag: "jobs",
			summary: "Say what the caller can do with a job", detail: actionsDetail, add: does(s, s.listJobActions)},
		{id: "list-step-actions", method: get, path: "/api/steps/{id}/actions", role: Viewer, errors: []Slug{SlugNotFound}, tag: "steps",
			summary: "Say what the caller can do with a step", detail: actionsDetail, add: does(s, s.listStepActions)},
		{id: "list-worker-actions", method: get, path: "/api/workers/{id}/actions", role: Viewer, errors: []Slug{SlugNotFound}, tag: "workers",
			summary: "Say what the caller can do with a worker", detail: actionsDetail, add: does(s, s.listWorkerActions)},
		{id: "list-schedule-actions", method: get, path: "/api/schedules/{name}/actions", role: Viewer, errors: []Slug{SlugNotFound}, tag: "schedules",
			summary: "Say what the caller can do with a schedule", detail: actionsDetail, add: does(s, s.listScheduleActions)},
		{id: "query-audit", method: get, path: "/api/audit", role: Viewer, errors: []Slug{SlugNotFound}, tag: "records",
			summary: "List moves of the audit trail", detail: "Lists the moves of all entities that the caller sees, newest first; with entity, those of one, oldest first. A page looks at 20,000 rows at most, so that it may be short, or empty, though there is a next. Where so many are written within half a minute, pages go through ten seconds after ten seconds, each page the newest first: a page, the first one too, may lack moves that are up to ten seconds newer than its own, which a later page has. Moves of webhooks are for admins, and those of tokens for admins of all workspaces: others do not see them.", add: does(s, s.queryAudit)},
		{id: "list-processes", method: get, path: "/api/processes", role: Viewer, everywhere: true, tag: "workers",
			summary: "List the processes that use the database", detail: "Lists the processes that have reported in the last 10 minutes, with how far their clocks are ahead.", add: does(s, s.listProcesses)},
		{id: "get-rates", method: get, path: "/api/rates", role: Viewer, tag: "records",
			summary: "Say how fast jobs and steps begin and end", detail: "Says, by workflow and by queue, how many jobs and steps have begun and ended in the last minutes, and how long they waited and ran. It looks at the newest 5,000 jobs and the newest 10,000 steps of all workspaces: if there were more in that time, from is later.", add: does(s, s.getRates)},
		{id: "get-machine-counts", method: get, path: "/api/machines/{name}/counts", role: Viewer, errors: []Slug{SlugNotFound}, tag: "records",
			summary: "Count what is in each state of a machine", detail: "Counts jobs, steps or workers by state: what is in flight exactly, what has ended up to a bound; of steps only what is in flight.", add: does(s, s.getMachineCounts)},
	}
}

// A check says what a submission would be.
type check struct {
	Workflow   string          `json:"workflow"`
	Version    int             `json:"version,omitempty" doc:"Of the registered workflow."`
	Definition string          `json:"definition_hash"`
	Inputs     json.RawMessage `json:"inputs" doc:"With their defaults."`
}

func (s *Service) checkSubmission(ctx context.Context, in *struct{ Body exchange.Submission }) (*body[check], error) {
	canonical, version, err := s.asking(ctx).definition(cmp.Or(in.Body.Workspace, pawl.DefaultWorkspace), &in.Body)
	if err != nil {
		return nil, err
	}
	def, err := workflow.Load(canonical)
	if err != nil {
		return nil, err
	}
	out := check{Version: version}
	given := map[string]any{}
	if len(in.Body.Inputs) > 0 {
		d := json.NewDecoder(bytes.NewReader(in.Body.Inputs))
		d.UseNumber()
		if err := d.Decode(&given); err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "inputs: want a JSON object")
		}
	}
	if faults := def.InputFaults(given); len(faults) > 0 {
		p := Problemf(SlugInvalid, "%d inputs are wrong", len(faults))
		for _, name := range slices.Sorted(maps.Keys(faults)) {
			if len(p.Errors) < maxFaults {
				p.Errors = append(p.Errors, Fault{Location: "body.inputs." + name, Message: faults[name]})
			}
		}
		return nil, p
	}
	out.Workflow, out.Definition = def.Name, def.HashString()
	if out.Inputs, err = def.BindInputs(given); err != nil {
		return nil, err
	}
	return &body[check]{out}, nil
}

func (s *Service) checkRetry(ctx context.Context, in *struct {
	JobPath
	Body *struct {
		From    []string                   `json:"from_step,omitempty" maxItems:"1000" doc:"Complete steps to run again, with all that depends on them."`
		Inputs  map[string]any             `json:"inputs,omitempty" doc:"Inputs that change."`
		Results map[string]json.RawMessage `json:"results,omitempty" doc:"Outputs for steps, by key, which then do not run."`
	} `required:"false"`
}) (*body[explain.RetryPlan], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	b := given(in.Body)
	plan, err := s.Engine.CheckRetry(ctx, id, pawl.Retry{From: b.From, Set: b.Inputs, Resolve: b.Results})
	if err != nil {
		return nil, err
	}
	return &body[explain.RetryPlan]{*plan}, nil
}

// A canceling says what a cancel would end.
type canceling struct {
	Running     int   `json:"running_steps" doc:"Steps in progress."`
	Descendants tally `json:"descendants" doc:"Jobs below it that have not ended."`
}

func (s *Service) checkCancel(ctx context.Context, in *struct{ JobPath }) (*body[canceling], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	if _, err := s.Engine.JobVersion(ctx, id); err != nil {
		return nil, err
	}
	states, _, err := s.Engine.StepPage(ctx, id, pawl.StepQuery{Statuses: []machine.State{lifecycle.StepInProgress}, Limit: maxCount, Summary: true})
	if err != nil {
		return nil, err
	}
	out := canceling{Running: len(states)}
	for below := []string{in.ID}; len(below) > 0 && !out.Descendants.More; below = below[1:] {
		q := pawl.JobQuery{Parent: below[0], Statuses: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, Limit: 100, Summary: true}
		for {
			page, next, err := s.Engine.JobPage(ctx, q)
			if err != nil {
				return nil, err
			}
			for i := range page {
				below = append(below, page[i].ID)
			}
			if out.Descendants.Count += len(page); out.Descendants.Count >= maxCount {
				out.Descendants = tally{maxCount, true}
				break
			}
			if q.Before = next; next == "" {
				break
			}
		}
	}
	return &body[canceling]{out}, nil
}

func (s *Service) getInputsSchema(ctx context.Context, in *struct {
	NamePath
	InWorkspace
}) (*body[json.RawMessage], error) {
	_, def, err := s.client(ctx, in.Workspace).Workflows.Get(ctx, in.Name)
	if err != nil {
		return nil, asName(err)
	}
	return &body[json.RawMessage]{def.InputSchema()}, nil
}

const actionsDetail = "Lists verbs, each with whether it works now for the caller, and if not, why: each is tried on the present state, and undone."

// An offer is a verb, and whether it works.
type offer struct {
	Verb   string `json:"verb"`
	OK     bool   `json:"ok"`
	WhyNot string `json:"why_not,omitempty" doc:"Why it does not work now, or which role it needs."`
}

// A trial tries a verb in a context in which nothing is changed.
type trial struct {
	verb string
	role Role
	do   func(context.Context) error
}

func needsRole(role Role) string { return "it needs the role " + string(role) }

// tried tries verbs that the caller has the roles for.
func (s *Service) tried(ctx context.Context, trials ...trial) (*body[page[offer]], error) {
	all := make([]offer, len(trials))
	for i, t := range trials {
		all[i].Verb = t.verb
		if !access.Of(ctx).Holds(t.role) {
			all[i].WhyNot = needsRole(t.role)
			continue
		}
		err := engine.Tried(t.do(engine.Try(ctx)))
		switch kind := pawl.KindOf(err); {
		case err == nil:
			all[i].OK = true
		case kind == pawl.Conflict || kind == pawl.Invalid || kind == pawl.NotFound:
			all[i].WhyNot = err.Error()
		default:
			return nil, err
		}
	}
	return pageOf(all, ""), nil
}

// of returns the trial of a verb that returns a receipt.
func of(verb string, do func(context.Context) (pawl.Receipt, error)) trial {
	return trial{verb, Operator, func(ctx context.Context) error {
		_, err := do(ctx)
		return err
	}}
}

// byTable returns the trial of a verb of an entity by the table of its machine alone.
func byTable(m *machine.Machine, id string, state machine.State, event machine.Event, role Role) trial {
	return trial{string(event), role, func(context.Context) error {
		_, err := m.Next(state, event)
		var r *machine.Refusal
		if !errors.As(err, &r) {
			return err
		}
		r.Entity = id
		return pawl.Errorf(pawl.Conflict, "%s", r)
	}}
}

func (s *Service) listJobActions(ctx context.Context, in *struct{ JobPath }) (*body[page[offer]], error) {
	id, err := in.job()
	if err != nil {
		return nil, err
	}
	state, err := s.stateOf(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	c := pawl.Change{Actor: ActorOf(ctx)}
	return s.tried(ctx,
		of("cancel", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.Cancel(ctx, id, c) }),
		of("pause", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.PauseJob(ctx, id, c) }),
		of("resume", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.ResumeJob(ctx, id, c) }),
		of("retry", func(ctx context.Context) (pawl.Receipt, error) {
			_, err := s.Engine.CheckRetry(ctx, id, pawl.Retry{})
			return pawl.Receipt{}, err
		}),
		byTable(lifecycle.Job, in.ID, state, lifecycle.JobSignal, Operator), byTable(lifecycle.Job, in.ID, state, lifecycle.JobMove, Operator),
		byTable(lifecycle.Job, in.ID, state, lifecycle.JobRedact, Admin))
}

// stateOf returns the state of a job, from the end of its trail.
func (s *Service) stateOf(ctx context.Context, job string) (machine.State, error) {
	id, err := parseID(pawl.JobPrefix, job, "job")
	if err != nil {
		return "", err
	}
	if _, err := s.Engine.JobVersion(ctx, id); err != nil {
		return "", err
	}
	page, _, err := s.Engine.JobPage(ctx, pawl.JobQuery{Before: pawl.MakeID(pawl.KeyTime(int64(id.JobKey()+1)), uint32(id.JobKey()+1), 0).Public(pawl.JobPrefix), Limit: 1, Summary: true})
	if err != nil {
		return "", err
	}
	if len(page) != 1 || page[0].ID != job {
		return "", pawl.Errorf(pawl.NotFound, "there is no job %s", job)
	}
	return page[0].Status, nil
}

func (s *Service) listStepActions(ctx context.Context, in *struct{ StepPath }) (*body[page[offer]], error) {
	job, v, err := s.step(ctx, in.StepPath)
	if err != nil {
		return nil, err
	}
	c := pawl.Change{Actor: ActorOf(ctx)}
	decide := func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.Reject(ctx, job, v.Key, c) } // what it refuses, approve refuses, but for the form
	return s.tried(ctx,
		of("retry", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.RetryStep(ctx, job, v.Key, c) }),
		of("skip", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.SkipStep(ctx, job, v.Key, c) }),
		of("resolve", func(ctx context.Context) (pawl.Receipt, error) {
			return s.Engine.ResolveStep(ctx, job, v.Key, json.RawMessage("null"), c)
		}),
		of("approve", decide), of("reject", decide))
}

func (s *Service) listWorkerActions(ctx context.Context, in *struct{ WorkerPath }) (*body[page[offer]], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	w, err := s.Engine.Worker(ctx, id)
	if err != nil {
		return nil, err
	}
	c := pawl.Change{Actor: ActorOf(ctx)}
	return s.tried(ctx,
		of("pause", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.PauseWorker(ctx, id, c) }),
		of("resume", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.ResumeWorker(ctx, id, c) }),
		byTable(lifecycle.Worker, w.ID, w.Status, lifecycle.WorkerTerminate, Operator))
}

func (s *Service) listScheduleActions(ctx context.Context, in *struct {
	NamePath
	InWorkspace
}) (*body[page[offer]], error) {
	n := pawl.ScheduleName{Workspace: in.Workspace, Name: in.Name}
	if _, err := s.Engine.Schedule(ctx, n, 0); err != nil {
		return nil, asName(err)
	}
	c := pawl.Change{Actor: ActorOf(ctx)}
	move := func(event machine.Event) trial {
		return of(string(event), func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.MoveSchedule(ctx, n, event, c) })
	}
	return s.tried(ctx, move(lifecycle.SchedulePause), move(lifecycle.ScheduleResume), move(lifecycle.ScheduleRemove),
		of("trigger", func(ctx context.Context) (pawl.Receipt, error) { return s.Engine.TriggerSchedule(ctx, n, c) }))
}

func (s *Service) queryAudit(ctx context.Context, in *struct {
	Window
	OfWorkspace
	Entity  string    `query:"entity" maxLength:"64" doc:"The id of a job, step, worker, schedule, pause of a queue, token or webhook: only its moves." example:"j_019ac1f0a3c47d5e8f00112233445566"`
	Machine []string  `query:"machine" maxItems:"20" doc:"Only moves of these machines: job, step, worker, schedule, queue_pause, token, webhook, separated by commas."`
	Actor   string    `query:"actor" maxLength:"255" doc:"Only moves of this actor, such as token:ci, oidc:ada@example.com or the id of a worker."`
	Event   string    `query:"event" maxLength:"64" doc:"Only moves by this event of a machine, such as cancel."`
	State   string    `query:"state" maxLength:"64" doc:"Only moves that lead to this state, such as FAILED."`
	From    time.Time `query:"from" doc:"Only moves at this time or later."`
	To      time.Time `query:"to" doc:"Only moves before this time."`
}) (*body[page[pawl.Move]], error) {
	q := pawl.AuditQuery{Entity: in.Entity, Machines: in.Machine, Actor: in.Actor, Event: machine.Event(in.Event), State: machine.State(in.State), From: stamp(in.From), To: stamp(in.To)}
	if in.Workspace != "" {
		q.Workspaces = []string{in.Workspace}
	}
	return placedPage(in.Window, []any{"audit", in.Workspace, in.Entity, in.Machine, in.Actor, in.Event, in.State, in.From, in.To}, func(after string, limit int) ([]pawl.Move, string, error) {
		q.After, q.Limit = after, limit
		return s.Engine.MovePage(ctx, q)
	})
}

// A processView is a process that uses the database.
type processView struct {
	Name      string         `json:"name"`
	Role      string         `json:"role"`
	Host      string         `json:"host"`
	PID       int            `json:"pid"`
	Version   string         `json:"version"`
	StartedAt pawl.Timestamp `json:"started_at"`
	SeenAt    pawl.Timestamp `json:"seen_at"`
	Skew      pawl.Duration  `json:"clock_ahead" doc:"How far its clock is ahead of the database's; negative: behind."`
}

func (s *Service) listProcesses(ctx context.Context, _ *struct{}) (*body[page[processView]], error) {
	nodes, err := s.Engine.Processes(ctx)
	if err != nil {
		return nil, err
	}
	var all []processView
	for _, n := range nodes {
		all = append(all, processView{n.Name, n.Role, n.Host, n.PID, n.Version, pawl.Timestamp(n.StartedAt), pawl.Timestamp(n.BeatAt), pawl.Duration(time.Duration(n.Skew) * time.Microsecond)})
	}
	return pageOf(all, ""), nil
}

// machineCounts are how many entities are in which state.
type machineCounts struct {
	Machine string                `json:"machine"`
	States  map[machine.State]int `json:"states"`
	AtLeast bool                  `json:"at_least" doc:"There may be more that have ended."`
}

func (s *Service) getMachineCounts(ctx context.Context, in *struct {
	NamePath
	OfWorkspace
}) (*body[machineCounts], error) {
	counts, err := s.Engine.Counts(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	states := map[string]map[machine.State]int{"job": counts.Jobs, "step": counts.Steps, "worker": counts.Workers}[in.Name]
	if states == nil {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there are no counts of %.100q: want job, step or worker", in.Name)}
	}
	return &body[machineCounts]{machineCounts{in.Name, states, counts.AtLeast && in.Name != "step"}}, nil
}

func (s *Service) getRates(ctx context.Context, in *struct {
	OfWorkspace
	Minutes int `query:"minutes" minimum:"1" maximum:"1440" default:"15" doc:"Over how many minutes until now."`
}) (*body[explain.Rates], error) {
	rates, err := s.Engine.Rates(ctx, []string{in.Workspace}, time.Duration(in.Minutes)*time.Minute)
	if err != nil {
		return nil, err
	}
	return &body[explain.Rates]{*rates}, nil
}
