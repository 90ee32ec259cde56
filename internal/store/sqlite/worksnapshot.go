package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Work that only one process may run is excluded.
const (
	askWaiting = `SELECT w.route, sum(w.jobs), sum(w.steps), min(w.since), (SELECT uuid FROM job WHERE id = w.job) FROM (
  SELECT route, 1 AS jobs, 0 AS steps, created_at AS since, id AS job FROM job WHERE state = 'PENDING' AND paused = 0 AND route <> 0 AND private = 0
  UNION ALL
  SELECT s.route, 0, 1, s.enqueued_at, s.job FROM (SELECT route, enqueued_at, job FROM step WHERE ` + inFlight + ` AND state = 'enqueued') s JOIN job j ON j.id = s.job WHERE j.private = 0
) w GROUP BY w.route ORDER BY w.route` // with min(), SQLite returns the other columns of the same row
	askOpen = `SELECT count(*) FROM job WHERE ` + jobsOpen + ` AND paused = 0 AND private = 0`
	askLate = `SELECT 'deadlines', 'jobs', count(*), min(due_at) FROM job WHERE due_at > 0 AND due_at <= ?1 AND private = 0
UNION ALL SELECT 'deadlines', 'steps', count(*), min(s.due_at) FROM step s JOIN job j ON j.id = s.job WHERE s.due_at > 0 AND s.due_at <= ?1 AND j.private = 0
UNION ALL SELECT 'deadlines', 'schedules', count(*), min(due_at) FROM schedule WHERE due_at > 0 AND due_at <= ?1
UNION ALL SELECT 'deadlines', 'tokens', count(*), min(due_at) FROM token WHERE due_at > 0 AND due_at <= ?1
UNION ALL SELECT 'evaluation', 'jobs', count(*), min(updated_at) FROM job WHERE mark_at > 0 AND private = 0
UNION ALL SELECT 'evaluation', 'steps', count(*), min(s.updated_at) FROM step s JOIN job j ON j.id = s.job WHERE s.mark_at > 0 AND j.private = 0`
)

// WorkSnapshot returns the work in the database and the processes on it.
func (db *DB) WorkSnapshot(ctx context.Context) (*health.Snapshot, error) {
	w := &health.Snapshot{Now: db.now()}
	err := db.read(ctx, "look at the work", func(c *conn) error {
		if err := c.ask(askWaiting, nil, func(cols *columns) {
			x := health.Waiting{Route: rowkey.Route(cols.int()), Jobs: int(cols.int()), Steps: int(cols.int()), Oldest: cols.int()}
			cols.fixed(x.Job[:])
			w.Waiting = append(w.Waiting, x)
		}); err != nil {
			return err
		}
		if err := c.ask(askOpen, nil, func(cols *columns) { w.Open = int(cols.int()) }); err != nil {
			return err
		}
		if err := c.ask(askLate, func(b *row) { b.int(w.Now) }, func(cols *columns) {
			if l := (health.Late{Check: cols.text(), What: cols.text(), Count: int(cols.int()), Since: cols.int()}); l.Count > 0 {
				w.Late = append(w.Late, l)
			}
		}); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if w.Nodes, err = db.Nodes(ctx); err != nil {
		return nil, err
	}
	if w.Workers, err = db.Workers(ctx, store.WorkerFilter{Living: true}); err != nil {
		return nil, err
	}
	w.Living, err = db.Observe(ctx)
	return w, err
}

// ask executes a query that is rarely needed, and passes its rows to f.
func (c *conn) ask(query string, bind func(*row), f func(*columns)) error {
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		return err
	}
	defer s.Finalize()
	p := newPrepared(s)
	p.bind(bind)
	return p.rows(func(cols *columns) error {
		f(cols)
		return cols.finish()
	})
}
