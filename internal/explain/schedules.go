package explain

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Schedules calls f with the schedules of a workspace that are not removed, by name, each
// with its next times, as many as next says. It reads pages, and ends with the first error
// of f.
func (r *Reader) Schedules(ctx context.Context, workspace string, next int, f func(*pawl.ScheduleView) error) error {
	after := pawl.ScheduleName{}
	read := func() ([]*pawl.Schedule, error) {
		return r.store.Schedules(ctx, pawl.ScheduleName{Workspace: workspace}, after, store.ListPage)
	}
	return store.EachOf(read, func(s *pawl.Schedule) error {
		after = pawl.ScheduleName{Workspace: s.Workspace, Name: s.Name}
		v, err := r.scheduleView(ctx, s, next)
		if err != nil {
			return err
		}
		return f(v)
	})
}

// Schedule returns a schedule by its name, with its next times, as many as next says.
func (r *Reader) Schedule(ctx context.Context, n pawl.ScheduleName, next int) (*pawl.ScheduleView, error) {
	s, err := store.FindSchedule(ctx, r.store, n)
	if err != nil {
		return nil, err
	}
	return r.scheduleView(ctx, s, next)
}

// ScheduleHistory calls f with every move of a schedule, by its name, oldest first. It ends
// with the first error of f.
func (r *Reader) ScheduleHistory(ctx context.Context, n pawl.ScheduleName, f func(pawl.Transition) error) error {
	s, err := store.FindSchedule(ctx, r.store, n)
	if err != nil {
		return err
	}
	return r.moves(ctx, store.ScheduleEntity(s.Key()), f)
}

func (r *Reader) scheduleView(ctx context.Context, s *pawl.Schedule, next int) (*pawl.ScheduleView, error) {
	v := &pawl.ScheduleView{ID: s.ID.Public(pawl.SchedulePrefix), Name: s.Name, Workspace: s.Workspace, Status: s.State, Workflow: s.Workflow,
		Inputs: orObject(s.Inputs), Cron: s.Cron, TimeZone: s.TimeZone, CatchUp: pawl.Duration(s.CatchUp), Overlap: s.Overlap,
		Priority: s.Priority, Next: []pawl.Timestamp{}, Waiting: pawl.Timestamp(s.Waiting), LastDue: pawl.Timestamp(s.Due), Version: s.Version()}
	if s.State == lifecycle.ScheduleActive {
		c, err := schedule.Parse(s.Cron, s.TimeZone)
		if err != nil {
			return nil, err
		}
		for _, at := range schedule.Upcoming(c, r.cfg.Clock(), next) {
			v.Next = append(v.Next, pawl.Timestamp(pawl.Micros(at)))
		}
	}
	if s.LastJob == 0 {
		return v, nil
	}
	j, err := r.store.Job(ctx, s.LastJob)
	if errors.Is(err, store.ErrNotFound) {
		return v, nil
	}
	if err == nil {
		id := j.ID.Public(pawl.JobPrefix)
		v.LastJob, v.LastState = &id, j.State
	}
	return v, err
}
