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
	sql, args := jobKeysQuery(f, rows)
	err = db.query(ctx, "look for jobs", sql, scan(&keys, &next, f.Limit), args...)
	return keys, next, err
}

// scan returns a function that reads a key, whether it is selected, and whether it is the
// last that may be looked at. next becomes the key at which the page ends, if it does not end
// for want of more.
func scan[K ~int64](keys *[]K, next *K, limit int) func(*cursor) {
	return func(c *cursor) {
		key, selected, last := K(c.num()), c.flag(), c.flag()
		if selected {
			*keys = append(*keys, key)
		}
		if last || len(*keys) == limit {
			*next = key
		}
	}
}

// jobKeysQuery returns the query for the jobs that a filter selects, and for the last one
// that is looked at. Records are read in the order of their keys, until there are enough.
func jobKeysQuery(f store.JobFilter, rows int) (sql string, args []any) {
	var w where
	w.keys(f)
	allowed := w.String()
	w.list = nil
	w.records(f)
	selected := "true"
	if len(w.list) > 0 {
		selected = "coalesce(" + strings.Join(w.list, " and ") + ", false)"
	}
	looked := "(select *, row_number() over (order by id desc) as n from (select * from job" + allowed + " order by id desc" + limited(rows) + ") job) job"
	id := "id"
	if openOnly(f) && f.Parent == 0 && f.Continues == 0 {
		id = "k.id"
		looked = "(select id, row_number() over (order by id desc) as n from (" + openKeys + ") k" + allowed + " order by id desc" + limited(rows) + ") k" +
			" left join lateral (select * from job where job.id = k.id offset 0) job on true"
	}
	return fmt.Sprintf("select id, selected, last from (select %s, %s as selected, n = %d as last from %s) t where selected or last order by id desc",
		id, selected, rows, looked) + limited(f.Limit), w.args
}

// StepOrds finds the places of steps; see store.Views.
func (db *DB) StepOrds(ctx context.Context, f store.StepFilter, rows int) (ords []pawl.Ord, next pawl.Ord, err error) {
	sql, args := stepOrdsQuery(f, rows)
	err = db.query(ctx, "look for steps", sql, scan(&ords, &next, f.Limit), args...)
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

// StepsAt reads steps with their bodies; see store.Views.
func (db *DB) StepsAt(ctx context.Context, job rowkey.Job, ords []pawl.Ord) (steps []*pawl.Step, err error) {
	if len(ords) == 0 {
		return nil, nil
	}
	sql := stepTable.page("ord", "select * from step where job = $1 and ord = any($2) and "+jobThere, len(ords))
	err = db.query(ctx, "read steps", sql, stepInto(func(s *pawl.Step) { steps = append(steps, s) }), int64(job), bigints(ords))
	return steps, err
}
