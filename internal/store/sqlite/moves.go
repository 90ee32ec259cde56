package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The rows of the trail of jobs and steps in a span of time: those near their jobs, and the
// others. ?1 and ?2 are times, ?3 and ?4 keys.
const (
	nearRows    = "audit WHERE job >= ?3 AND job < ?4 AND at >= ?1 AND at < ?2 AND NOT " + store.Distant
	distantRows = "audit INDEXED BY audit_distant WHERE at >= ?1 AND at < ?2 AND " + store.Distant
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
	m := &store.Moves{}
	err := db.read(ctx, "read moves", func(c *conn) error {
		if f.Most > 0 {
			if err := c.countMoves(&f, m); err != nil || m.Over {
				return err
			}
		}
		if ofJobs(&f) {
			if err := db.jobMoves(c, &f, m); err != nil {
				return err
			}
		}
		for _, kind := range f.Machines {
			if longNamed[kind].public == nil {
				continue
			}
			if err := db.longMoves(c, kind, &f, m); err != nil {
				return err
			}
		}
		return nil
	})
	m.Sort()
	return m, err
}

// ofJobs reports whether the filter selects moves of jobs or steps.
func ofJobs(f *store.MoveFilter) bool {
	return slices.Contains(f.Machines, lifecycle.Job.Name) || slices.Contains(f.Machines, lifecycle.Step.Name)
}

// countMoves counts the rows that Moves has to look at, up to f.Most.
func (c *conn) countMoves(f *store.MoveFilter, m *store.Moves) error {
	var counts []string
	if ofJobs(f) {
		counts = []string{nearRows, distantRows}
	}
	for _, kind := range f.Machines {
		if longNamed[kind].public != nil {
			counts = append(counts, kind+"_audit WHERE at >= ?1 AND at < ?2")
		}
	}
	for i, rows := range counts {
		counts[i] = fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 FROM %s LIMIT %d))", rows, f.Most+1)
	}
	sql := "SELECT " + strings.Join(counts, " + ") + " WHERE ?1 < ?2 AND ?3 <= ?4"
	return c.transient(sql, func(r *row) { bindJobs(r, f) }, func(cols *columns) error {
		m.Rows = int(cols.int())
		m.Over = m.Rows > f.Most
		return cols.finish()
	})
}

func bindTimes(r *row, f *store.MoveFilter) { r.ints(f.From, f.To) }

func bindJobs(r *row, f *store.MoveFilter) {
	from, before := f.Keys()
	r.ints(f.From, f.To, int64(from), int64(before))
}

// narrowed returns conditions for the actor and the workspaces of a filter, and a function that
// binds their values behind those that times binds. a is the row and o the record of its entity;
// list says whether the row may have a list of further entries.
func narrowed(f *store.MoveFilter, list bool, workspace string, times func(*row, *store.MoveFilter)) (string, func(*row)) {
	sql := ""
	switch {
	case f.Actor != "" && list:
		sql = " AND (a.actor = ? OR instr(a.more, ?) > 0)"
	case f.Actor != "":
		sql = " AND a.actor = ?"
	}
	if n := len(f.Workspaces); n > 0 {
		sql += " AND " + workspace + " IN (?" + strings.Repeat(", ?", n-1) + ")"
	}
	return sql, func(r *row) {
		times(r, f)
		if f.Actor != "" {
			r.text(f.Actor)
		}
		if f.Actor != "" && list {
			r.text(store.Listed(f.Actor))
		}
		for _, name := range f.Workspaces {
			r.text(name)
		}
	}
}

func (db *DB) jobMoves(c *conn, f *store.MoveFilter, m *store.Moves) error {
	where, bind := narrowed(f, true, "o.workspace", bindJobs)
	sql := "SELECT o.uuid, o.workspace, o.workflow, o.definition, a.job, " + prefixed("a", trailColumns) +
		" FROM (SELECT * FROM " + nearRows + " UNION ALL SELECT * FROM " + distantRows + ") a CROSS JOIN job o ON o.id = a.job WHERE true" + where
	return c.transient(sql, bind, func(cols *columns) error {
		var of store.Event
		cols.fixed(of.Job[:])
		of.Workspace, of.Name, of.Definition = cols.text(), cols.text(), rowkey.Definition(cols.int())
		job, at := rowkey.Job(cols.int()), int64(0)
		cols.entries(func(ord pawl.Ord, entry audit.Entry) {
			if at == 0 {
				at = entry.At
			}
			e := of
			e.Entry = store.Entry{EntityKey: store.StepEntity(pawl.StepKey{Job: job, Ord: ord}), Entry: entry}
			e.Entity = nameOf(of.Job, ord)
			m.Add(f, e, at)
		})
		decoded(db.log, cols, "audit entries of job", job)
		return nil
	})
}

func (db *DB) longMoves(c *conn, kind string, f *store.MoveFilter, m *store.Moves) error {
	of := longNamed[kind]
	where, bind := narrowed(f, false, of.workspace, bindTimes)
	sql := fmt.Sprintf("SELECT o.uuid, %[3]s, o.%[4]s, o.id, %[2]s FROM %[1]s_audit a CROSS JOIN %[1]s o ON o.id = a.%[1]s WHERE a.at >= ?1 AND a.at < ?2%[5]s",
		kind, prefixed("a", entryColumns), of.workspace, of.name, where)
	return c.transient(sql, bind, func(cols *columns) error {
		e := cols.longEvent(kind)
		if decoded(db.log, cols, "audit entry of "+kind, e.Job) {
			m.Add(f, e, e.At)
		}
		return nil
	})
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
