package postgres

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// BenchmarkNoopJobs takes jobs of one step through their three commits, in
// batches of 200 from two goroutines, on a cluster that writes to the disk
// unless PAWL_TEST_POSTGRES names another.
//
//	go test -run xxx -bench NoopJobs -benchtime 1000x ./internal/store/postgres
func BenchmarkNoopJobs(b *testing.B) {
	url := os.Getenv(pgtest.Variable)
	if url == "" {
		c, err := pgtest.Start(context.Background(), true)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Stop() })
		url = c.URL
	}
	db := open(b, url)
	const batch, writers = 200, 2
	start := time.Now()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				noopJobs(b, db, batch, rowkey.Route(w+1))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N*batch)/time.Since(start).Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
}

func noopJobs(b *testing.B, db *DB, n int, route rowkey.Route) {
	do(b, db, &store.Query{}, func(f *store.Facts, d *draft) {
		for range n {
			j := d.newJob(route)
			j.Rank = pawl.RankAt(f.Now, 0) // claims begin 2 s behind the clock
			d.newStep(j, 1, route).Rank = j.Rank
		}
	})
	var keys []pawl.StepKey
	do(b, db, &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{route}, Limit: n}}}, func(f *store.Facts, d *draft) {
		keys = keys[:0]
		for _, key := range f.Claims[0].Starts {
			j, k := f.Jobs[key], pawl.StepKey{Job: key, Ord: pawl.MakeOrd(1, 0)}
			keys = append(keys, k)
			d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
			s := f.Steps[k]
			s.Claims, s.Attempts, s.Worker, s.StartedAt, s.DueAt = 1, 1, rowkey.Worker(route), f.Now, f.Now+60e6
			d.moveStep(j.ID, s, lifecycle.StepEnqueue, lifecycle.StepEnqueued, lifecycle.StepClaim, lifecycle.StepInProgress)
		}
	})
	if len(keys) != n {
		b.Fatalf("%d starts, want %d", len(keys), n)
	}
	q := &store.Query{Steps: keys}
	for _, k := range keys {
		q.Jobs = append(q.Jobs, k.Job)
	}
	do(b, db, q, func(f *store.Facts, d *draft) {
		for _, k := range keys {
			j, s := f.Jobs[k.Job], f.Steps[k]
			s.DueAt, s.CompletedAt, s.Output = 0, f.Now, []byte(`{"ok":true}`)
			d.moveStep(j.ID, s, lifecycle.StepSuccess, lifecycle.StepComplete)
			d.moveJob(j, lifecycle.JobCompleted, lifecycle.JobSuccess)
		}
	})
}
