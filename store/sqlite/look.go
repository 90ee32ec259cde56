package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// Look finds what needs the evaluator; see store.Ledger. It reads partial
// indexes only, and costs a few microseconds when there is nothing.
func (db *DB) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	a := &store.Agenda{Now: db.now()}
	err := db.read(ctx, "look", func(c *conn) error {
		for _, part := range []func(*conn, *store.Agenda, int) error{lookMarked, lookDue, lookOrphans} {
			if err := part(c, a, q.Limit); err != nil {
				return err
			}
		}
		return lookPending(c, a, q.Limit, q.Skip)
	})
	if err == nil && q.Living {
		a.Living, err = db.Observe(ctx)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func lookMarked(c *conn, a *store.Agenda, limit int) error {
	err := c.each(selectMarkedJobs, func(b *row) { b.int(int64(limit)) }, func(cols *columns) error {
		a.Marked = append(a.Marked, cols.int())
		return nil
	})
	if err != nil {
		return err
	}
	seen := make(map[int64]bool, len(a.Marked))
	for _, k := range a.Marked {
		seen[k] = true
	}
	return c.follow(selectNextMarkedStep, func(cols *columns) (int64, bool) {
		job := cols.int()
		if !seen[job] && len(a.Marked) < limit {
			a.Marked = append(a.Marked, job)
		}
		return job, len(a.Marked) < limit
	})
}

// follow walks an index from one distinct value to the next: f answers the value
// of the row and whether to go on.
func (c *conn) follow(s statement, f func(*columns) (int64, bool)) error {
	for at, more := int64(0), true; more; {
		more = false
		err := c.each(s, func(b *row) { b.int(at) }, func(cols *columns) error {
			at, more = f(cols)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func lookDue(c *conn, a *store.Agenda, limit int) error {
	err := c.each(selectDue, func(b *row) { b.ints(a.Now, int64(limit)) }, func(cols *columns) error {
		d := store.Due{At: cols.int()}
		d.Kind = cols.text()
		d.StepKey = pawl.StepKey{Job: cols.int(), Ord: pawl.Ord(cols.int())}
		d.Event = machine.Event(cols.text())
		a.Due = append(a.Due, d)
		return nil
	})
	if err != nil {
		return err
	}
	return c.each(selectNextDue, func(b *row) { b.int(a.Now) }, func(cols *columns) error {
		a.NextDue = cols.int() // NULL reads as 0
		return nil
	})
}

func lookPending(c *conn, a *store.Agenda, limit, skip int) error {
	return c.each(selectUnrouted, func(b *row) { b.ints(int64(limit), int64(skip)) }, func(cols *columns) error {
		a.Pending = append(a.Pending, cols.int())
		return nil
	})
}

func lookOrphans(c *conn, a *store.Agenda, limit int) error {
	return c.follow(selectNextHolder, func(cols *columns) (int64, bool) {
		worker := cols.int()
		gone := cols.s.ColumnType(1) == sqlite.TypeNull
		if !gone && lifecycle.Worker.Ended(machine.State(cols.text())) {
			a.Orphans = append(a.Orphans, worker)
		}
		return worker, len(a.Orphans) < limit
	})
}
