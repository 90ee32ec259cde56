package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// schedules reads the schedules that the query names by key or by name.
func (r *reading) schedules(q *store.Query) error {
	for _, k := range q.Schedules {
		if err := r.schedule(selectSchedule, func(b *row) { b.int(int64(k)) }); err != nil {
			return err
		}
	}
	for _, n := range q.Scheduled {
		err := r.schedule(selectScheduled, func(b *row) {
			b.text(n.Workspace)
			b.text(n.Name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) schedule(s statement, bind func(*row)) error {
	return r.c.each(s, bind, func(c *columns) error {
		found := scheduleTable.readWhole(c)
		if k := found.Key(); r.decoded(c, lifecycle.Schedule.Name, k) && r.f.Schedules[k] == nil {
			r.f.Schedules[k] = found
		}
		return nil
	})
}

func writeSchedules(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, s := range ch.NewSchedules {
		if err := c.run(insertSchedule, func(r *row) { writeColumns(r, scheduleTable.insert, s) }); err != nil {
			return inserted(err, lifecycle.Schedule.Name, s.Name)
		}
	}
	for _, u := range ch.Schedules {
		err := update(c, updateSchedule, scheduleTable, scheduleTable.change, u)
		if err := c.updated(err, lifecycle.Schedule.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

// Schedule reads a schedule.
func (db *DB) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	schedules, err := db.listSchedules(ctx, selectSchedule, 0, func(b *row) { b.int(int64(key)) })
	if len(schedules) == 0 {
		return found[pawl.Schedule](nil, err, lifecycle.Schedule.Name, key)
	}
	return schedules[0], err
}

// Schedules lists the schedules that are not removed, by name.
func (db *DB) Schedules(ctx context.Context, n, after pawl.ScheduleName, limit int) ([]*pawl.Schedule, error) {
	return db.listSchedules(ctx, selectSchedules, limit, func(b *row) {
		b.text(n.Workspace)
		b.text(n.Name)
		b.text(after.Name)
		b.text(after.Workspace)
		b.int(bound(limit))
	})
}

// HeldSchedules goes through the schedules that wait for more than their next time. They are
// few, and no index has them.
func (db *DB) HeldSchedules(ctx context.Context, after rowkey.Schedule, limit int) (keys []rowkey.Schedule, err error) {
	err = db.read(ctx, "look for schedules that are held back", func(c *conn) error {
		keys = nil
		return c.each(selectHeldSchedules, func(b *row) { b.ints(int64(after), int64(limit)) }, func(cols *columns) error {
			keys = append(keys, rowkey.Schedule(cols.int()))
			return cols.finish()
		})
	})
	return keys, err
}

func (db *DB) listSchedules(ctx context.Context, s statement, limit int, bind func(*row)) ([]*pawl.Schedule, error) {
	var schedules []*pawl.Schedule
	err := db.read(ctx, "read schedules", func(c *conn) error {
		page := page[pawl.Schedule]{of: scheduleTable.bodies, at: len(scheduleTable.read), limit: limit}
		return page.end(c.each(s, bind, func(cols *columns) error {
			if s := scheduleTable.readWhole(cols); decoded(db.log, cols, lifecycle.Schedule.Name, s.Key()) {
				schedules = append(schedules, s)
			}
			return page.add(cols)
		}))
	})
	return schedules, err
}
