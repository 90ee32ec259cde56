package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Lines counts what is on each route; see store.Views. It finds each route by one probe of
// the index, however many steps wait on it.
func (db *DB) Lines(ctx context.Context, limit int) (lines []store.Line, err error) {
	err = db.read(ctx, "count steps by route", func(c *conn) error {
		found := make(store.Lines)
		for after := rowkey.Route(math.MinInt64); len(found) < limit; {
			l := store.Line{}
			err := c.each(selectNextRoute, func(b *row) { b.int(int64(after)) }, func(cols *columns) error {
				l.Route = rowkey.Route(cols.int())
				return nil
			})
			if err != nil {
				return err
			}
			if l.Route == 0 {
				break
			}
			err = c.each(selectLine, func(b *row) { b.ints(int64(l.Route), store.OldestAmong) }, func(cols *columns) error {
				l.Enqueued, l.Oldest, l.Job = int(cols.int()), cols.int(), rowkey.Job(cols.int())
				return nil
			})
			if err != nil {
				return err
			}
			found.Add(l)
			after = l.Route
		}
		err := c.each(selectHeldLines, nil, func(cols *columns) error {
			found.Add(store.Line{Route: rowkey.Route(cols.int()), Job: rowkey.Job(cols.int()), Running: int(cols.int())})
			return nil
		})
		lines = found.Sorted()
		return err
	})
	return lines, err
}

// Counts counts records by state; see store.Views.
func (db *DB) Counts(ctx context.Context, workspace string, newest int) (counts *store.Counts, err error) {
	err = db.read(ctx, "count what there is", func(c *conn) error {
		n := store.NewCounts(newest)
		counts = n.Done()
		add := func(to map[machine.State]int) func(machine.State, bool, int) {
			return func(s machine.State, _ bool, k int) { to[s] += k }
		}
		newestOf := func(m *machine.Machine, to map[machine.State]int) func(machine.State, bool, int) {
			return func(s machine.State, of bool, k int) { n.Newest(m, to, s, of, k) }
		}
		for _, part := range []struct {
			text  string
			bound bool
			add   func(s machine.State, ofWorkspace bool, n int)
		}{
			{countOpen("job", "job_open", jobsOpen, workspace), false, add(n.Jobs)},
			{countNewest("job", workspace), true, newestOf(lifecycle.Job, n.Jobs)},
			{countOpen("worker", "worker_living", living, workspace), false, add(n.Workers)},
			{countNewest("worker", workspace), true, newestOf(lifecycle.Worker, n.Workers)},
			{countFlight(workspace), false, add(n.Steps)},
		} {
			bind := func(r *row) {
				if workspace != "" {
					r.text(workspace)
				}
				if part.bound {
					r.int(int64(newest))
				}
			}
			err := c.transient(part.text, bind, func(cols *columns) error {
				part.add(machine.State(cols.text()), cols.bool(), int(cols.int()))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return counts, err
}

// JobSequence adds up sequences; see store.Views.
func (db *DB) JobSequence(ctx context.Context, key rowkey.Job) (id pawl.ID, sum int64, err error) {
	there := false
	err = db.read(ctx, "read the sequence of a job", func(c *conn) (err error) {
		id, sum, there, err = jobSequenceIn(c, key)
		return err
	})
	if err == nil && !there {
		err = fmt.Errorf("job %d: %w", key, store.ErrNotFound)
	}
	return id, sum, err
}

func jobSequenceIn(c *conn, key rowkey.Job) (id pawl.ID, sum int64, there bool, err error) {
	err = c.each(selectJobSequence, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
		there = true
		cols.fixed(id[:])
		sum = cols.int()
		return cols.finish()
	})
	return id, sum, there, err
}

// countOpen returns the query that counts records that have not ended, which have an index.
func countOpen(table, index, open, workspace string) string {
	if workspace != "" {
		open += " AND workspace = ?"
	}
	return "SELECT state, TRUE, count(*) FROM " + table + " INDEXED BY " + index + " WHERE " + open + " GROUP BY state"
}

// countNewest returns the query that counts the newest records, and says whether they are of
// the workspace.
func countNewest(table, workspace string) string {
	of := "TRUE"
	if workspace != "" {
		of = "workspace = ?"
	}
	return "SELECT state, mine, count(*) FROM (SELECT state, " + of + " AS mine FROM " + table + " ORDER BY id DESC LIMIT ?) GROUP BY state, mine"
}

// countFlight returns the query that counts the steps in flight.
func countFlight(workspace string) string {
	if workspace == "" {
		return "SELECT state, TRUE, count(*) FROM step INDEXED BY step_flight WHERE " + inFlight + " GROUP BY state"
	}
	return "SELECT k.state, TRUE, sum(k.n) FROM (SELECT state, job, count(*) AS n FROM step INDEXED BY step_flight WHERE " + inFlight +
		" GROUP BY state, job) k CROSS JOIN job ON job.id = k.job WHERE job.workspace = ? GROUP BY k.state"
}
