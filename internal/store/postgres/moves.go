package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Moves reads entries by time; see store.Views.
func (db *DB) Moves(ctx context.Context, f store.MoveFilter) (*store.Moves, error) {
	m := &store.Moves{}
	return m, m.Read(&f, func(part string, start store.MoveRow, most int, looked func(rows int, last store.MoveRow)) error {
		sql, args := movesQuery(&f, part, start, most)
		before := 0
		return db.query(ctx, "read moves", sql, func(c *cursor) {
			n, row := c.int(), store.MoveRow{Part: store.PartOf(part), StepKey: c.stepKey(), Seq: c.num(), At: c.num()}
			looked(n-before, row)
			if before = n; c.flag() {
				c.addMoves(part, &f, m, row)
			}
		}, args...)
	})
}

// movesQuery returns the query for the rows of a part that may have selected entries, and for the last one
// that is looked at, each with how many were looked at so far.
func movesQuery(f *store.MoveFilter, part string, start store.MoveRow, most int) (sql string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	table, order, picked := "audit", "at, job, ord, seq", "at >= "+arg(f.From)+" and at < "+arg(f.To)
	at, from, before := []any{start.At, int64(start.Job), int64(start.Ord), start.Seq}, f.From, f.To
	what, of, name, rows := "o.uuid, o.workspace, o.workflow, o.definition, "+names("k", trailColumns), "job", "", "true"
	switch part {
	case store.PartNear:
		first, behind := f.Keys()
		order, at, from, before = "job, ord, seq", at[1:], int64(first), int64(behind)
		picked += " and not " + store.Distant
	case store.PartDistant:
		rows = store.Distant
	default:
		long := longNamed[part]
		table, order, at, of, name = part+"_audit", "at, "+part+", seq", []any{start.At, int64(start.Job), start.Seq}, part, ", "+part+" as job, 0::bigint as ord"
		what = fmt.Sprintf("o.uuid, %s, o.%s, o.id, %s", long.workspace, long.name, names("k", entryColumns[2:]))
	}
	by, _, _ := strings.Cut(order, ",")
	rows += " and " + by + " >= " + arg(from)
	if start.Part == 0 {
		rows += " and " + by + " < " + arg(before)
	} else { // with one upper bound, the index is read from there
		bounds := make([]string, len(at))
		for i := range at {
			bounds[i] = arg(at[i])
		}
		rows += " and (" + order + ") <= (" + strings.Join(bounds, ", ") + ")"
	}
	picked += named("actor", f.Actor, of == "job", arg) + named("event", string(f.Event), of == "job", arg) + named("state", string(f.State), of == "job", arg)
	limit := ""
	if most > 0 {
		limit = " limit " + arg(int64(most)) // any number: in the text, it would fill the cache of statements
	}
	order = strings.ReplaceAll(order, ",", " desc,") + " desc"
	return fmt.Sprintf(`select k.n, k.job, k.ord, k.seq, k.at, k.picked and o.id is not null, %[1]s from (
  select *%[2]s, row_number() over w as n, lead(seq) over w is null as last, (%[3]s) as picked
  from (select * from %[4]s where %[5]s order by %[6]s%[7]s) t window w as (order by %[6]s)) k
left join lateral (select * from %[8]s where %[8]s.id = k.job and k.picked offset 0) o on true where k.picked or k.last`,
		what, name, picked, table, rows, order, limit, of), args
}

// named returns a condition that all rows satisfy that have an entry with the value in a column, unless
// the value is empty. listed says that rows may have lists of further entries.
func named(column, value string, listed bool, arg func(any) string) string {
	switch {
	case value == "":
		return ""
	case listed && plain([]byte(value)):
		return " and (" + column + " = " + arg(storable(value)) + " or strpos(" + more + ", " + arg(store.Listed(value)) + ") > 0)"
	}
	return " and " + column + " = " + arg(storable(value))
}

// addMoves adds the entries of a row.
func (c *cursor) addMoves(part string, f *store.MoveFilter, m *store.Moves, row store.MoveRow) {
	if longLived(part) {
		if e := c.longEvent(part); c.err == nil {
			m.Add(f, e, row)
		}
		return
	}
	var of store.Event
	c.fixed(of.Job[:])
	of.Workspace, of.Name, of.Definition = c.text(), c.text(), rowkey.Definition(c.num())
	job := rowkey.Job(c.num())
	c.entries(func(ord pawl.Ord, entry audit.Entry) {
		e := of
		e.Entry = store.Entry{EntityKey: jobKey(job, ord), Entry: entry}
		e.Entity = public(e.EntityKey, of.Job)
		m.Add(f, e, row)
	})
}
