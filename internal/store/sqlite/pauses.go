package sqlite

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// pauses reads the pauses of queues that the query names by key or by queue.
func (r *reading) pauses(q *store.Query) error {
	for _, k := range q.Pauses {
		if err := r.pause(selectPause, func(b *row) { b.int(int64(k)) }); err != nil {
			return err
		}
	}
	for _, n := range q.Paused {
		err := r.pause(selectPausedQueue, func(b *row) {
			b.text(n.Workspace)
			b.text(n.Name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) pause(s statement, bind func(*row)) error {
	return r.c.each(s, bind, func(c *columns) error {
		found := pauseTable.readWhole(c)
		if k := found.Key(); r.decoded(c, lifecycle.QueuePause.Name, k) && r.f.Pauses[k] == nil {
			r.f.Pauses[k] = found
		}
		return nil
	})
}

func writePauses(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, p := range ch.NewPauses {
		if err := c.run(insertPause, func(r *row) { writeColumns(r, pauseTable.insert, p) }); err != nil {
			return inserted(err, lifecycle.QueuePause.Name, p.Queue)
		}
	}
	for _, u := range ch.Pauses {
		err := update(c, updatePause, pauseTable, pauseTable.change, u)
		if err := c.updated(err, lifecycle.QueuePause.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

// Pauses lists pauses of queues, newest first.
func (db *DB) Pauses(ctx context.Context, f store.PauseFilter) (list []*pawl.QueuePause, err error) {
	s, before := selectPauses, int64(f.Before)
	if f.Lasting {
		s = selectLastingPauses
	}
	if before == 0 {
		before = math.MaxInt64
	}
	err = db.read(ctx, "read pauses of queues", func(c *conn) error {
		list = nil
		return c.each(s, func(b *row) {
			b.text(f.Workspace)
			b.text(f.Queue)
			b.ints(before, bound(f.Limit))
		}, func(cols *columns) error {
			if p := pauseTable.readWhole(cols); decoded(db.log, cols, lifecycle.QueuePause.Name, p.Key()) {
				list = append(list, p)
			}
			return nil
		})
	})
	return list, err
}
