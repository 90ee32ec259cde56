package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

var (
	newScheduleColumns = join(scheduleFixed, scheduleMoving, scheduleBodies)
	setScheduleColumns = join(columns("bigint id, bigint was"), scheduleMoving, scheduleBodies)

	readSchedules = &statement{"read_schedules", `with k as (
  select unnest($1::bigint[]) as id
  union
  select s.id from (select unnest($2::text[]) as workspace, unnest($3::text[]) as name) u cross join lateral
    (select id from schedule t where t.workspace = u.workspace and t.name = u.name and t.state <> 'removed' offset 0) s
)
select ` + names("s", scheduleWhole) + ` from (select id from k order by id) k cross join lateral
  (select * from schedule where schedule.id = k.id for update) s`}
	newSchedules = &statement{"new_schedules", insert("schedule", newScheduleColumns, "")}
	setSchedules = &statement{"set_schedules", update("schedule", columns("bigint id"), scheduleMoving, scheduleBodies)}
)

func (r *rows) scheduleFixed(s *pawl.Schedule) {
	r.num(s.Key())
	r.blob(s.ID[:])
	r.text(s.Workspace)
	r.text(s.Name)
	r.num(s.CreatedAt)
}

func (r *rows) scheduleMoving(s *pawl.Schedule) {
	r.record(&s.Record)
	r.text(s.Workflow)
	r.text(s.Cron)
	r.text(s.TimeZone)
	r.num(int64(s.CatchUp))
	r.text(s.Overlap)
	r.num(int64(s.Priority))
	r.num(s.Due)
	r.num(s.LastJob)
	r.num(s.Waiting)
}

// schedule reads a schedule with its inputs (scheduleWhole).
func (c *cursor) schedule() *pawl.Schedule {
	s := new(pawl.Schedule)
	c.fixed(s.ID[:])
	s.Workspace = c.text()
	s.Name = c.text()
	s.CreatedAt = c.num()
	c.record(&s.Record)
	s.Workflow = c.text()
	s.Cron = c.text()
	s.TimeZone = c.text()
	s.CatchUp = time.Duration(c.num())
	s.Overlap = c.text()
	s.Priority = c.int()
	s.Due = c.num()
	s.LastJob = c.num()
	s.Waiting = c.num()
	s.Inputs = c.body()
	return s
}

func (r *reading) queueSchedules(p *pipe) {
	if len(r.q.Schedules)+len(r.q.Scheduled) == 0 {
		return
	}
	workspaces, names := make([]string, len(r.q.Scheduled)), make([]string, len(r.q.Scheduled))
	for i, n := range r.q.Scheduled {
		workspaces[i], names[i] = n.Workspace, n.Name
	}
	p.add(readSchedules, r.schedule, nums(r.q.Schedules), texts(workspaces), texts(names))
}

// schedule reads a row. One that was found by its name, and removed while this
// transaction waited for its lock, is left out.
func (r *reading) schedule(c *cursor) {
	s := c.schedule()
	if c.err != nil || s.State == lifecycle.ScheduleRemoved && !slices.Contains(r.q.Schedules, s.Key()) {
		return
	}
	r.Schedules[s.Key()] = s
}

func (w *writing) schedules(ch *store.Changes) {
	if len(ch.NewSchedules) > 0 {
		r := collect(newScheduleColumns, len(ch.NewSchedules))
		for _, s := range ch.NewSchedules {
			r.scheduleFixed(s)
			r.scheduleMoving(s)
			r.body(s.Inputs)
		}
		w.insert(newSchedules, r)
	}
	if len(ch.Schedules) > 0 {
		r := collect(setScheduleColumns, len(ch.Schedules))
		for _, u := range ch.Schedules {
			r.num(u.Record.Key())
			r.num(u.Was)
			r.scheduleMoving(u.Record)
			r.body(u.Record.Inputs)
		}
		w.update(setSchedules, r, len(ch.Schedules))
	}
}

// Schedule reads a schedule.
func (db *DB) Schedule(ctx context.Context, key int64) (*pawl.Schedule, error) {
	var found *pawl.Schedule
	err := db.query(ctx, "read a schedule", "select "+names("", scheduleWhole)+" from schedule where id = $1",
		scheduleInto(func(s *pawl.Schedule) { found = s }), key)
	return found, missing(err, found == nil)
}

// Schedules lists the schedules that are not removed, of a workspace unless it
// is empty, by name.
func (db *DB) Schedules(ctx context.Context, workspace string) ([]*pawl.Schedule, error) {
	w := where{list: []string{"state <> 'removed'"}}
	if workspace != "" {
		w.add("workspace = $%d", storable(workspace))
	}
	var list []*pawl.Schedule
	err := db.query(ctx, "list schedules", "select "+names("", scheduleWhole)+" from schedule"+w.String()+byName,
		scheduleInto(func(s *pawl.Schedule) { list = append(list, s) }), w.args...)
	return list, err
}

// byName is the order of lists of what has a name, whatever the language of the
// database.
const byName = " order by " + nameOrder

const nameOrder = `name collate "C", workspace collate "C"`

func scheduleInto(f func(*pawl.Schedule)) func(*cursor) {
	return func(c *cursor) {
		if s := c.schedule(); c.err == nil {
			f(s)
		}
	}
}
