package postgres

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestALostEndIsStillListed: what has ended for this process may run in the database, which
// has lost the end as another server took over: the job is to be found then (T10).
func TestALostEndIsStillListed(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	if _, err := db.Beat(t.Context(), link.Pulse{Worker: 7}); err != nil { // there is a session
		t.Fatal(err)
	}
	keys := beginJobs(t, db, 2, 7)
	finish(t, db, keys...)
	db.session.conn.Close(t.Context())
	execute(t, db, "update step set state = 'in_progress' where job = $1", int64(keys[0].Job))
	execute(t, db, "update job set state = 'RUNNING' where id = $1", int64(keys[0].Job))
	db.dropEnded(t.Context())
	checkLines(t, db)
}

// TestForgettingWaitsForNobody: while somebody has the rows, beats go on: the connection
// that they share with names is not given up (T10).
func TestForgettingWaitsForNobody(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	finish(t, db, beginJobs(t, db, 2, 7)...)
	tx, err := db.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "delete from running"); err != nil {
		t.Fatal(err)
	}
	db.dropEnded(t.Context())
	if db.session.conn.IsClosed() {
		t.Error("the session was given up")
	}
}

// TestWhatOthersEndIsForgotten: jobs of which this process does not see the end do not
// keep it from seeing those of others.
func TestWhatOthersEndIsForgotten(t *testing.T) {
	t.Parallel()
	var r runningRows
	begin := func(row int64, jobs ...rowkey.Job) {
		r.see(&writing{begun: []runningRow{{id: row, jobs: jobs}}}, new(store.Changes))
	}
	for row := range int64(maxRunning / 1000) {
		var jobs []rowkey.Job
		for job := range rowkey.Job(1000) {
			jobs = append(jobs, rowkey.Job(1000*row)+job)
		}
		begin(row, jobs...)
	}
	j := &pawl.Job{ID: newID(), Record: pawl.Record{State: lifecycle.JobCompleted}}
	begin(7777, j.Key())
	r.see(new(writing), &store.Changes{Jobs: []store.Update[*pawl.Job]{{Record: j}}})
	if gone := r.take(); !slices.Equal(gone, []int64{7777}) {
		t.Errorf("rows to be deleted: %v, want 7777", gone)
	}
}

// TestOrphansAreFoundByTheirWorkers: neither a look for the workers that have ended, nor
// the reading of what one of them holds, goes through what others hold: that may be much,
// and the look comes every few seconds.
func TestOrphansAreFoundByTheirWorkers(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	beginJobs(t, db, 60, newWorkerIn(t, db, lifecycle.WorkerRunning))
	held := "select * from unnest('{7}'::bigint[]) as u(worker) cross join lateral (" + heldBy("u.worker") + ") h"
	const limit, everything, never = int64(9), int64(math.MinInt64), int64(math.MaxInt64)
	look := []any{limit, everything, words(lifecycle.Worker.Ends), true, int64(0), int64(0), int64(0), never, int64(0), never}
	for len(look) < 16 { // nothing due is behind
		look = append(look, int64(0))
	}
	for sql, params := range map[string][]any{agenda.sql: look, held: nil} {
		for _, analyzed := range []bool{false, true} {
			if analyzed {
				execute(t, db, "analyze")
			}
			rows, err := db.pool.Query(context.Background(), "explain (analyze, costs off, timing off) "+sql, append([]any{pgx.QueryExecModeExec}, params...)...)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			plan := strings.Join(lines, "\n")
			if err != nil || !regexp.MustCompile(`using step_pkey on step\S* step\S* \(never|using step_pkey on step \(never`).MatchString(plan) {
				t.Errorf("steps are gone through for nothing, %v:\n%s", err, plan)
			}
		}
	}
}

// newWorkerIn makes a worker in a state, and returns its key.
func newWorkerIn(t testing.TB, db *DB, state machine.State) (key rowkey.Worker) {
	t.Helper()
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		w := d.newWorker()
		w.State = state
		key = w.Key()
	})
	return key
}
