package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func checkLines(t testing.TB, db *DB) {
	t.Helper()
	conn, err := db.pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if wrong, err := pgtest.Misplaced(context.Background(), conn.Conn()); err != nil || len(wrong) > 0 {
		t.Errorf("out of line: %v, %v", wrong, err)
	}
}

// listed returns the rows of the table of what runs: how many jobs are in them.
func listed(t testing.TB, db *DB) (rows, jobs int) {
	t.Helper()
	err := db.pool.QueryRow(t.Context(), "select count(*), coalesce(sum(cardinality(jobs)), 0) from running").Scan(&rows, &jobs)
	if err != nil {
		t.Fatal(err)
	}
	return rows, jobs
}

// beginJobs makes jobs that run, each with a step that the worker holds.
func beginJobs(t testing.TB, db *DB, n int, worker rowkey.Worker) (keys []pawl.StepKey) {
	t.Helper()
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for range n {
			j := d.newJob(1)
			s := d.newStep(j, 1, 1)
			j.State, s.State, s.Worker = lifecycle.JobRunning, lifecycle.StepInProgress, worker
			keys = append(keys, s.StepKey)
		}
	})
	return keys
}

// finish ends steps and their jobs.
func finish(t testing.TB, db *DB, keys ...pawl.StepKey) {
	t.Helper()
	do(t, db, &store.Query{Jobs: jobsOf(keys), Steps: keys}, func(f *store.Facts, d *draft) {
		for _, k := range keys {
			d.moveStep(f.Jobs[k.Job].ID, f.Steps[k], lifecycle.StepSuccess, lifecycle.StepComplete)
			d.moveJob(f.Jobs[k.Job], lifecycle.JobCompleted, lifecycle.JobSuccess)
		}
	})
}

func jobsOf(keys []pawl.StepKey) (jobs []rowkey.Job) {
	for _, k := range keys {
		jobs = append(jobs, k.Job)
	}
	return jobs
}

// TestWhatRunsIsForgotten: the row of a commit goes with the next beat when its last job
// has ended, and not before.
func TestWhatRunsIsForgotten(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	beat := func() int {
		t.Helper()
		if _, err := db.Beat(t.Context(), link.Pulse{Worker: 7}); err != nil {
			t.Fatal(err)
		}
		rows, _ := listed(t, db)
		return rows
	}
	beat() // there is a session
	keys := beginJobs(t, db, 3, 7)
	finish(t, db, keys[:2]...)
	if rows := beat(); rows != 1 {
		t.Errorf("%d rows while one of three jobs runs, want 1", rows)
	}
	checkLines(t, db)
	finish(t, db, keys[2])
	if rows := beat(); rows != 0 {
		t.Errorf("%d rows of jobs that have ended", rows)
	}
}

// TestTidying: rows of a process that is gone, and jobs that another one has ended, are
// taken out when they are due; what runs stays, and is looked at half as often.
func TestTidying(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	keys := beginJobs(t, db, 5, 7)
	beginJobs(t, db, 1, 8)
	finish(t, other, keys[:3]...)
	// This one runs on, and nobody holds a step of it.
	do(t, other, &store.Query{Jobs: []rowkey.Job{keys[3].Job}, Steps: keys[3:4]}, func(f *store.Facts, d *draft) {
		s := f.Steps[keys[3]]
		s.Worker = 0
		d.moveStep(f.Jobs[keys[3].Job].ID, s, lifecycle.StepLost, lifecycle.StepInProgress)
	})
	look := func() (rows, jobs int) {
		t.Helper()
		if _, err := other.Look(t.Context(), store.LookQuery{Limit: 9, Living: true}); err != nil {
			t.Fatal(err)
		}
		checkLines(t, db)
		return listed(t, db)
	}
	if rows, jobs := look(); rows != 2 || jobs != 6 {
		t.Errorf("before it is due: %d jobs in %d rows, want 6 in 2", jobs, rows)
	}
	for _, wait := range []int64{20e6, 40e6} {
		execute(t, db, "update running set due_at = 1")
		if rows, jobs := look(); rows != 3 || jobs != 3 {
			t.Errorf("when it was due: %d jobs in %d rows, want 3 in 3: of two workers, and of none", jobs, rows)
		}
		var waits []int64
		if err := db.pool.QueryRow(t.Context(), "select array_agg(distinct wait) from running").Scan(&waits); err != nil || !slices.Equal(waits, []int64{wait}) {
			t.Errorf("rows wait for %d, %v, want %d", waits, err, wait)
		}
	}
	execute(t, db, "update running set wait = 3600000000, due_at = 1")
	look()
	var longest int64
	if err := db.pool.QueryRow(t.Context(), "select max(wait) from running").Scan(&longest); err != nil || longest != 3600e6 {
		t.Errorf("a row waits for %d µs, %v, want an hour at most", longest, err)
	}
}

// TestNothingIsOverlooked: while steps are claimed, passed on within a commit, given back
// and ended by two handles, and the table is tidied up all the time, whatever runs is
// found by its worker and by its state (T10).
func TestNothingIsOverlooked(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	const jobs, moves = 12, 25
	var keys []pawl.StepKey
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for range jobs {
			j := d.newJob(1)
			keys = append(keys, d.newStep(j, 1, 1).StepKey, d.newStep(j, 2, 1).StepKey)
		}
	})
	done := make(chan struct{})
	var movers, tidier sync.WaitGroup
	tidier.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			execute(t, db, "update running set due_at = 1")
			if _, err := other.Look(t.Context(), store.LookQuery{Limit: 9, Living: true}); err != nil {
				t.Error(err)
			}
			other.dropEnded(t.Context())
			db.dropEnded(t.Context())
			checkLines(t, db)
		}
	})
	for i := range jobs {
		movers.Go(func() {
			on := db
			for range moves {
				if rand.IntN(4) == 0 { // mostly one handle has seen the last commit
					on = []*DB{db, other}[rand.IntN(2)]
				}
				shuffleJob(t, on, keys[2*i:2*i+2])
			}
		})
	}
	movers.Wait()
	close(done)
	tidier.Wait()
	checkLines(t, db)
}

// shuffleJob takes a job and its steps to any state.
func shuffleJob(t testing.TB, db *DB, keys []pawl.StepKey) {
	t.Helper()
	held := []machine.State{lifecycle.StepInProgress, lifecycle.StepInProgress, lifecycle.StepPending, lifecycle.StepEnqueued}
	err := try(db, &store.Query{Jobs: []rowkey.Job{keys[0].Job}, Steps: keys}, func(f *store.Facts, d *draft) {
		j := f.Jobs[keys[0].Job]
		end := rand.IntN(5) == 0
		for _, k := range keys {
			s, to := f.Steps[k], held[rand.IntN(len(held))]
			if end {
				to = lifecycle.StepComplete
			}
			if to == lifecycle.StepInProgress { // otherwise it keeps who held it last
				s.Worker = 7 + rowkey.Worker(rand.Int64N(2))
			}
			d.moveStep(j.ID, s, lifecycle.StepClaim, to)
		}
		to := lifecycle.JobRunning
		if end {
			to = lifecycle.JobCompleted
		}
		d.moveJob(j, to, lifecycle.JobAllocateResources)
	})
	if err != nil {
		t.Error(err)
	}
}
