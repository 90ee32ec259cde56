package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// stretch goes through the table running by key, which is random, and through the jobs of
// each row.
var stretch = `with k as materialized (
  select r.id as place, u.job from (select id, jobs from running where id >= $1 order by id limit $3 + 1) r cross join lateral unnest(r.jobs) u(job)
  where r.id > $1 or u.job > $2 order by r.id, u.job limit $3
)
select k.place, k.job, j.id is not null, ` + names("j", jobTable.plain) + `
from k left join lateral (select * from job where id = k.job and state = 'RUNNING' offset 0) j on true order by k.place, k.job`

// Running goes through the jobs that run.
func (db *DB) Running(ctx context.Context, from store.Spot, limit int) ([]store.Passed, error) {
	var passed []store.Passed
	err := db.query(ctx, "go through what runs", stretch, func(c *cursor) {
		p := store.Passed{At: store.Spot{c.num(), c.num()}}
		if c.flag() {
			if j := jobTable.read(c); c.err == nil {
				p.Job = j
			}
		}
		passed = append(passed, p)
	}, from[0], from[1], limit)
	return passed, err
}

// maxRunningKey is the end of the keys that rows of the table running have by default.
const maxRunningKey = 9e18

// SpotAt reads nothing: the keys of the rows are random.
func (db *DB) SpotAt(_ context.Context, share float64) (store.Spot, error) {
	return store.Spot{int64(share * maxRunningKey)}, nil
}

// Bare reads steps of a job without bodies.
func (db *DB) Bare(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	var steps []*pawl.Step
	sql := "select " + names("", stepTable.plain) + " from step where job = $1 and ord > $2 and " + jobThere + " order by ord limit $3"
	err := db.query(ctx, "read steps", sql, func(c *cursor) {
		if s := stepTable.read(c); c.err == nil {
			steps = append(steps, s)
		}
	}, int64(job), int64(after), limit)
	return steps, err
}

// Unstarted goes through the table of jobs by its primary key. A job in a line that does not
// match its state is lost.
func (db *DB) Unstarted(ctx context.Context, after rowkey.Job, limit int) (found []store.Unstarted, last rowkey.Job, err error) {
	const end = "select coalesce(max(id), 0) from (select id from job where id > $1 order by id limit $2) j"
	err = db.query(ctx, "go through what is to be started", end, func(c *cursor) { last = rowkey.Job(c.num()) }, int64(after), limit)
	if err != nil || last == 0 {
		return nil, 0, err
	}
	sql := "select line <> 1, " + names("", jobTable.plain) + " from job where id > $1 and id <= $2 and state = 'PENDING' and not paused order by id"
	err = db.query(ctx, "go through what is to be started", sql, func(c *cursor) {
		lost := c.flag()
		if j := jobTable.read(c); c.err == nil {
			found = append(found, store.Unstarted{Job: j, Lost: lost})
		}
	}, int64(after), int64(last))
	return found, last, err
}
