package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A registered workflow is a version as the API shows it.
type registered struct {
	Workspace  string          `json:"workspace_id"`
	Name       string          `json:"name"`
	Version    int             `json:"version"`
	Dir        string          `json:"dir"`
	At         pawl.Timestamp  `json:"registered_at"`
	Actor      string          `json:"actor"`
	Reason     string          `json:"reason"`
	Definition json.RawMessage `json:"definition"`
}

// version returns the version, without the key that its definition has in the database.
func (r *registered) version() *pawl.Version {
	return &pawl.Version{Workspace: r.Workspace, Name: r.Name, Version: r.Version, Dir: r.Dir, At: int64(r.At), Actor: r.Actor, Reason: r.Reason}
}

// RegisterWorkflow makes a definition the next version of the workflow of its name. The folder
// is ignored.
func (e *Engine) RegisterWorkflow(ctx context.Context, workspace string, canonical []byte, _ string, c pawl.Change) (v *pawl.Version, made bool, err error) {
	var r registered
	a, err := e.do(ctx, command("register-workflow", "/api/workflows", c, struct {
		note
		Definition json.RawMessage `json:"definition"`
		Workspace  string          `json:"workspace_id,omitempty"`
	}{note{c.Reason}, canonical, workspace}), &r)
	if err != nil {
		return nil, false, err
	}
	return r.version(), a.status == http.StatusCreated, nil
}

func workflowPath(n pawl.WorkflowName) string { return at("/api/workflows/%s", n.Name) }

// Lookup returns a version of a workflow; 0 is the newest.
func (e *Engine) Lookup(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, *workflow.Definition, error) {
	operation, path := "get-workflow", workflowPath(n)
	if version != 0 {
		operation, path = "get-workflow-version", path+"/versions/"+fmt.Sprint(version)
	}
	r, err := read[registered](ctx, e, operation, path, "workspace_id", orDefault(n.Workspace))
	if err != nil {
		return nil, nil, err
	}
	def, err := workflow.Load(r.Definition)
	if err != nil {
		return nil, nil, err
	}
	return r.version(), def, nil
}

// Workflows calls f with the newest version of each workflow, by name.
func (e *Engine) Workflows(ctx context.Context, workspace string, f func(*pawl.Version) error) error {
	return e.versions(ctx, call{operation: "list-workflows", path: "/api/workflows", query: inWorkspace(workspace)}, f)
}

// Versions calls f with the versions of a workflow, newest first.
func (e *Engine) Versions(ctx context.Context, n pawl.WorkflowName, f func(*pawl.Version) error) error {
	return e.versions(ctx, call{operation: "list-versions", path: workflowPath(n) + "/versions", query: inWorkspace(n.Workspace)}, f)
}

func (e *Engine) versions(ctx context.Context, c call, f func(*pawl.Version) error) error {
	return everyPage(ctx, e, c, func(r *registered) error { return f(r.version()) })
}

// PlanMoves returns what a definition means for the unfinished jobs of its workflow.
func (e *Engine) PlanMoves(ctx context.Context, workspace string, canonical []byte) (*workflow.MovePlans, error) {
	var plans workflow.MovePlans
	c := &call{operation: "plan-workflow", method: http.MethodPost, path: "/api/workflows/plan", body: map[string]any{
		"definition": json.RawMessage(canonical), "workspace_id": workspace}}
	if _, err := e.do(ctx, c, &plans); err != nil {
		return nil, err
	}
	return &plans, nil
}

func schedulePath(n pawl.ScheduleName) string { return at("/api/schedules/%s", n.Name) }

// A plan is a schedule in the body of a request.
type plan struct {
	note
	Name      string          `json:"name,omitempty"`
	Workspace string          `json:"workspace_id,omitempty"`
	Workflow  string          `json:"workflow"`
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Cron      string          `json:"cron"`
	TimeZone  string          `json:"timezone,omitempty"`
	CatchUp   string          `json:"catch_up,omitempty"`
	Overlap   string          `json:"overlap,omitempty"`
	Priority  int             `json:"priority,omitempty"`
}

// PutSchedule makes a schedule, or replaces the one of that name.
func (e *Engine) PutSchedule(ctx context.Context, p pawl.SchedulePlan, replace bool, c pawl.Change) (pawl.Receipt, error) {
	body := plan{note: note{c.Reason}, Workflow: p.Workflow, Inputs: p.Inputs, Cron: p.Cron, TimeZone: p.TimeZone, Overlap: p.Overlap, Priority: p.Priority}
	if p.CatchUp != 0 {
		body.CatchUp = p.CatchUp.String()
	}
	if !replace {
		body.Name, body.Workspace = p.Name, p.Workspace
		return e.receipt(ctx, command("create-schedule", "/api/schedules", c, body))
	}
	put := command("replace-schedule", schedulePath(pawl.ScheduleName{Name: p.Name}), c, body)
	put.method, put.key, put.query = http.MethodPut, "", inWorkspace(p.Workspace)
	put.once = c.Version != 0 // a second copy is refused
	return e.receipt(ctx, put)
}

// MoveSchedule pauses, resumes or removes a schedule.
func (e *Engine) MoveSchedule(ctx context.Context, n pawl.ScheduleName, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	if event == lifecycle.ScheduleRemove {
		query := inWorkspace(n.Workspace)
		if c.Reason != "" {
			query.Set("reason", c.Reason)
		}
		return e.receipt(ctx, &call{operation: "remove-schedule", method: http.MethodDelete, path: schedulePath(n), query: query, actor: c.Actor, version: c.Version, once: true})
	}
	if event != lifecycle.SchedulePause && event != lifecycle.ScheduleResume {
		return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "event %s: want %s, %s or %s", event, lifecycle.SchedulePause, lifecycle.ScheduleResume, lifecycle.ScheduleRemove)
	}
	move := command(string(event)+"-schedule", schedulePath(n)+"/"+string(event), c, note{c.Reason})
	move.query = inWorkspace(n.Workspace)
	return e.receipt(ctx, move)
}

// TriggerSchedule makes a job of a schedule now.
func (e *Engine) TriggerSchedule(ctx context.Context, n pawl.ScheduleName, c pawl.Change) (pawl.Receipt, error) {
	trigger := command("trigger-schedule", schedulePath(n)+"/trigger", c, note{c.Reason})
	trigger.query = inWorkspace(n.Workspace)
	return e.receipt(ctx, trigger)
}

// Schedules calls f with the schedules, by name.
func (e *Engine) Schedules(ctx context.Context, workspace string, next int, f func(*pawl.ScheduleView) error) error {
	c := call{operation: "list-schedules", path: "/api/schedules", query: inWorkspace(workspace)}
	c.query.Set("next", fmt.Sprint(next))
	return everyPage(ctx, e, c, f)
}

// Schedule returns a schedule with its next times.
func (e *Engine) Schedule(ctx context.Context, n pawl.ScheduleName, next int) (*pawl.ScheduleView, error) {
	return read[pawl.ScheduleView](ctx, e, "get-schedule", schedulePath(n), "workspace_id", orDefault(n.Workspace), "next", fmt.Sprint(next))
}

func scheduleHistory(n pawl.ScheduleName) call {
	return call{operation: "list-schedule-history", path: schedulePath(n) + "/history", query: inWorkspace(n.Workspace)}
}

// ScheduleHistory calls f with every move of a schedule.
func (e *Engine) ScheduleHistory(ctx context.Context, n pawl.ScheduleName, f func(pawl.Transition) error) error {
	return e.moves(ctx, scheduleHistory(n), f)
}

// ScheduleHistoryPage is a page of ScheduleHistory.
func (e *Engine) ScheduleHistoryPage(ctx context.Context, n pawl.ScheduleName, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, scheduleHistory(n), q.After, q.Limit)
}

// Queues lists the queues of a workspace.
func (e *Engine) Queues(ctx context.Context, workspace string) ([]pawl.QueueView, error) {
	p, err := read[page[pawl.QueueView]](ctx, e, "list-queues", "/api/queues", "workspace_id", workspace)
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

func queuePath(n pawl.QueueName) string { return at("/api/queues/%s", n.Name) }

// Queue returns a queue.
func (e *Engine) Queue(ctx context.Context, n pawl.QueueName) (*pawl.QueueView, error) {
	return read[pawl.QueueView](ctx, e, "get-queue", queuePath(n), "workspace_id", orDefault(n.Workspace))
}

// PauseQueue pauses a queue.
func (e *Engine) PauseQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return e.operateQueue(ctx, "pause", n, c)
}

// ResumeQueue ends the pause of a queue.
func (e *Engine) ResumeQueue(ctx context.Context, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	return e.operateQueue(ctx, "resume", n, c)
}

func (e *Engine) operateQueue(ctx context.Context, verb string, n pawl.QueueName, c pawl.Change) (pawl.Receipt, error) {
	move := command(verb+"-queue", queuePath(n)+"/"+verb, c, note{c.Reason})
	move.query = inWorkspace(n.Workspace)
	return e.receipt(ctx, move)
}

func queueHistory(n pawl.QueueName) call {
	return call{operation: "list-queue-history", path: queuePath(n) + "/history", query: inWorkspace(n.Workspace)}
}

// QueueHistory calls f with the moves of the pauses of a queue.
func (e *Engine) QueueHistory(ctx context.Context, n pawl.QueueName, f func(pawl.Transition) error) error {
	return e.moves(ctx, queueHistory(n), f)
}

// QueueHistoryPage is a page of QueueHistory.
func (e *Engine) QueueHistoryPage(ctx context.Context, n pawl.QueueName, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, queueHistory(n), q.After, q.Limit)
}

// Quotas lists the limits of a workspace.
func (e *Engine) Quotas(ctx context.Context, workspace string) ([]pawl.QuotaView, error) {
	p, err := read[page[pawl.QuotaView]](ctx, e, "list-quotas", "/api/resources/quotas", "workspace_id", orDefault(workspace))
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// SetQuotas sets limits of one workspace, all or none.
func (e *Engine) SetQuotas(ctx context.Context, set []pawl.Quota, c pawl.Change) error {
	type limit struct {
		Name  string `json:"name"`
		Slots int    `json:"slots"`
	}
	limits := make([]limit, len(set))
	for i, q := range set {
		if q.Workspace != set[0].Workspace {
			return unsupported("setting limits of several workspaces at once", "set those of each workspace with a call of its own")
		}
		limits[i] = limit{q.Name, max(q.Slots, -1)}
	}
	if len(set) == 0 {
		return nil
	}
	if c.Version != 0 && len(set) == 1 {
		return e.setQuota(ctx, &set[0], c)
	}
	put := command("set-quotas", "/api/resources/quotas", c, struct {
		note
		Quotas []limit `json:"quotas"`
	}{note{c.Reason}, limits})
	put.query = inWorkspace(set[0].Workspace)
	_, err := e.do(ctx, put, nil)
	return err
}

// setQuota sets a version of a limit.
func (e *Engine) setQuota(ctx context.Context, q *pawl.Quota, c pawl.Change) error {
	kind, name, _ := strings.Cut(q.Name, "/")
	put := command("set-quota", at("/api/resources/quotas/%s/%s", kind, name), c, struct {
		note
		Slots int `json:"slots"`
	}{note{c.Reason}, q.Slots})
	put.method, put.key, put.once, put.query = http.MethodPut, "", true, inWorkspace(q.Workspace)
	if q.Slots < 0 {
		put.operation, put.method, put.body = "clear-quota", http.MethodDelete, nil
		if c.Reason != "" {
			put.query.Set("reason", c.Reason)
		}
	}
	_, err := e.do(ctx, put, nil)
	return err
}
