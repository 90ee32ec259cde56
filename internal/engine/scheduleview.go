package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A ScheduleView is a schedule as JSON shows it.
type ScheduleView struct {
	ID        string           `json:"id"`
	Name      string           `json:"name"`
	Workspace string           `json:"workspace_id"`
	Status    machine.State    `json:"status"`
	Workflow  string           `json:"workflow"`
	Inputs    json.RawMessage  `json:"inputs"`
	Cron      string           `json:"cron"`
	TimeZone  string           `json:"timezone"`
	CatchUp   pawl.Duration    `json:"catch_up"`
	Overlap   string           `json:"overlap"`
	Priority  int              `json:"priority"`
	Next      []pawl.Timestamp `json:"next"`     // none while it is paused
	Waiting   pawl.Timestamp   `json:"waiting"`  // the time whose job waits for the last one to end
	LastDue   pawl.Timestamp   `json:"last_due"` // when the last job was due
	LastJob   *string          `json:"last_job"` // none if it was removed
	LastState machine.State    `json:"last_status,omitempty"`
}

// Schedules lists the schedules of a workspace that are not removed, by name, with
// so many of their next times.
func (e *Engine) Schedules(ctx context.Context, workspace string, next int) ([]ScheduleView, error) {
	all, err := e.store.Schedules(ctx, store.ScheduleName{Workspace: workspace})
	if err != nil {
		return nil, err
	}
	views := make([]ScheduleView, 0, len(all))
	for _, s := range all {
		v, err := e.scheduleView(ctx, s, next)
		if err != nil {
			return nil, err
		}
		views = append(views, *v)
	}
	return views, nil
}

// Schedule answers a schedule by its name, with so many of its next times.
func (e *Engine) Schedule(ctx context.Context, n store.ScheduleName, next int) (*ScheduleView, error) {
	s, err := e.findSchedule(ctx, n)
	if err != nil {
		return nil, err
	}
	return e.scheduleView(ctx, s, next)
}

// ScheduleHistory answers every move of a schedule, by its name, oldest first.
func (e *Engine) ScheduleHistory(ctx context.Context, n store.ScheduleName) ([]pawl.Transition, error) {
	s, err := e.findSchedule(ctx, n)
	if err != nil {
		return nil, err
	}
	trail, err := e.store.Trail(ctx, store.EntityKey{Kind: lifecycle.Schedule.Name, StepKey: pawl.StepKey{Job: s.Key()}})
	moves := make([]pawl.Transition, len(trail))
	for i := range trail {
		moves[i] = pawl.TransitionOf(&trail[i])
	}
	return moves, err
}

func (e *Engine) findSchedule(ctx context.Context, n store.ScheduleName) (*pawl.Schedule, error) {
	if n.Name == "" {
		return nil, noSchedule(n.Name)
	}
	found, err := e.store.Schedules(ctx, n)
	if err == nil && len(found) == 0 {
		err = noSchedule(n.Name)
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (e *Engine) scheduleView(ctx context.Context, s *pawl.Schedule, next int) (*ScheduleView, error) {
	v := &ScheduleView{ID: s.ID.Public(pawl.SchedulePrefix), Name: s.Name, Workspace: s.Workspace, Status: s.State, Workflow: s.Workflow,
		Inputs: orObject(s.Inputs), Cron: s.Cron, TimeZone: s.TimeZone, CatchUp: pawl.Duration(s.CatchUp), Overlap: s.Overlap,
		Priority: s.Priority, Next: []pawl.Timestamp{}, Waiting: pawl.Timestamp(s.Waiting), LastDue: pawl.Timestamp(s.Due)}
	if s.State == lifecycle.ScheduleActive {
		c, err := schedule.Parse(s.Cron, s.TimeZone)
		if err != nil {
			return nil, err
		}
		for _, at := range schedule.Upcoming(c, e.cfg.Clock(), next) {
			v.Next = append(v.Next, pawl.Timestamp(pawl.Micros(at)))
		}
	}
	if s.LastJob == 0 {
		return v, nil
	}
	j, err := e.store.Job(ctx, s.LastJob)
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	if err == nil {
		id := j.ID.Public(pawl.JobPrefix)
		v.LastJob, v.LastState = &id, j.State
	}
	return v, err
}
