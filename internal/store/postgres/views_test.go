package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestJobFilters: children, continuations, and jobs in which nothing has moved.
func TestJobFilters(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, 4, 1)
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for range 3 {
			j := d.newJob(1)
			j.Parent, j.Continues = jobs[0].Key(), jobs[1].Key()
			jobs = append(jobs, j)
		}
		jobs[6].Parent, jobs[5].Continues = jobs[3].Key(), jobs[3].Key()
	})
	// When job and step were changed; the fifth has no step.
	for i, at := range [][2]int64{{50, 50}, {50, 60}, {60, 50}, {59, 59}} {
		execute(t, db, "update job set updated_at = $2 where id = $1", int64(jobs[i].Key()), at[0])
		execute(t, db, "update step set updated_at = $2 where job = $1", int64(jobs[i].Key()), at[1])
	}
	execute(t, db, "update job set updated_at = 1 where id = $1", int64(jobs[4].Key()))
	tests := map[string]struct {
		filter store.JobFilter
		want   []*pawl.Job
	}{
		"children":       {store.JobFilter{Parent: jobs[0].Key()}, []*pawl.Job{jobs[5], jobs[4]}},
		"one child":      {store.JobFilter{Parent: jobs[0].Key(), Limit: 1}, []*pawl.Job{jobs[5]}},
		"no child":       {store.JobFilter{Parent: jobs[6].Key()}, nil},
		"continued":      {store.JobFilter{Continues: jobs[1].Key()}, []*pawl.Job{jobs[6], jobs[4]}},
		"both":           {store.JobFilter{Continues: jobs[1].Key(), Parent: jobs[3].Key()}, []*pawl.Job{jobs[6]}},
		"still":          {store.JobFilter{Still: 60}, []*pawl.Job{jobs[4], jobs[3], jobs[0]}},
		"still for long": {store.JobFilter{Still: 59, States: []machine.State{lifecycle.JobPending}}, []*pawl.Job{jobs[4], jobs[0]}},
	}
	for name, tt := range tests {
		got, err := db.Jobs(t.Context(), tt.filter)
		if diff := cmp.Diff(keysOf(tt.want), keysOf(got)); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestInFlight counts by route, by worker, and what the engine owns.
func TestInFlight(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	check := func(enqueued map[rowkey.Route]int, running map[rowkey.Worker]int) {
		t.Helper()
		e, r, err := db.InFlight(t.Context())
		if err != nil || !cmp.Equal(e, enqueued) || !cmp.Equal(r, running) {
			t.Errorf("enqueued %v, running %v, %v; want %v and %v", e, r, err, enqueued, running)
		}
	}
	check(map[rowkey.Route]int{}, map[rowkey.Worker]int{})
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		j := d.newJob(1)
		for i, state := range lifecycle.Step.States {
			for n, worker := range []rowkey.Worker{0, 7, 7, 8} {
				s := d.newStep(j, 4*i+n+1, 1+rowkey.Route(worker%7))
				s.State, s.Worker = state, worker
			}
		}
	})
	check(map[rowkey.Route]int{1: 3, 2: 1}, map[rowkey.Worker]int{0: 1, 7: 2, 8: 1})
}
