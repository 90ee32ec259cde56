package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestSlots: what is taken of a pool of each kind, and of one that nobody uses.
func TestSlots(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for i, state := range append(slices.Clone(lifecycle.Job.States), lifecycle.JobRunning) {
			j := d.newJob(1)
			j.State, j.Pool, j.Quota, j.WorkerCount = state, 10, 20, i
		}
		d.newJob(1).State = lifecycle.JobRunning // of no pool
		j := d.newJob(1)
		for i, state := range lifecycle.Step.States {
			s := d.newStep(j, i+1, 1)
			s.State, s.Pool = state, 10
		}
	})
	want := map[store.Pool]int{
		{Kind: store.PoolJobs, Key: 10}: 2, {Kind: store.PoolQuota, Key: 20}: 2 + 6, {Kind: store.PoolSteps, Key: 10}: 1,
		{Kind: store.PoolJobs, Key: 20}: 0, {Kind: store.PoolQuota, Key: -1}: 0, {Kind: store.PoolSteps, Key: 0}: 0,
	}
	var pools []store.Pool
	for p := range want {
		pools = append(pools, p, p)
	}
	do(t, db, &store.Query{Pools: pools}, func(f *store.Facts, _ *draft) {
		if diff := cmp.Diff(want, f.Pools); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
	got, err := db.Usage(t.Context(), pools)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("usage: %v (-want +got):\n%s", err, diff)
	}
}

// TestPoolsDoNotOverlap: who names a pool waits for the transaction before, with
// no row locked meanwhile, and then counts what that one has taken.
func TestPoolsDoNotOverlap(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	pool := store.Pool{Kind: store.PoolJobs, Key: 5}
	a, b := submit(t, db, 1, 1)[0], submit(t, db, 1, 1)[0]
	start := func(j *pawl.Job, meanwhile func()) (before int) {
		q := &store.Query{Pools: []store.Pool{{Kind: store.PoolSteps, Key: 5}, pool}, Jobs: []rowkey.Job{j.Key()}}
		err := try(db, q, func(f *store.Facts, d *draft) {
			before = f.Pools[pool]
			meanwhile()
			f.Jobs[j.Key()].Pool = pool.Key
			d.moveJob(f.Jobs[j.Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
		})
		if err != nil {
			t.Error(err)
		}
		return before
	}
	second := make(chan int, 1)
	first := start(a, func() {
		go func() { second <- start(b, func() {}) }()
		await(t, db, "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')")
		q := &store.Query{Pools: []store.Pool{{Kind: store.PoolJobs, Key: 6}, {Kind: store.PoolQuota, Key: 5}}, Jobs: []rowkey.Job{b.Key()}}
		do(t, db, q, func(*store.Facts, *draft) {}) // of other pools
	})
	if then := <-second; first != 0 || then != 1 {
		t.Errorf("%d slots taken before the first, and %d before the second; want 0 and 1", first, then)
	}
}

// TestRacingForSlots: many at once start jobs while there is a slot, naming their
// pools in any order: none too many runs, and nobody waits in a circle.
func TestRacingForSlots(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	const slots = 3
	submit(t, db, 40, 1)
	pools := []store.Pool{{Kind: store.PoolJobs, Key: 1}, {Kind: store.PoolJobs, Key: 2}, {Kind: store.PoolQuota, Key: 1}, {Kind: store.PoolSteps, Key: 1}}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 5 {
				q := &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 1}}}
				for _, i := range rand.Perm(len(pools)) {
					q.Pools = append(q.Pools, pools[i])
				}
				err := try(db, q, func(f *store.Facts, d *draft) {
					if f.Pools[pools[0]] < slots {
						j := f.Jobs[f.Claims[0].Starts[0]]
						j.Pool = pools[0].Key
						d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := db.Usage(t.Context(), pools[:1])
	if err != nil || got[pools[0]] != slots {
		t.Errorf("%d run, %v; want %d", got[pools[0]], err, slots)
	}
	// A server process counts its deadlocks when it ends, at the latest.
	other := open(t, db.cfg.URL)
	db.Close()
	await(t, other, "select not exists (select from pg_stat_activity where application_name = $1)", db.application())
	var deadlocks int
	if err := other.pool.QueryRow(context.Background(), "select deadlocks from pg_stat_database where datname = current_database()").Scan(&deadlocks); err != nil || deadlocks > 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}
