package client

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Schedules makes jobs at the times of cron expressions. A schedule is identified by
// its name in the client's workspace. A change returns what it did to the schedule.
type Schedules struct{ base }

func (s *Schedules) named(name string) pawl.ScheduleName {
	return pawl.ScheduleName{Workspace: s.config.Workspace, Name: name}
}

// Create makes a schedule. A name that is taken is an error of kind Conflict.
func (s *Schedules) Create(ctx context.Context, p pawl.SchedulePlan, c pawl.Change) (pawl.Receipt, error) {
	p.Workspace = s.workspace(p.Workspace)
	return s.engine.PutSchedule(ctx, p, false, s.by(c))
}

// Replace changes the schedule of that name, whether it is paused or not.
func (s *Schedules) Replace(ctx context.Context, p pawl.SchedulePlan, c pawl.Change) (pawl.Receipt, error) {
	p.Workspace = s.workspace(p.Workspace)
	return s.engine.PutSchedule(ctx, p, true, s.by(c))
}

// Pause keeps a schedule from making jobs.
func (s *Schedules) Pause(ctx context.Context, name string, c pawl.Change) (pawl.Receipt, error) {
	return s.Move(ctx, name, lifecycle.SchedulePause, c)
}

// Resume ends a pause. Times that passed meanwhile make no jobs.
func (s *Schedules) Resume(ctx context.Context, name string, c pawl.Change) (pawl.Receipt, error) {
	return s.Move(ctx, name, lifecycle.ScheduleResume, c)
}

// Move applies an event of the schedule's table: pause, resume or remove.
func (s *Schedules) Move(ctx context.Context, name string, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.MoveSchedule(ctx, s.named(name), event, s.by(c))
}

// Trigger makes a job of the schedule now, and returns its id.
func (s *Schedules) Trigger(ctx context.Context, name string, c pawl.Change) (pawl.ID, error) {
	return jobOf(s.engine.TriggerSchedule(ctx, s.named(name), s.by(c)))
}

// List calls f with the schedules, by name, each with its next times, of which next is
// the number. It ends with the first error of f.
func (s *Schedules) List(ctx context.Context, next int, f func(*pawl.ScheduleView) error) error {
	return s.engine.Schedules(ctx, s.config.Workspace, next, f)
}

// Get returns a schedule with its next times, of which next is the number.
func (s *Schedules) Get(ctx context.Context, name string, next int) (*pawl.ScheduleView, error) {
	return s.engine.Schedule(ctx, s.named(name), next)
}

// History calls f with every move of a schedule, oldest first, likewise.
func (s *Schedules) History(ctx context.Context, name string, f func(pawl.Transition) error) error {
	return s.engine.ScheduleHistory(ctx, s.named(name), f)
}

// Followed reports whether an engine fires schedules and evaluates jobs at the moment:
// this one, or that of a server on the same database.
func (s *Schedules) Followed(ctx context.Context) (bool, error) { return s.engine.Followed(ctx) }
