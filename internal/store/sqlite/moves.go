package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// longNamed says where entities of a kind that lives long have their workspace and their name;
// o is their record.
var longNamed = map[string]struct {
	workspace, name string
	public          func(pawl.ID) string
	fed             statement // reads an entry of the feed
}{
	lifecycle.Worker.Name:     {"o.workspace", "name", workerID, selectFedWorker},
	lifecycle.Schedule.Name:   {"o.workspace", "name", scheduleID, selectFedSchedule},
	lifecycle.QueuePause.Name: {"o.workspace", "queue", pauseID, selectFedPause},
	lifecycle.Token.Name:      {"''", "name", tokenID, selectFedToken},
	lifecycle.Webhook.Name:    {"o.workspace", "name", webhookID, selectFedWebhook},
}

// Moves reads entries by time; see store.Views.
func (db *DB) Moves(ctx context.Context, f store.MoveFilter) (*store.Moves, error) {
	var m *store.Moves
	err := db.read(ctx, "read moves", func(c *conn) error {
		m = &store.Moves{}
		return m.Read(&f, func(part string, start store.MoveRow, most int, looked func(rows int, last store.MoveRow)) error {
			text, values := movesQuery(&f, part, start, most)
			return c.transient(text, binding(values), func(cols *columns) error {
				row := store.MoveRow{StepKey: cols.stepKey(), Seq: cols.int(), At: cols.int()}
				looked(1, row)
				if selected := cols.bool(); selected {
					row.Part = store.PartOf(part)
					db.addMoves(cols, part, &f, m, row)
				}
				return nil
			})
		})
	})
	return m, err
}

// movesQuery returns the query for the rows of a part that are looked at, each with whether it may have
// selected entries; only such a row is read as a whole.
func movesQuery(f *store.MoveFilter, part string, start store.MoveRow, most int) (text string, values []any) {
	table, key, order := part+"_audit", part+", 0", "at, "+part+", seq"
	at, from, before := []any{start.At, int64(start.Job), start.Seq}, f.From, f.To
	var rows, picked where
	picked.add("at >= ? AND at < ?", f.From, f.To)
	switch part {
	case store.PartNear:
		table, key, order, at = "audit", "job, ord", "job, ord, seq", []any{int64(start.Job), int64(start.Ord), start.Seq}
		first, behind := f.Keys()
		from, before = int64(first), int64(behind)
		picked.add("NOT " + store.Distant)
	case store.PartDistant:
		table, key, order = "audit INDEXED BY audit_distant", "job, ord", "at, job, ord, seq"
		at = []any{start.At, int64(start.Job), int64(start.Ord), start.Seq}
		rows.add(store.Distant)
	}
	by, _, _ := strings.Cut(order, ",")
	rows.add(by+" >= ?", from)
	if start.Part == 0 {
		rows.add(by+" < ?", before)
	} else { // the index is used for one upper bound
		rows.add("("+order+") <= (?"+strings.Repeat(", ?", len(at)-1)+")", at...)
	}
	picked.names("actor", f.Actor, table)
	picked.names("event", string(f.Event), table)
	picked.names("state", string(f.State), table)
	limit := ""
	if most > 0 {
		limit = fmt.Sprintf(" LIMIT %d", most)
	}
	looked := "SELECT " + key + ", seq, at, " + picked.String() + " FROM " + table + " WHERE " + rows.String() +
		" ORDER BY " + strings.ReplaceAll(order, ",", " DESC,") + " DESC" + limit
	of, whole := "o.uuid, o.workspace, o.workflow, o.definition, a.job, "+prefixed("a", trailColumns), "LEFT JOIN audit a ON k.picked AND a.job = k.job AND a.ord = k.ord AND a.seq = k.seq LEFT JOIN job o ON o.id = a.job"
	if long, is := longNamed[part]; is {
		of = fmt.Sprintf("o.uuid, %s, o.%s, o.id, %s", long.workspace, long.name, prefixed("a", entryColumns))
		whole = fmt.Sprintf("LEFT JOIN %[1]s_audit a ON k.picked AND a.%[1]s = k.job AND a.seq = k.seq LEFT JOIN %[1]s o ON o.id = a.%[1]s", part)
	}
	text = "WITH k(job, ord, seq, at, picked) AS (" + looked + ") SELECT k.job, k.ord, k.seq, k.at, k.picked AND o.id IS NOT NULL, " + of + " FROM k " + whole
	return text, append(picked.values, rows.values...)
}

// names adds a condition that all rows satisfy that have an entry with the value in a column, unless the
// value is empty.
func (w *where) names(column, value, table string) {
	switch {
	case value == "":
	case strings.HasPrefix(table, "audit"): // its rows may have lists of further entries
		w.add("("+column+" = ? OR instr(more, ?) > 0)", value, store.Listed(value))
	default:
		w.add(column+" = ?", value)
	}
}

// addMoves adds the entries of a row.
func (db *DB) addMoves(cols *columns, part string, f *store.MoveFilter, m *store.Moves, row store.MoveRow) {
	if longNamed[part].public != nil {
		if e := cols.longEvent(part); decoded(db.log, cols, "audit entry of "+part, e.Job) {
			m.Add(f, e, row)
		}
		return
	}
	var of store.Event
	cols.fixed(of.Job[:])
	of.Workspace, of.Name, of.Definition = cols.text(), cols.text(), rowkey.Definition(cols.int())
	job := rowkey.Job(cols.int())
	cols.entries(func(ord pawl.Ord, entry audit.Entry) {
		e := of
		e.Entry = store.Entry{EntityKey: store.StepEntity(pawl.StepKey{Job: job, Ord: ord}), Entry: entry}
		e.Entity = nameOf(of.Job, ord)
		m.Add(f, e, row)
	})
	decoded(db.log, cols, "audit entries of job", job)
}

// longEvent reads an entry of an entity of a kind that lives long, with what it is about.
func (c *columns) longEvent(kind string) (e store.Event) {
	var id pawl.ID
	c.fixed(id[:])
	e.Workspace, e.Name = c.text(), c.text()
	e.EntityKey = store.EntityOf(kind, c.int())
	e.Entry.Entry = c.entry()
	e.Entity = longNamed[kind].public(id)
	return e
}
