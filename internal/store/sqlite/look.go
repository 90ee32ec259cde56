package sqlite

import (
	"context"
	"errors"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Look scans for work of the evaluator; see store.Ledger. It reads only partial indexes, and
// costs a few microseconds when there is none.
func (db *DB) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	a := &store.Agenda{Now: db.now()}
	err := db.read(ctx, "look", func(c *conn) error {
		for _, part := range []func(*conn, *store.Agenda, *store.LookQuery) error{lookMarked, lookDue, lookPending} {
			if err := part(c, a, &q); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && q.Living {
		if a.Living, err = db.Observe(ctx); err == nil {
			a.Living.Ended, err = db.ended(ctx, q.Limit)
		}
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// until returns the end of a scan: now, or before.
func until(a *store.Agenda, at int64) int64 {
	if at == 0 {
		return a.Now
	}
	return min(a.Now, at)
}

func lookMarked(c *conn, a *store.Agenda, q *store.LookQuery) error {
	last := until(a, q.MarkedUntil)
	add := func(cols *columns) error {
		a.Marked = append(a.Marked, store.Marked{At: cols.int(), Job: rowkey.Job(cols.int())})
		return nil
	}
	err := c.each(selectMarkedJobs, func(b *row) { b.ints(last, q.Marked.At, int64(q.Marked.Job), int64(q.Limit)) }, add)
	if err != nil {
		return err
	}
	jobs := len(a.Marked)
	for at, found := q.Marked, -1; found < len(a.Marked) && len(a.Marked)-jobs < q.Limit; { // one probe for all marks of a job at one time
		found = len(a.Marked)
		if err := c.each(selectNextMarkedStep, func(b *row) { b.ints(last, at.At, int64(at.Job)) }, add); err != nil {
			return err
		}
		if len(a.Marked) > found {
			at = a.Marked[found]
		}
	}
	slices.SortFunc(a.Marked, store.Marked.Compare)
	a.Marked = slices.Compact(a.Marked) // a job may be marked together with its steps
	a.Marked = a.Marked[:min(len(a.Marked), q.Limit)]
	return nil
}

// follow walks an index from one distinct value to the next: f returns the value of the row
// and whether to continue.
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

func lookDue(c *conn, a *store.Agenda, q *store.LookQuery) error {
	last := until(a, q.DueUntil)
	for i, s := range [len(store.DueKinds)]statement{selectDueJobs, selectDueSteps, selectDueWorkers, selectDueSchedules, selectDueTokens} {
		kind := store.DueKinds[i]
		behind := q.Due.Behind(kind)
		err := c.each(s, func(b *row) { b.ints(last, q.Due.At, int64(behind.Job), int64(behind.Ord), int64(q.Limit)) }, func(cols *columns) error {
			d := store.Due{At: cols.int(), Event: machine.Event(cols.text())}
			if d.EntityKey = store.EntityOf(kind, cols.int()); s == selectDueSteps {
				d.Ord = pawl.Ord(cols.int())
			}
			a.Due = append(a.Due, d)
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(a.Due, store.Due.Compare)
	a.Due = a.Due[:min(len(a.Due), q.Limit)]
	return c.each(selectNextDue, func(b *row) { b.int(a.Now) }, func(cols *columns) error {
		a.NextDue = cols.int() // NULL reads as 0
		return nil
	})
}

func lookPending(c *conn, a *store.Agenda, q *store.LookQuery) error {
	behind := q.Pending
	if behind.Job == 0 {
		behind.Rank = math.MinInt64
	}
	return c.each(selectUnrouted, func(b *row) { b.ints(behind.Rank, int64(behind.Job), int64(q.Limit)) }, func(cols *columns) error {
		a.Pending = append(a.Pending, store.Ranked{Rank: cols.int(), Job: rowkey.Job(cols.int())})
		return nil
	})
}

// ended returns the workers that have ended and still hold steps, with the times of their last
// beats. A beat after a worker's end means that it still lives.
func (db *DB) ended(ctx context.Context, limit int) (found []health.Sighting, err error) {
	err = db.read(ctx, "look for steps of workers that have ended", func(c *conn) error {
		found = nil
		err := c.follow(selectNextHolder, func(cols *columns) (int64, bool) {
			worker := rowkey.Worker(cols.int())
			gone := cols.s.ColumnType(1) == sqlite.TypeNull
			if !gone && lifecycle.Worker.Ended(machine.State(cols.text())) {
				found = append(found, health.Sighting{Worker: worker, Beat: cols.int()})
			}
			return int64(worker), len(found) < limit
		})
		for i := 0; i < len(found) && err == nil; i++ {
			var beat int64
			if beat, err = remoteBeatOf(c, found[i].Worker); beat > 0 {
				found[i].Beat = beat
			}
		}
		return err
	})
	for i := range found {
		_, beat, e := db.holds.alive(workerName(found[i].Worker))
		if err = errors.Join(err, e); !beat.IsZero() {
			found[i].Beat = pawl.Micros(beat)
		}
	}
	return found, err
}
