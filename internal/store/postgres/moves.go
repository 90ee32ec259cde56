package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// The rows of the trail of jobs and steps in a span of time: those near their jobs, and the
// others.
const (
	nearRows    = "audit where job >= $3 and job < $4 and at >= $1 and at < $2 and not " + store.Distant
	distantRows = "audit where at >= $1 and at < $2 and " + store.Distant
)

// Moves reads entries by time; see store.Views.
func (db *DB) Moves(ctx context.Context, f store.MoveFilter) (*store.Moves, error) {
	m := &store.Moves{}
	if f.Most > 0 {
		if err := db.countMoves(ctx, &f, m); err != nil || m.Over {
			return m, err
		}
	}
	if err := db.jobMoves(ctx, &f, m); err != nil {
		return nil, err
	}
	for _, kind := range f.Machines {
		if longLived(kind) {
			if err := db.longMoves(ctx, kind, &f, m); err != nil {
				return nil, err
			}
		}
	}
	m.Sort()
	return m, nil
}

// ofJobs reports whether the filter selects moves of jobs or steps.
func ofJobs(f *store.MoveFilter) bool {
	return slices.Contains(f.Machines, kindJob) || slices.Contains(f.Machines, kindStep)
}

// countMoves counts the rows that Moves has to look at, up to f.Most.
func (db *DB) countMoves(ctx context.Context, f *store.MoveFilter, m *store.Moves) error {
	from, before := f.Keys()
	var counts []string
	if ofJobs(f) {
		counts = []string{nearRows, distantRows}
	}
	for _, kind := range f.Machines {
		if longLived(kind) {
			counts = append(counts, kind+"_audit where at >= $1 and at < $2")
		}
	}
	for i, rows := range counts {
		counts[i] = fmt.Sprintf("(select count(*) from (select from %s limit %d) n)", rows, f.Most+1)
	}
	sql := "select " + strings.Join(counts, " + ") + " where $1::bigint < $2::bigint and $3::bigint <= $4::bigint"
	return db.query(ctx, "count moves", sql, func(c *cursor) {
		m.Rows = c.int()
		m.Over = m.Rows > f.Most
	}, f.From, f.To, int64(from), int64(before))
}

// narrowed adds conditions for the actor and the workspaces of a filter. a is the row and o the
// record of its entity; list says whether the row may have a list of further entries.
func narrowed(f *store.MoveFilter, list bool, workspace string, args []any) (string, []any) {
	sql := ""
	if f.Actor != "" {
		args = append(args, storable(f.Actor))
		sql = fmt.Sprintf(" and a.actor = $%d", len(args))
		if list && plain([]byte(f.Actor)) {
			args = append(args, store.Listed(f.Actor))
			sql = fmt.Sprintf(" and (a.actor = $%d or strpos(a.%s, $%d) > 0)", len(args)-1, more, len(args))
		}
	}
	if len(f.Workspaces) > 0 {
		args = append(args, storables(f.Workspaces))
		sql += fmt.Sprintf(" and %s = any($%d::text[])", workspace, len(args))
	}
	return sql, args
}

func (db *DB) jobMoves(ctx context.Context, f *store.MoveFilter, m *store.Moves) error {
	if !ofJobs(f) {
		return nil
	}
	from, before := f.Keys()
	where, args := narrowed(f, true, "o.workspace", []any{f.From, f.To, int64(from), int64(before)})
	sql := "select o.uuid, o.workspace, o.workflow, o.definition, " + names("a", trailColumns) +
		" from (select * from " + nearRows + " union all select * from " + distantRows + ") a cross join lateral (select uuid, workspace, workflow, definition from job where job.id = a.job offset 0) o where true" + where
	return db.query(ctx, "read moves of jobs", sql, func(c *cursor) {
		var of store.Event
		c.fixed(of.Job[:])
		of.Workspace, of.Name, of.Definition = c.text(), c.text(), rowkey.Definition(c.num())
		job, at := rowkey.Job(c.num()), int64(0)
		c.entries(func(ord pawl.Ord, entry audit.Entry) {
			if at == 0 {
				at = entry.At
			}
			e := of
			e.Entry = store.Entry{EntityKey: jobKey(job, ord), Entry: entry}
			e.Entity = public(e.EntityKey, of.Job)
			m.Add(f, e, at)
		})
	}, args...)
}

func (db *DB) longMoves(ctx context.Context, kind string, f *store.MoveFilter, m *store.Moves) error {
	of := longNamed[kind]
	where, args := narrowed(f, false, of.workspace, []any{f.From, f.To})
	sql := fmt.Sprintf("select o.uuid, %[3]s, o.%[4]s, o.id, %[2]s from %[1]s_audit a join %[1]s o on o.id = a.%[1]s where a.at >= $1 and a.at < $2%[5]s",
		kind, names("a", entryColumns[2:]), of.workspace, of.name, where)
	return db.query(ctx, "read moves of a "+kind, sql, func(c *cursor) {
		if e := c.longEvent(kind); c.err == nil {
			m.Add(f, e, e.At)
		}
	}, args...)
}
