package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Sizes of a past and of a queue that a poll or a claim would be seen to read.
const (
	pastRows    = 3000
	waitingRows = 1000
)

// history fills a database with what has ended and with what waits behind the
// head of its queues, straight in SQL.
func history(t testing.TB, db *DB, past, waiting int) {
	t.Helper()
	bulk := func(table, of string, from, n int, with string) {
		t.Helper()
		execute(t, db, fmt.Sprintf(`insert into %s select r.* from (select * from %s %s limit 1) s, generate_series(%d, %d) g,
  lateral jsonb_populate_record(null::%s, to_jsonb(s) || %s) r`, table, table, of, from, from+n-1, table, with))
	}
	const first = 1 << 40 // keys behind those of new ids would be read by nobody
	bulk("job", "", first, past, "jsonb_build_object('id', g, 'state', 'COMPLETED', 'open', 0, 'completed_at', g)")
	bulk("step", "", first, past, "jsonb_build_object('job', g, 'state', 'complete', 'completed_at', g)")
	bulk("worker", "", first, past, "jsonb_build_object('id', g, 'state', 'COMPLETED')")
	execute(t, db, "insert into beat select g, 1 from generate_series($1::bigint, $2) g", first, first+past-1)
	bulk("schedule", "", first, past, "jsonb_build_object('id', g, 'state', 'removed', 'due_at', 0)")
	execute(t, db, "insert into signal select g, 1, 'n', null, 1, 'a', 1 from generate_series($1::bigint, $2) g", first, first+past-1)
	for i, route := range []int{1, 2, 77} { // 77 is nobody's
		at := first + past + 2*i*waiting
		bulk("job", "where state = 'PENDING'", at, waiting, fmt.Sprintf("jsonb_build_object('id', g, 'rank', g, 'route', %d)", route))
		bulk("step", "where state = 'pending'", at, waiting, fmt.Sprintf("jsonb_build_object('job', g, 'route', %d)", route))
		bulk("step", "where state = 'enqueued'", at+waiting, waiting, fmt.Sprintf("jsonb_build_object('job', g, 'rank', g, 'route', %d)", route))
		bulk("job", "where state = 'RUNNING'", at+waiting, waiting, "jsonb_build_object('id', g)")
	}
}

// blocks returns how many blocks of tables and indexes have been asked for. Each of the
// two connections of the handle reports first what it has counted.
func blocks(t testing.TB, db *DB) (n int64) {
	t.Helper()
	for _, pool := range []*pgxpool.Pool{db.pool, db.lookups} {
		if _, err := pool.Exec(t.Context(), "select pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
	}
	err := db.pool.QueryRow(t.Context(), `select sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint
  from pg_statio_user_tables where schemaname = current_schema()`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func visits(t testing.TB, db *DB) map[string]func() error {
	claim := func(routes ...rowkey.Route) func() error {
		return func() error {
			q := &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 10}}}
			return db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
				if c := f.Claims[0]; len(c.Steps)+len(c.Starts) != 10 {
					return nil, fmt.Errorf("%d steps and %d starts, want 10", len(c.Steps), len(c.Starts))
				}
				return nil, nil
			})
		}
	}
	ctx := context.Background()
	return map[string]func() error{
		"claim of one route":        claim(1),
		"claim of several routes":   claim(1, 2, 3),
		"look":                      func() error { _, err := db.Look(ctx, store.LookQuery{Limit: 200}); return err },
		"observe":                   func() error { _, err := db.Observe(ctx); return err },
		"living workers":            func() error { _, err := db.Workers(ctx, store.WorkerFilter{Living: true}); return err },
		"schedules":                 func() error { _, err := db.Schedules(ctx, pawl.ScheduleName{}, pawl.ScheduleName{}, 0); return err },
		"jobs of a concurrency key": func() error { _, err := db.PendingIn(ctx, 5, store.Ranked{}, 10); return err },
		"what runs":                 func() error { _, err := db.Running(ctx, store.Spot{}, 50); return err },
		"usage": func() error {
			_, err := db.Usage(ctx, []store.Pool{{Kind: store.PoolJobs, Key: 5}, {Kind: store.PoolQuota, Key: 5}, {Kind: store.PoolSteps, Key: 5}})
			return err
		},
		"submit": func() error { submit(t, db, 1, 99); return nil },
	}
}

// TestThePastAndWhatWaitsCostNothing: what a claim, a submission and the polls
// read does not grow with what has ended, nor with how much waits behind the head
// of a queue or on the routes of others. Blocks are counted, not time.
func TestThePastAndWhatWaitsCostNothing(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Config{URL: pgtest.URL(t), MaxConns: 2}) // one for transactions, one for lookups
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	enqueue(t, db, submit(t, db, 150, 1))
	enqueue(t, db, submit(t, db, 150, 2))
	submit(t, db, 150, 1)
	submit(t, db, 150, 2)
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		d.newWorker()
		d.newSchedule("s")
	})
	execute(t, db, "analyze")
	cost := func(f func() error) int64 {
		t.Helper()
		before := blocks(t, db)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return blocks(t, db) - before
	}
	all := visits(t, db)
	before := make(map[string]int64)
	for name, f := range all {
		before[name] = cost(f)
	}
	history(t, db, pastRows, waitingRows)
	execute(t, db, "analyze worker") // as autovacuum does
	for name, f := range all {
		after := cost(f)
		t.Logf("%-26s %4d blocks, then %4d", name, before[name], after)
		if most := before[name]*3/2 + 40; after > most { // indexes are a level or two higher
			t.Errorf("%s reads %d blocks after %d with a past and a queue; want at most %d", name, after, before[name], most)
		}
	}
}
