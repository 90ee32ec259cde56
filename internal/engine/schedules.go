package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// ScheduledAt is the input that a schedule gives to its jobs if the workflow declares it
// and the schedule does not set it: the time that they were due, in RFC 3339 and UTC.
const ScheduledAt = "scheduled_at"

// MaxCatchUp bounds how late a missed time may still be run.
const MaxCatchUp = 30 * 24 * time.Hour

var scheduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// checkPlan completes a plan, and returns its first fault.
func checkPlan(p *pawl.SchedulePlan) error {
	if p.Workspace == "" {
		p.Workspace = pawl.DefaultWorkspace
	}
	if p.Overlap == "" {
		p.Overlap = schedule.DefaultOverlap
	}
	if p.TimeZone == "" {
		p.TimeZone = "UTC"
	}
	if len(p.Inputs) == 0 {
		p.Inputs = json.RawMessage("{}")
	}
	switch {
	case !scheduleName.MatchString(p.Name):
		return pawl.Errorf(pawl.Invalid, "name of a schedule: %q: want letters, 0-9, . _ and -, no sign first, at most 128", p.Name)
	case p.CatchUp < 0 || p.CatchUp > MaxCatchUp:
		return pawl.Errorf(pawl.Invalid, "catch-up: %s: want 0s to %s", p.CatchUp, MaxCatchUp)
	case p.Priority < pawl.MinPriority || p.Priority > pawl.MaxPriority:
		return pawl.Errorf(pawl.Invalid, "priority: %d: want %d to %d", p.Priority, pawl.MinPriority, pawl.MaxPriority)
	case len(p.Inputs) > MaxInputs:
		return pawl.Errorf(pawl.Invalid, "inputs: %d bytes: at most %d are allowed", len(p.Inputs), MaxInputs)
	}
	return schedule.CheckOverlap(p.Overlap)
}

// PutSchedule makes a schedule or, with replace, changes the one of its name, paused or
// not. The workflow that it runs must be registered, and the inputs must fit. A new
// schedule whose name is taken is a Conflict; replacing one that does not exist is
// NotFound. A change of what is run leaves the times unchanged, including those not
// processed yet. For a new expression or time zone, the times from now on count.
func (e *Engine) PutSchedule(ctx context.Context, p pawl.SchedulePlan, replace bool, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if err := checkPlan(&p); err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, p.Workspace, "PUT /api/schedules/{name}", p, replace)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if known, done, err := r.earlier(ctx); done || err != nil {
		return known, err
	}
	cron, err := e.checkDue(ctx, &p)
	if err != nil {
		return e.refuseAction(ctx, r, err)
	}
	cmd := &putSchedule{e: e, plan: p, cron: cron, replace: replace, version: c.Version, note: noteOf(c)}
	cmd.renew()
	return e.act(ctx, r, cmd, c)
}

// checkDue checks that the workflow of a plan is registered, and that its inputs fit. It
// returns the times of the plan.
func (e *Engine) checkDue(ctx context.Context, p *pawl.SchedulePlan) (*schedule.Cron, error) {
	cron, err := schedule.Parse(p.Cron, p.TimeZone)
	if err != nil {
		return nil, err
	}
	name, version, err := workflow.ParseReference(p.Workflow)
	if err != nil {
		return nil, err
	}
	_, def, err := e.Lookup(ctx, pawl.WorkflowName{Workspace: p.Workspace, Name: name}, version)
	if err != nil {
		return nil, err
	}
	_, _, err = dueInputs(def, p.Inputs, e.cfg.Clock().UnixMicro())
	return cron, err
}

type putSchedule struct {
	e       *Engine
	id      pawl.ID         // of a new schedule
	key     rowkey.Schedule // of the one that was made or changed
	plan    pawl.SchedulePlan
	cron    *schedule.Cron
	replace bool
	version int64
	note    decide.Note
}

func (p *putSchedule) subject() store.EntityKey { return store.ScheduleEntity(p.key) }

func (p *putSchedule) renew() { p.id = p.e.NewID() }

func (p *putSchedule) query(q *store.Query) {
	q.Scheduled = append(q.Scheduled, pawl.ScheduleName{Workspace: p.plan.Workspace, Name: p.plan.Name})
}

func (p *putSchedule) decide(t *tx) error {
	s := t.scheduleNamed(pawl.ScheduleName{Workspace: p.plan.Workspace, Name: p.plan.Name})
	if err := checkVersion(p.version, s, "schedule "+p.plan.Name); err != nil {
		return err
	}
	switch {
	case s == nil && p.replace:
		return store.NoSchedule(p.plan.Name)
	case s != nil && !p.replace:
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("there is a schedule %s already", p.plan.Name), Hint: "change it with: pawl schedule update " + p.plan.Name}
	case s == nil:
		s = &pawl.Schedule{ID: p.id, Workspace: p.plan.Workspace, Name: p.plan.Name}
		p.fill(s)
		arm(s, p.cron, t.now)
		p.key = s.Key()
		t.makeSchedule(s, p.noted())
		return nil
	}
	p.key = s.Key()
	if retimed := p.fill(s); retimed && s.State == lifecycle.ScheduleActive {
		arm(s, p.cron, t.now)
	}
	return t.moveSchedule(s, lifecycle.ScheduleUpdate, p.noted())
}

// noted returns the note of the change, with the whole plan except its inputs.
func (p *putSchedule) noted() decide.Note {
	n := p.note
	n.Metadata, _ = json.Marshal(map[string]any{"workflow": p.plan.Workflow, "cron": p.plan.Cron, "timezone": p.plan.TimeZone,
		"catch_up": p.plan.CatchUp.String(), "overlap": p.plan.Overlap, "priority": p.plan.Priority})
	return n
}

// fill copies the plan into the schedule. It reports whether this changes its times.
func (p *putSchedule) fill(s *pawl.Schedule) (retimed bool) {
	retimed = s.Cron != p.plan.Cron || s.TimeZone != p.plan.TimeZone
	s.Workflow, s.Inputs, s.Cron, s.TimeZone = p.plan.Workflow, p.plan.Inputs, p.plan.Cron, p.plan.TimeZone
	s.CatchUp, s.Overlap, s.Priority = p.plan.CatchUp, p.plan.Overlap, p.plan.Priority
	return retimed
}

// arm sets when the schedule is processed next: at its next time from now on, or soon if a
// time waits. See schedule.Decide.
func arm(s *pawl.Schedule, c *schedule.Cron, now int64) {
	s.DueAt, s.DueEvent = pawl.Micros(c.Next(pawl.Time(now))), lifecycle.ScheduleFire
	if s.Waiting != 0 {
		s.DueAt = now + schedule.Poll.Microseconds()
	}
}

// scheduleNamed returns the schedule with that name unless it is removed, or nil.
func (t *tx) scheduleNamed(n pawl.ScheduleName) *pawl.Schedule {
	for k, h := range t.schedules {
		if s := h.record; s.Workspace == n.Workspace && s.Name == n.Name && s.State != lifecycle.ScheduleRemoved {
			return t.schedule(k)
		}
	}
	return nil
}

// MoveSchedule applies lifecycle.SchedulePause, ScheduleResume or ScheduleRemove. The table
// refuses with a *machine.Refusal. Jobs that the schedule made are not affected. Times that
// pass during a pause are not made up for; a time that waited before the pause keeps
// waiting.
func (e *Engine) MoveSchedule(ctx context.Context, n pawl.ScheduleName, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	switch event {
	case lifecycle.SchedulePause, lifecycle.ScheduleResume, lifecycle.ScheduleRemove:
		r, err := e.newRequest(c, n.Workspace, "POST /api/schedules/{name}/{event}", n.Name, event)
		if err != nil {
			return pawl.Receipt{}, err
		}
		return e.act(ctx, r, &moveSchedule{name: n, event: event, version: c.Version, note: noteOf(c)}, c)
	}
	return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "event %q of a schedule: want pause, resume or remove", event)
}

type moveSchedule struct {
	name    pawl.ScheduleName
	event   machine.Event
	version int64
	note    decide.Note
	key     rowkey.Schedule // found by its name
}

func (m *moveSchedule) subject() store.EntityKey { return store.ScheduleEntity(m.key) }

func (m *moveSchedule) query(q *store.Query) { q.Scheduled = append(q.Scheduled, m.name) }

func (m *moveSchedule) decide(t *tx) error {
	s := t.scheduleNamed(m.name)
	if err := checkVersion(m.version, s, "schedule "+m.name.Name); err != nil {
		return err
	}
	if s == nil {
		return store.NoSchedule(m.name.Name)
	}
	m.key = s.Key()
	if err := t.moveSchedule(s, m.event, m.note); err != nil {
		return err
	}
	if s.State != lifecycle.ScheduleActive {
		s.DueAt, s.DueEvent = 0, ""
		return nil
	}
	c, err := schedule.Parse(s.Cron, s.TimeZone)
	if err != nil {
		return err
	}
	arm(s, c, t.now)
	return nil
}

// dueInputs returns the inputs and the concurrency key of a job that was due at
// the given time.
func dueInputs(def *workflow.Definition, inputs json.RawMessage, due int64) (bound json.RawMessage, key string, err error) {
	given := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(inputs))
	d.UseNumber()
	if err := d.Decode(&given); err != nil || given == nil {
		return nil, "", pawl.Errorf(pawl.Invalid, "inputs: want a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, "", pawl.Errorf(pawl.Invalid, "inputs: want one JSON object, and nothing behind it")
	}
	if _, set := given[ScheduledAt]; !set && takes(def, ScheduledAt) {
		given[ScheduledAt] = rfc3339(due)
	}
	if bound, err = def.BindInputs(given); err != nil {
		return nil, "", err
	}
	key, err = concurrencyKey(def, bound)
	return bound, key, err
}

func takes(def *workflow.Definition, input string) bool {
	for i := range def.Inputs {
		if def.Inputs[i].Name == input {
			return true
		}
	}
	return false
}

// rfc3339 writes a time in UTC, in whole seconds.
func rfc3339(at int64) string { return pawl.Time(at).Format(time.RFC3339) }
