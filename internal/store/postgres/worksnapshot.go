package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	// Work that waits for a worker, by route. Work that only one process may run is excluded.
	readWaiting = `select w.route, sum(w.jobs), sum(w.steps), min(w.since), (select uuid from job where id = (array_agg(w.job order by w.since))[1])
from (
  select route, 1 as jobs, 0 as steps, created_at as since, id as job from job where line = 1 and not paused and route <> 0 and private = 0
  union all
  select s.route, 0, 1, s.enqueued_at, s.job from step s join job j on j.id = s.job where s.line = 1 and j.private = 0
) w group by w.route order by w.route`
	readOpen = `select count(*) from ` + openJobs + ` o where not paused and private = 0`
	readLate = `with now as materialized (select (` + clock + `)::bigint as at)
select 'deadlines', 'jobs', count(*), min(due_at) from job, now where due_at > 0 and due_at <= at and private = 0
union all select 'deadlines', 'steps', count(*), min(s.due_at) from step s join job j on j.id = s.job, now where s.due_at > 0 and s.due_at <= at and j.private = 0
union all select 'deadlines', 'schedules', count(*), min(due_at) from schedule, now where due_at > 0 and due_at <= at
union all select 'deadlines', 'tokens', count(*), min(due_at) from token, now where due_at > 0 and due_at <= at
union all select 'evaluation', 'jobs', count(*), min(updated_at) from job where mark_at > 0 and private = 0
union all select 'evaluation', 'steps', count(*), min(s.updated_at) from step s join job j on j.id = s.job where s.mark_at > 0 and j.private = 0`
)

// WorkSnapshot returns the work in the database and the processes on it.
func (db *DB) WorkSnapshot(ctx context.Context) (*health.Snapshot, error) {
	w := new(health.Snapshot)
	for _, q := range []struct {
		doing, sql string
		row        func(*cursor)
	}{
		{"count what waits", readWaiting, func(c *cursor) {
			x := health.Waiting{Route: rowkey.Route(c.num()), Jobs: c.int(), Steps: c.int(), Oldest: c.num()}
			c.fixed(x.Job[:])
			w.Waiting = append(w.Waiting, x)
		}},
		{"count what is open", readOpen, func(c *cursor) { w.Open = c.int() }},
		{"count what is late", readLate, func(c *cursor) {
			if l := (health.Late{Check: c.word(), What: c.word(), Count: c.int(), Since: c.num()}); l.Count > 0 {
				w.Late = append(w.Late, l)
			}
		}},
	} {
		if err := db.query(ctx, q.doing, q.sql, q.row); err != nil {
			return nil, err
		}
	}
	before := pawl.Micros(time.Now())
	if err := db.query(ctx, "ask for the time", "select "+clock, func(c *cursor) { w.Now = c.num() }); err != nil {
		return nil, err
	}
	w.Skew = health.Skew(before, pawl.Micros(time.Now()), w.Now)
	return w, db.staff(ctx, w)
}

// staff adds the processes to a snapshot.
func (db *DB) staff(ctx context.Context, w *health.Snapshot) (err error) {
	if w.Nodes, err = db.Nodes(ctx); err != nil {
		return err
	}
	if w.Workers, err = db.Workers(ctx, store.WorkerFilter{Living: true}); err != nil {
		return err
	}
	w.Living, err = db.Observe(ctx)
	return err
}
