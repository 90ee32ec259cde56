package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// JobKeys finds the keys of jobs; see store.Views.
func (db *DB) JobKeys(ctx context.Context, f store.JobFilter, rows int) (keys []rowkey.Job, next rowkey.Job, err error) {
	sql, args := jobKeysQuery(f, rows)
	err = db.query(ctx, "look for jobs", sql, func(c *cursor) {
		key, wanted := rowkey.Job(c.num()), c.flag()
		if wanted {
			keys = append(keys, key)
		}
		if !wanted || c.flag() || len(keys) == f.Limit {
			next = key
		}
	}, args...)
	return keys, next, err
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
	return fmt.Sprintf("select id, wanted, last from (select %s, %s as wanted, n = %d as last from %s) t where wanted or last order by id desc",
		id, selected, rows, looked) + limited(f.Limit), w.args
}
