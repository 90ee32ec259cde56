package postgres

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// readLines finds each route by one probe of the index, however many steps wait on it.
var readLines = `with recursive r(route) as (
  (select route from step where line = 1 order by route limit 1)
  union all
  select n.route from r cross join lateral (select route from step where line = 1 and route > r.route order by route limit 1) n
)
select r.route, o.job, c.n, o.at, 0 from (select route from r limit $1) r
  cross join lateral (select count(*) as n from step where line = 1 and route = r.route) c
  cross join lateral (select min(job) as job, min(enqueued_at) as at from (
    select job, enqueued_at from step where line = 1 and route = r.route order by rank, job, ord` + limited(store.OldestAmong) + `) s) o
union all select route, min(job), 0, 0, count(*) from ` + heldSteps + ` h group by route`

// Lines counts what is on each route; see store.Views.
func (db *DB) Lines(ctx context.Context, limit int) ([]store.Line, error) {
	lines := make(store.Lines)
	err := db.query(ctx, "count steps by route", readLines, func(c *cursor) {
		l := store.Line{Route: rowkey.Route(c.num()), Job: rowkey.Job(c.num()), Enqueued: c.int(), Oldest: c.num(), Running: c.int()}
		if c.err == nil {
			lines.Add(l)
		}
	}, limit)
	return lines.Sorted(), err
}

// JobSequence adds up sequences; see store.Views.
func (db *DB) JobSequence(ctx context.Context, key rowkey.Job) (id pawl.ID, sum int64, err error) {
	there := false
	err = db.query(ctx, "read the sequence of a job", "select uuid, seq + coalesce((select sum(seq) from step where job = $1), 0)::bigint from job where id = $1", func(c *cursor) {
		there = true
		c.fixed(id[:])
		sum = c.num()
	}, int64(key))
	return id, sum, missing(err, !there)
}

// The kinds of rows that Counts reads.
const (
	countOpenJobs = iota
	countNewestJobs
	countLivingWorkers
	countNewestWorkers
	countEnqueued
	countInProgress
)

// Counts counts records by state; see store.Views.
func (db *DB) Counts(ctx context.Context, workspace string, newest int) (*store.Counts, error) {
	n := store.NewCounts(newest)
	sql, args := countsQuery(workspace, newest)
	err := db.query(ctx, "count what there is", sql, func(c *cursor) {
		kind, state, of, count := c.int(), machine.State(c.word()), c.flag(), c.int()
		if count == 0 {
			return
		}
		switch kind {
		case countOpenJobs:
			n.Jobs[state] += count
		case countNewestJobs:
			n.Newest(lifecycle.Job, n.Jobs, state, of, count)
		case countLivingWorkers:
			n.Workers[state] += count
		case countNewestWorkers:
			n.Newest(lifecycle.Worker, n.Workers, state, of, count)
		case countEnqueued:
			n.Steps[lifecycle.StepEnqueued] += count
		case countInProgress:
			n.Steps[lifecycle.StepInProgress] += count
		}
	}, args...)
	return n.Done(), err
}

// countsQuery returns a query of which each part reads what is in flight, or the newest.
func countsQuery(workspace string, newest int) (sql string, args []any) {
	of, where, and := "true", "", ""
	steps := func(kind int, from string) string {
		return fmt.Sprintf("\nunion all select %d, '', true, count(*) from %s", kind, from)
	}
	if workspace != "" {
		args = []any{storable(workspace)}
		of, where, and = "workspace = $1", " where workspace = $1", " and workspace = $1"
		steps = func(kind int, from string) string {
			return fmt.Sprintf("\nunion all select %d, '', true, coalesce(sum(k.n), 0)::bigint from (select job, count(*) as n from %s group by job) k"+
				" cross join lateral (select workspace from job where id = k.job offset 0) j where workspace = $1", kind, from)
		}
	}
	newestOf := func(kind int, table string) string {
		return fmt.Sprintf("\nunion all select %d, state, mine, count(*) from (select state, %s as mine from %s order by id desc%s) t group by state, mine",
			kind, of, table, limited(newest))
	}
	return fmt.Sprintf("select %d, state, true, count(*) from %s job%s group by state", countOpenJobs, openJobs, where) +
		newestOf(countNewestJobs, "job") +
		fmt.Sprintf("\nunion all select %d, state, true, count(*) from worker where %s%s group by state", countLivingWorkers, livingWorker, and) +
		newestOf(countNewestWorkers, "worker") +
		steps(countEnqueued, "step where line = 1") +
		steps(countInProgress, heldSteps+" h") +
		steps(countInProgress, "step where line = 2 and worker = 0"), args
}
