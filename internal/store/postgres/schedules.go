package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var (
	readSchedules = &statement{"read_schedules", `with k as (
  select unnest($1::bigint[]) as id
  union
  select s.id from (select unnest($2::text[]) as workspace, unnest($3::text[]) as name) u cross join lateral
    (select id from schedule t where t.workspace = u.workspace and t.name = u.name and t.state <> 'removed' offset 0) s
)
select ` + names("s", scheduleTable.whole) + ` from (select id from k order by id) k cross join lateral
  (select * from schedule where schedule.id = k.id for update) s`}
	newSchedules = &statement{"new_schedules", insert("schedule", scheduleTable.fresh, "")}
	setSchedules = &statement{"set_schedules", update(scheduleTable)}
)

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

// schedule reads a row. It omits a schedule that was found by its name and removed while this
// transaction waited for its lock.
func (r *reading) schedule(c *cursor) {
	s := scheduleTable.readWhole(c)
	if c.err != nil || s.State == lifecycle.ScheduleRemoved && !slices.Contains(r.q.Schedules, s.Key()) {
		return
	}
	r.Schedules[s.Key()] = s
}

func (w *writing) schedules(ch *store.Changes) {
	made, err := scheduleTable.rowsOf(ch.NewSchedules)
	w.check(err)
	w.insert(newSchedules, made)
	change(w, setSchedules, scheduleTable, ch.Schedules)
}

// Schedule reads a schedule.
func (db *DB) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	var found *pawl.Schedule
	err := db.query(ctx, "read a schedule", "select "+names("", scheduleTable.whole)+" from schedule where id = $1",
		scheduleInto(func(s *pawl.Schedule) { found = s }), int64(key))
	return found, missing(err, found == nil)
}

// Schedules lists the schedules that are not removed, by name.
func (db *DB) Schedules(ctx context.Context, n, after pawl.ScheduleName, limit int) ([]*pawl.Schedule, error) {
	w := where{list: []string{"state <> 'removed'"}}
	if n.Workspace != "" {
		w.add("workspace = $%d", storable(n.Workspace))
	}
	if n.Name != "" {
		w.add("name = $%d", storable(n.Name))
	}
	w.behind(after.Name, after.Workspace)
	var list []*pawl.Schedule
	err := db.query(ctx, "list schedules", scheduleTable.page(nameOrder, "select * from schedule"+w.String(), limit),
		scheduleInto(func(s *pawl.Schedule) { list = append(list, s) }), w.args...)
	return list, err
}

// byName is the order of lists by name, independent of the language of the database.
const byName = " order by " + nameOrder

const nameOrder = `name collate "C", workspace collate "C"`

// HeldSchedules goes through the schedules that wait for more than their next time. They are
// few, and no index has them.
func (db *DB) HeldSchedules(ctx context.Context, after rowkey.Schedule, limit int) (keys []rowkey.Schedule, err error) {
	const sql = "select id from schedule where state = 'active' and (due_at <= 0 or waiting <> 0) and id > $1 order by id limit $2"
	err = db.query(ctx, "look for schedules that are held back", sql, func(c *cursor) { keys = append(keys, rowkey.Schedule(c.num())) }, int64(after), limit)
	return keys, err
}

// behind adds the condition that a record comes after a name in that order.
func (w *where) behind(name, workspace string) {
	if name != "" {
		w.args = append(w.args, storable(name), storable(workspace))
		w.list = append(w.list, fmt.Sprintf("("+nameOrder+") > ($%d, $%d)", len(w.args)-1, len(w.args)))
	}
}

func scheduleInto(f func(*pawl.Schedule)) func(*cursor) {
	return func(c *cursor) {
		if s := scheduleTable.readWhole(c); c.err == nil {
			f(s)
		}
	}
}
