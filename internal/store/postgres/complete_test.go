package postgres

import (
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestWhatIsAnsweredIsThere (K5): of a commit that was confirmed every record and every
// entry is there, however many there are, though they are all alike.
func TestWhatIsAnsweredIsThere(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs, steps, seq := 0, 0, 0
	for _, n := range []int{1, 2, fewRows, fewRows + 1, 3 * fewRows, 500} {
		made := submit(t, db, n, 1)
		for range 2 { // as it is known, and as it is read
			do(t, db, &store.Query{Jobs: keysOf(made), Steps: stepsOf(made)}, func(f *store.Facts, d *draft) {
				for _, j := range made {
					d.moveJob(f.Jobs[j.Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
					d.moveStep(j.ID, f.Steps[pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(1, 0)}], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
				}
			})
			db.cache.clear()
		}
		jobs, steps, seq = jobs+n, steps+n, seq+n*(4+3)
		want := fmt.Sprint(jobs, steps, seq, seq)
		_, rows, err := query(t.Context(), db.cfg.URL, "select (select count(*) from job), (select count(*) from step), ((select sum(seq) from job) + (select sum(seq) from step))::bigint, (select count(*) from trail)")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(rows[0][0], " ", rows[0][1], " ", rows[0][2], " ", rows[0][3]); got != want {
			t.Fatalf("after %d at once: jobs, steps, their moves and entries are %s, want %s", n, got, want)
		}
	}
}

func stepsOf(jobs []*pawl.Job) (keys []pawl.StepKey) {
	for _, j := range jobs {
		keys = append(keys, pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(1, 0)})
	}
	return keys
}

// TestWhatIsNotWrittenFails (K5): a record for which nothing is sent fails the commit
// before it begins; the server would not miss it.
func TestWhatIsNotWrittenFails(t *testing.T) {
	t.Parallel()
	d := &draft{now: 1}
	j := d.newJob(1)
	s := d.newStep(j, 1, 1)
	w, err := new(DB).encode(newReading(&store.Query{}), &d.Changes)
	if err != nil {
		t.Fatal(err)
	}
	for name, ch := range map[string]store.Changes{
		"a job":            {NewJobs: []*pawl.Job{j, j}, NewSteps: d.NewSteps},
		"a step":           {NewJobs: d.NewJobs, NewSteps: []*pawl.Step{s, s}},
		"a move of a job":  {NewJobs: d.NewJobs, NewSteps: d.NewSteps, Jobs: []store.Update[*pawl.Job]{{Record: j}}},
		"a move of a step": {NewJobs: d.NewJobs, NewSteps: d.NewSteps, Steps: []store.Update[*pawl.Step]{{Record: s}}},
	} {
		if w.complete(&ch) == nil {
			t.Errorf("%s is not written, and nobody says so", name)
		}
	}
}
