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

// Schedules calls f with the schedules of a workspace that are not removed, by name, with
// so many of their next times. It reads pages, and ends with the first error of f.
func (e *Engine) Schedules(ctx context.Context, workspace string, next int, f func(*ScheduleView) error) error {
	after := store.ScheduleName{}
	read := func() ([]*pawl.Schedule, error) {
		return e.store.Schedules(ctx, store.ScheduleName{Workspace: workspace}, after, listPage)
	}
	return eachOf(read, func(s *pawl.Schedule) error {
		after = store.ScheduleName{Workspace: s.Workspace, Name: s.Name}
		v, err := e.scheduleView(ctx, s, next)
		if err != nil {
			return err
		}
		return f(v)
	})
}

// Schedule answers a schedule by its name, with so many of its next times.
func (e *Engine) Schedule(ctx context.Context, n store.ScheduleName, next int) (*ScheduleView, error) {
	s, err := e.findSchedule(ctx, n)
	if err != nil {
		return nil, err
	}
	return e.scheduleView(ctx, s, next)
}

// ScheduleHistory calls f with every move of a schedule, by its name, oldest first. It
// ends with the first error of f.
func (e *Engine) ScheduleHistory(ctx context.Context, n store.ScheduleName, f func(pawl.Transition) error) error {
	s, err := e.findSchedule(ctx, n)
	if err != nil {
		return err
	}
	return e.moves(ctx, store.EntityKey{Kind: lifecycle.Schedule.Name, StepKey: pawl.StepKey{Job: s.Key()}}, f)
}

func (e *Engine) findSchedule(ctx context.Context, n store.ScheduleName) (*pawl.Schedule, error) {
	if n.Name == "" {
		return nil, noSchedule(n.Name)
	}
	found, err := e.store.Schedules(ctx, n, store.ScheduleName{}, 1)
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
