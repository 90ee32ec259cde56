package sqlite

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Running goes through the running jobs in the order of their index: by route, paused, rank
// and key.
func (db *DB) Running(ctx context.Context, from store.Spot, limit int) ([]store.Passed, error) {
	var passed []store.Passed
	err := db.read(ctx, "go through what runs", func(c *conn) error {
		passed = nil
		return c.each(selectRunning, func(b *row) { b.ints(from[:]...); b.int(int64(limit)) }, func(cols *columns) error {
			j := jobTable.readPlain(cols)
			p := store.Passed{At: store.Spot{int64(j.Route), 0, j.Rank, int64(j.Key())}}
			if j.Paused {
				p.At[1] = 1
			}
			if decoded(db.log, cols, lifecycle.Job.Name, j.Key()) {
				p.Job = j
			}
			passed = append(passed, p)
			return nil
		})
	})
	return passed, err
}

// SpotAt finds a route at that share of all possible routes, and a place at that share of its
// jobs by rank, which mostly corresponds to their time of creation.
func (db *DB) SpotAt(ctx context.Context, share float64) (spot store.Spot, err error) {
	err = db.read(ctx, "find a place in what runs", func(c *conn) error {
		spot = store.Spot{}
		for _, from := range []int64{int64(share * math.MaxInt64), 0} {
			found := false
			err := c.each(selectRunningRoute, func(b *row) { b.int(from) }, func(cols *columns) error {
				spot[0], found = cols.int(), true
				return nil
			})
			if err != nil {
				return err
			}
			if found {
				return c.ranksAt(&spot, share)
			}
		}
		return nil
	})
	return spot, err
}

func (c *conn) ranksAt(spot *store.Spot, share float64) error {
	return c.each(selectRunningRanks, func(b *row) { b.int(spot[0]) }, func(cols *columns) error {
		low, high := cols.int(), cols.int()
		spot[2] = low + int64(share*float64(high-low))
		return nil
	})
}

// Bare reads steps of a job without bodies.
func (db *DB) Bare(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	var steps []*pawl.Step
	err := db.read(ctx, "read steps", func(c *conn) error {
		steps = nil
		return c.each(selectStepsBare, func(b *row) { b.ints(int64(job), int64(after), int64(limit)) }, func(cols *columns) error {
			if s := stepTable.readPlain(cols); decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
				steps = append(steps, s)
			}
			return nil
		})
	})
	return steps, err
}

// Unstarted goes through the table of jobs, not an index. The indexes depend on a job's fields
// directly, so none is lost.
func (db *DB) Unstarted(ctx context.Context, after rowkey.Job, limit int) (found []store.Unstarted, last rowkey.Job, err error) {
	err = db.read(ctx, "go through what is to be started", func(c *conn) error {
		found = nil
		err := c.each(selectKeyAfter, func(b *row) { b.ints(int64(after), int64(limit)) }, func(cols *columns) error {
			last = rowkey.Job(cols.int()) // NULL reads as 0
			return nil
		})
		if err != nil || last == 0 {
			return err
		}
		return c.each(selectUnstarted, func(b *row) { b.ints(int64(after), int64(last)) }, func(cols *columns) error {
			if j := jobTable.readPlain(cols); decoded(db.log, cols, lifecycle.Job.Name, j.Key()) {
				found = append(found, store.Unstarted{Job: j})
			}
			return nil
		})
	})
	return found, last, err
}
