package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// poolCounts count the taken slots of a pool.
var poolCounts = map[store.PoolKind]statement{
	store.PoolJobs:  countPoolJobs,
	store.PoolQuota: countPoolQuota,
	store.PoolSteps: countPoolSteps,
}

// taken counts the taken slots of pools. A write transaction locks them: there is one writer.
func (c *conn) taken(pools []store.Pool, now int64) (map[store.Pool]int, error) {
	counts := make(map[store.Pool]int, len(pools))
	for _, p := range pools {
		s, ok := poolCounts[p.Kind]
		if !ok {
			return nil, fmt.Errorf("kind %d of pool %d: want %d, %d or %d", p.Kind, p.Key, store.PoolJobs, store.PoolQuota, store.PoolSteps)
		}
		err := c.each(s, func(b *row) {
			b.int(int64(p.Key))
			if p.Kind == store.PoolQuota {
				b.int(now)
			}
		}, func(cols *columns) error {
			counts[p] = int(cols.int()) // NULL, the sum of nothing, reads as 0
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func (r *reading) pools(q *store.Query) (err error) {
	r.f.Pools, err = r.c.taken(q.Pools, r.f.Now)
	return err
}

// Usage returns the taken slots of the pools.
func (db *DB) Usage(ctx context.Context, pools []store.Pool) (map[store.Pool]int, error) {
	var counts map[store.Pool]int
	err := db.read(ctx, "count slots", func(c *conn) (err error) {
		counts, err = c.taken(pools, db.now())
		return err
	})
	return counts, err
}

// PendingIn returns pending jobs of a pool.
func (db *DB) PendingIn(ctx context.Context, pool rowkey.Pool, after store.Ranked, limit int) (jobs []store.Ranked, err error) {
	if after == (store.Ranked{}) {
		after.Rank = math.MinInt64
	}
	err = db.read(ctx, "find pending jobs of a pool", func(c *conn) error {
		jobs = nil
		return c.each(selectPoolPending, func(b *row) { b.ints(int64(pool), after.Rank, int64(after.Job), int64(limit)) }, func(cols *columns) error {
			jobs = append(jobs, store.Ranked{Rank: cols.int(), Job: rowkey.Job(cols.int())})
			return nil
		})
	})
	return jobs, err
}

func writeQuotas(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, q := range ch.Quotas {
		s := insertQuota
		if q.Slots < 0 {
			s = deleteQuota
		}
		err := c.run(s, func(r *row) {
			r.text(q.Workspace)
			r.text(q.Name)
			if s == insertQuota {
				r.ints(int64(q.Slots), q.At)
				r.text(q.Actor)
				r.text(q.Reason)
			}
		})
		if err != nil {
			return fmt.Errorf("set quota %s of workspace %s: %w", q.Name, q.Workspace, err)
		}
	}
	return nil
}

// limits reads the limits that the query names.
func (r *reading) limits(q *store.Query) error {
	for _, n := range q.Limits {
		err := r.c.each(selectQuota, func(b *row) { b.workflowName(n) }, func(c *columns) error {
			r.f.Limits[n] = c.quota()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *columns) quota() *pawl.Quota {
	return &pawl.Quota{Workspace: c.text(), Name: c.text(), Slots: int(c.int()), At: c.int(), Actor: c.text(), Reason: c.text()}
}

// Quotas reads the limits of a workspace, or of all, by name.
func (db *DB) Quotas(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Quota, error) {
	var quotas []*pawl.Quota
	err := db.read(ctx, "list quotas", func(c *conn) error {
		return c.page(selectQuotas, limit, func(b *row) { b.behind(workspace, after, limit) }, func(cols *columns) int {
			q := cols.quota()
			quotas = append(quotas, q)
			return len(q.Workspace) + len(q.Name) + len(q.Actor) + len(q.Reason)
		})
	})
	return quotas, err
}
