package postgres

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestJobsAreLockedInOrder (K5): an optimistic transaction of which one job moves, and of
// a later one only counts change, locks them in the order of their keys, as all others do:
// each would have what the other waits for.
func TestJobsAreLockedInOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{oneByOne, fewRows, fewRows + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			q := &store.Query{Jobs: []rowkey.Job{p.job.Key()}}
			for range n - 1 {
				q.Jobs = append(q.Jobs, running(t, p.a).Key())
			}
			tx, err := p.b.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback(context.Background())
			if _, err := tx.Exec(t.Context(), "select from job where id = $1 for update", q.Jobs[0]); err != nil {
				t.Fatal(err)
			}
			decided := make(chan int, 1)
			go func() {
				n := 0
				do(t, p.a, q, func(f *store.Facts, d *draft) {
					n++
					d.moveJob(f.Jobs[q.Jobs[0]], lifecycle.JobRunning, lifecycle.JobPause)
					for _, key := range q.Jobs[1:] {
						f.Jobs[key].Open++
						d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: f.Jobs[key], Was: f.Jobs[key].Seq})
					}
				})
				decided <- n
			}()
			await(t, p.b, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
			if _, err := tx.Exec(t.Context(), "select from job where id = any($1) for update nowait", q.Jobs[1:]); err != nil {
				t.Errorf("a later job is locked already: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := <-decided; n != 1 {
				t.Errorf("decided %d times, want once", n)
			}
		})
	}
}

// TestCountsAreWritten: where some jobs move and of others only counts change, all of it
// is written, whatever form the statements take, and by whom it is known.
func TestCountsAreWritten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{oneByOne, fewRows, fewRows + 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			q := &store.Query{}
			for range n {
				q.Jobs = append(q.Jobs, running(t, p.a).Key())
			}
			// Both change all jobs in turns; what b has written a has to read.
			for round, db := range []*DB{p.a, p.b, p.b, p.a} {
				for moves := range 2 {
					do(t, db, q, func(f *store.Facts, d *draft) {
						for i, key := range q.Jobs {
							j := f.Jobs[key]
							j.Open, j.Blocked, j.Active = j.Open+1, j.Blocked+2, j.Active+3
							if i < moves {
								d.moveJob(j, lifecycle.JobRunning, lifecycle.JobPause)
								continue
							}
							d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
						}
					})
				}
				for i, key := range q.Jobs {
					j, err := p.b.Job(t.Context(), key)
					done, seq := 2*(round+1), int64(2)
					if i == 0 {
						seq += int64(round) + 1
					}
					if err != nil || j.Open != 1+done || j.Blocked != 2*done || j.Active != 3*done || j.Seq != seq {
						t.Fatalf("after round %d job %d is %+v, %v", round, i, j, err)
					}
				}
			}
		})
	}
}
