package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// readRoutes finds each route by one probe of the index, however many steps wait on it.
const readRoutes = `with recursive r(route) as (
  (select route from step where line = 1 order by route limit 1)
  union all
  select n.route from r cross join lateral (select route from step where line = 1 and route > r.route order by route limit 1) n
)`

var readLines = readRoutes + `
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
	countPending = iota
	countSubmitted
	countRunning
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
		case countPending:
			n.Jobs[lifecycle.JobPending] += count
		case countSubmitted:
			n.Jobs[lifecycle.JobSubmitted] += count
		case countRunning:
			n.Jobs[lifecycle.JobRunning] += count
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

// runningJobs are the jobs that run, each found by its key.
const runningJobs = "(select id from job where line = 3 union select unnest(jobs) from running) k" +
	" cross join lateral (select workspace from job where job.id = k.id and state = $1 offset 0) j"

// countsQuery returns a query of which each part reads what is in flight, or the newest. What
// is in a line needs no more than an index, if it is of any workspace. All steps on a route
// are of one workspace.
func countsQuery(workspace string, newest int) (sql string, args []any) {
	args = []any{lifecycle.JobRunning}
	of, and, routes := "true", "", "step where line = 1"
	steps := "%s"
	if workspace != "" {
		args = append(args, storable(workspace))
		of, and = "workspace = $2", " and workspace = $2"
		steps = "(select job, count(*) as n from %s group by job) k cross join lateral (select workspace from job where id = k.job offset 0) j where workspace = $2"
		routes = `(` + readRoutes + ` select c.n, f.job from r
  cross join lateral (select count(*) as n from step where line = 1 and route = r.route) c
  cross join lateral (select job from step where line = 1 and route = r.route order by rank, job, ord limit 1) f) k
  cross join lateral (select workspace from job where id = k.job offset 0) j where workspace = $2`
	}
	number := "count(*)"
	var parts []string
	add := func(kind int, state, mine, from string) {
		group := ""
		if state != "''" {
			group = " group by state"
		}
		if mine != "true" {
			group += ", mine"
		}
		parts = append(parts, fmt.Sprintf("select %d, %s, %s, %s from %s%s", kind, state, mine, number, from, group))
	}
	recent := func(table string) string {
		return "(select state, " + of + " as mine from " + table + " order by id desc" + limited(newest) + ") t"
	}
	add(countPending, "''", "true", "job where line = 1"+and)
	add(countSubmitted, "''", "true", "job where line = 2"+and)
	add(countRunning, "''", "true", runningJobs+" where true"+and)
	add(countNewestJobs, "state", "mine", recent("job"))
	add(countLivingWorkers, "state", "true", "worker where "+livingWorker+and)
	add(countNewestWorkers, "state", "mine", recent("worker"))
	if workspace != "" {
		number = "coalesce(sum(k.n), 0)::bigint"
	}
	add(countEnqueued, "''", "true", routes)
	add(countInProgress, "''", "true", fmt.Sprintf(steps, heldSteps+" h"))
	add(countInProgress, "''", "true", fmt.Sprintf(steps, "step where line = 2 and worker = 0"))
	return strings.Join(parts, "\nunion all "), args
}
