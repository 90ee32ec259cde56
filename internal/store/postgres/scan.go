package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// JobKeys finds the keys of jobs; see store.Views.
func (db *DB) JobKeys(ctx context.Context, f store.JobFilter, rows int) (keys []rowkey.Job, next rowkey.Job, err error) {
	if openOnly(f) && f.Limit <= lookAhead && lookAhead < rows {
		keys, next, err = db.jobKeys(ctx, f, false, lookAhead)
		if err != nil || len(keys) == f.Limit || next == 0 {
			return keys, next, err
		}
		rows -= lookAhead
	}
	return db.jobKeys(ctx, f, openOnly(f), rows)
}

// lookAhead is how many of all jobs are looked at before those in flight are: while many are
// in flight, the newest of all fill a page, and need no sorting.
const lookAhead = 500

func (db *DB) jobKeys(ctx context.Context, f store.JobFilter, open bool, rows int) (keys []rowkey.Job, next rowkey.Job, err error) {
	sql, args := jobKeysQuery(f, open, rows)
	seen := 0
	err = db.query(ctx, "look for jobs", sql, func(c *cursor) {
		k, selected, last := c.jobKey(), c.flag(), c.flag()
		if selected {
			seen++
		}
		if selected && (len(f.Metadata) == 0 || store.HasMetadata(c.body(), f.Metadata)) {
			keys = append(keys, k)
		}
		if last || seen == f.Limit {
			next = k
		}
	}, args...)
	return keys, next, err
}

func (c *cursor) jobKey() rowkey.Job { return rowkey.Job(c.num()) }

func (c *cursor) stepOrd() pawl.Ord { return pawl.Ord(c.num()) }

func (c *cursor) stepKey() pawl.StepKey { return pawl.StepKey{Job: c.jobKey(), Ord: c.stepOrd()} }

// scan returns a function that reads a key, whether it is selected, and whether it is the
// last that may be looked at. next becomes the key at which the page ends, if it does not end
// for want of more.
func scan[K any](keys *[]K, next *K, key func(*cursor) K, limit int) func(*cursor) {
	return func(c *cursor) {
		k, selected, last := key(c), c.flag(), c.flag()
		if selected {
			*keys = append(*keys, k)
		}
		if last || len(*keys) == limit {
			*next = k
		}
	}
}

// jobKeysQuery returns the query for the jobs that a filter selects, and for the last one
// that is looked at: of all, or of those in flight. Records are read in the order of their
// keys, until there are enough.
func jobKeysQuery(f store.JobFilter, open bool, rows int) (sql string, args []any) {
	var w where
	w.keys(f)
	allowed := w.String()
	w.list = nil
	w.records(f)
	w.metadata(f)
	selected := "true"
	if len(w.list) > 0 {
		selected = "coalesce(" + strings.Join(w.list, " and ") + ", false)"
	}
	looked := "(select *, row_number() over (order by id desc) as n from (select * from job" + allowed + " order by id desc" + limited(rows) + ") job) job"
	id, metadata := "id", ""
	if len(f.Metadata) > 0 {
		metadata = ", metadata"
	}
	if open && f.Parent == 0 && f.Continues == 0 {
		id = "k.id"
		looked = "(select id, row_number() over (order by id desc) as n from (" + openKeys + ") k" + allowed + " order by id desc" + limited(rows) + ") k" +
			" left join lateral (select * from job where job.id = k.id offset 0) job on true"
	}
	return fmt.Sprintf("select id, selected, last%[5]s from (select %[1]s, %[2]s as selected, n = %[3]d as last%[5]s from %[4]s) t where selected or last order by id desc",
		id, selected, rows, looked, metadata) + limited(f.Limit), w.args
}

// StepOrds finds the places of steps; see store.Views.
func (db *DB) StepOrds(ctx context.Context, f store.StepFilter, rows int) (ords []pawl.Ord, next pawl.Ord, err error) {
	sql, args := stepOrdsQuery(f, rows)
	err = db.query(ctx, "look for steps", sql, scan(&ords, &next, (*cursor).stepOrd, f.Limit), args...)
	return ords, next, err
}

// stepOrdsQuery returns the query for the steps that a filter selects, and for the last one
// that is looked at.
func stepOrdsQuery(f store.StepFilter, rows int) (sql string, args []any) {
	args = []any{int64(f.Job), int64(f.After), int64(cmp.Or(f.Through, math.MaxInt64))}
	selected := "true"
	if len(f.States) > 0 {
		selected = "state = any($4)"
		args = append(args, f.States)
	}
	return fmt.Sprintf(`select ord, selected, last from (select ord, %s as selected, row_number() over (order by ord) = %d as last from (
  select * from step where job = $1 and ord > $2 and ord <= $3 and %s order by ord%s) step) t where selected or last order by ord`,
		selected, rows, jobThere, limited(rows)) + limited(f.Limit), args
}

// Waits finds the keys of steps that wait; see store.Views.
func (db *DB) Waits(ctx context.Context, f store.WaitFilter, rows int) (keys []pawl.StepKey, next pawl.StepKey, err error) {
	sql, args := waitsQuery(f, rows)
	err = db.query(ctx, "look for steps that wait", sql, scan(&keys, &next, (*cursor).stepKey, f.Limit), args...)
	return keys, next, err
}

// waitsQuery returns the query for the steps that a filter selects, and for the last one that
// is looked at. The index of what is in flight is not in the order of keys, so all steps that
// the engine owns are sorted, by their keys alone.
func waitsQuery(f store.WaitFilter, rows int) (sql string, args []any) {
	args = []any{int64(f.After.Job), int64(f.After.Ord), f.Begins()}
	selected := "s.total = 0 and s.input like $3"
	if f.Workspace != "" {
		selected += " and (select workspace from job where id = k.job) = $4"
		args = append(args, storable(f.Workspace))
	}
	return fmt.Sprintf(`select job, ord, selected, last from (
  select k.job, k.ord, coalesce(%[1]s, false) as selected, k.n = %[2]d as last from (
    select job, ord, row_number() over (order by job, ord) as n from (select job, ord from step where line = 2 and worker = 0 offset 0) k
    where (job, ord) > ($1, $2) order by job, ord%[3]s) k
  left join lateral (select total, input from step where step.job = k.job and step.ord = k.ord offset 0) s on true
) t where selected or last order by job, ord`, selected, rows, limited(rows)) + limited(f.Limit), args
}

const stepsAt = `select s.* from (select unnest($1::bigint[]) as job, unnest($2::bigint[]) as ord) u cross join lateral
  (select * from step where step.job = u.job and step.ord = u.ord and exists (select from job where id = u.job) offset 0) s`

// StepsAt reads steps with their bodies; see store.Views.
func (db *DB) StepsAt(ctx context.Context, keys []pawl.StepKey) (steps []*pawl.Step, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	jobs, ords := make([]int64, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		jobs[i], ords[i] = int64(k.Job), int64(k.Ord)
	}
	sql := stepTable.page("job, ord", stepsAt, len(keys))
	err = db.query(ctx, "read steps", sql, stepInto(func(s *pawl.Step) { steps = append(steps, s) }), jobs, ords)
	return steps, err
}
