package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestUpdatesOfCountersTouchNoIndex: a job and a step that stay in their states
// are updated within their pages, whatever pools and families they belong to.
func TestUpdatesOfCountersTouchNoIndex(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var key pawl.StepKey
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		j := d.newJob(1)
		j.State, j.Pool, j.Quota, j.Parent, j.Continues, j.Private = lifecycle.JobRunning, 1, 2, 3, 4, j.Key()
		s := d.newStep(j, 1, 1)
		s.State, s.Pool, s.Worker = lifecycle.StepInProgress, 1, 5
		key = s.StepKey
	})
	const updates = 8
	for i := range updates {
		do(t, db, &store.Query{Jobs: []rowkey.Job{key.Job}, Steps: []pawl.StepKey{key}}, func(f *store.Facts, d *draft) {
			j, s := f.Jobs[key.Job], f.Steps[key]
			j.Open, j.Active, j.Blocked, j.Hooks = i, i, i, pawl.HooksRun
			s.Live, s.Made, s.Attempts = i, i, i
			d.moveJob(j, j.State, lifecycle.JobHooks)
			d.moveStep(j.ID, s, lifecycle.StepSuccess, s.State)
		})
	}
	withinPages(t, db, updates)
}

// TestEndsTouchNoIndex: neither do jobs and steps that end, which is what most updates do.
func TestEndsTouchNoIndex(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	const jobs = 40 // of several pages
	finish(t, db, beginJobs(t, db, jobs, 7)...)
	withinPages(t, db, jobs)
}

// TestClaimsOfStepsTouchNoIndex: neither do steps that were pending and are claimed. Their jobs leave
// the index of what is pending.
func TestClaimsOfStepsTouchNoIndex(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	const n = 40 // of several pages
	keys := firsts(submit(t, db, n, 7))
	do(t, db, &store.Query{Jobs: jobsOf(keys), Steps: keys}, func(f *store.Facts, d *draft) {
		for _, k := range keys {
			s := f.Steps[k]
			s.Worker, s.EnqueuedAt, s.StartedAt, s.Unmet = 5, f.Now, f.Now, 0
			s.Attempts, s.Claims = 1, 1
			d.moveStep(f.Jobs[k.Job].ID, s, lifecycle.StepClaim, lifecycle.StepInProgress)
		}
	})
	tableWithinPages(t, db, "step", n)
}

// withinPages checks that there were so many updates of jobs and of steps, all within the page.
func withinPages(t *testing.T, db *DB, updates int) {
	t.Helper()
	tableWithinPages(t, db, "job", updates)
	tableWithinPages(t, db, "step", updates)
}

func tableWithinPages(t *testing.T, db *DB, table string, updates int) {
	t.Helper()
	for _, conn := range db.pool.AcquireAllIdle(t.Context()) {
		if _, err := conn.Exec(t.Context(), "select pg_stat_force_next_flush()"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	var all, within int
	err := db.pool.QueryRow(t.Context(), "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = $1", table).Scan(&all, &within)
	if err != nil || all != updates || within != updates {
		t.Errorf("%s: %d of %d updates within the page, %v; want all of %d", table, within, all, err, updates)
	}
}
