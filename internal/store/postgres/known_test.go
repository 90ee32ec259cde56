package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestManyKnownRowsAreComparedAgain (K5): an update of many rows that had to wait for
// another transaction compares the version that it finds then, and does not rely on the
// server to compare the place again, which it does only since 15.15, 16.11, 17.7 and 18.1.
func TestManyKnownRowsAreComparedAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	jobs := []rowkey.Job{p.job.Key()}
	for range oneByOne {
		jobs = append(jobs, running(t, p.a).Key())
	}
	q := &store.Query{Jobs: jobs}
	tx, err := p.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "update job set open = 9, seq = seq + 1 where id = $1", jobs[1]); err != nil {
		t.Fatal(err)
	}
	decided := make(chan int, 1)
	go func() {
		n := 0
		do(t, p.a, q, func(f *store.Facts, d *draft) {
			n++
			for _, key := range jobs {
				f.Jobs[key].Active++
				d.moveJob(f.Jobs[key], lifecycle.JobRunning, lifecycle.JobPause)
			}
		})
		decided <- n
	}()
	await(t, p.b, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-decided; n != 2 {
		t.Errorf("decided %d times, want 2: a job was being changed", n)
	}
	j, err := p.b.Job(t.Context(), jobs[1])
	if err != nil || j.Open != 9 || j.Seq != 4 {
		t.Errorf("the job is %+v, %v; want what the other has written in it, and one more move", j, err)
	}
	for _, l := range []*narrow{moveJobs.narrow, countJobs.narrow, takeSteps.narrow, moveSteps.narrow, endSteps.narrow, startJobs.narrow, finishJobs.narrow, startSteps.narrow, finishSteps.narrow} {
		err := p.a.pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
			plan := explain(t, conn, l.known)
			if strings.Count(plan, "xmin = u.xid") < 2 {
				t.Errorf("%s compares no version of the row that it updates:\n%s", l.known.name, plan)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
