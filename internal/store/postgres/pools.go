package postgres

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var (
	// The lock of a pool has two keys, that of a name (session.go) has one: the server keeps
	// the two kinds apart. They are taken in the order of the keys themselves, and before any
	// row is locked, so that transactions never wait for each other in a circle.
	lockPools = &statement{"lock_pools", `select pg_advisory_xact_lock((k >> 32)::int, ((k << 32) >> 32)::int) from
  (select distinct hashtextextended(current_schema() || '/' || kind || '/' || key, 7061776) as k
   from (select unnest($1::bigint[]) as kind, unnest($2::bigint[]) as key) u order by 1) k`}
	// A separate statement, so that it sees what was committed under the locks.
	countPools = &statement{"count_pools", slotsTaken}
)

// slotsTaken returns kind, key and the taken slots of each pool.
const slotsTaken = `select u.kind, u.key, coalesce(case u.kind
  when 1 then (select count(*) from job where line = 3 and pool <> 0 and pool = u.key)
  when 2 then coalesce((select sum(worker_count) from job where line = 3 and quota <> 0 and quota = u.key), 0)
    + coalesce((select sum(slots) from reservation where pool = u.key and expires_at > ` + clock + `), 0)
  when 3 then (select count(*) from step where line = 2 and pool = u.key) end, 0)::bigint
from (select unnest($1::bigint[]) as kind, unnest($2::bigint[]) as key) u`

func (r *reading) queuePools(p *pipe) {
	if len(r.q.Pools) == 0 {
		return
	}
	kinds, keys := poolColumns(r.q.Pools)
	k, n := nums(kinds), nums(keys)
	p.add(lockPools, nil, k, n)
	p.add(countPools, slotsInto(r.Pools), k, n)
}

// Usage returns the taken slots of the pools.
func (db *DB) Usage(ctx context.Context, pools []store.Pool) (map[store.Pool]int, error) {
	taken := map[store.Pool]int{}
	kinds, keys := poolColumns(pools)
	err := db.query(ctx, "count slots", slotsTaken, slotsInto(taken), kinds, keys)
	return taken, err
}

// PendingIn returns pending jobs of a pool.
func (db *DB) PendingIn(ctx context.Context, pool rowkey.Pool, after store.Ranked, limit int) (jobs []store.Ranked, err error) {
	if after == (store.Ranked{}) {
		after.Rank = math.MinInt64
	}
	err = db.query(ctx, "find pending jobs of a pool",
		"select rank, id from job where line = 1 and pool <> 0 and pool = $1 and not paused and (rank, id) > ($2, $3) order by rank, id limit $4",
		func(c *cursor) { jobs = append(jobs, store.Ranked{Rank: c.num(), Job: rowkey.Job(c.num())}) }, int64(pool), after.Rank, int64(after.Job), limit)
	return jobs, err
}

// poolColumns returns each pool once, as two columns.
func poolColumns(pools []store.Pool) (kinds, keys []int64) {
	seen := make(map[store.Pool]bool, len(pools))
	for _, p := range pools {
		if !seen[p] {
			seen[p] = true
			kinds, keys = append(kinds, int64(p.Kind)), append(keys, int64(p.Key))
		}
	}
	return kinds, keys
}

func slotsInto(taken map[store.Pool]int) func(*cursor) {
	return func(c *cursor) {
		p := store.Pool{Kind: store.PoolKind(c.num()), Key: rowkey.Pool(c.num())}
		taken[p] = c.int()
	}
}
