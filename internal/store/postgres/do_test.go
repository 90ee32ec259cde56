package postgres

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestRecordsComeBackAsWritten sets every field of every record to a value of
// its own, so that two columns in the wrong order show.
func TestRecordsComeBackAsWritten(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	rec := func(n int64) pawl.Record {
		return pawl.Record{Seq: 1, Head: [32]byte{byte(n), 2, 3}, DueAt: n + 1, DueEvent: "timeout", CreatedAt: n + 2, UpdatedAt: n + 3}
	}
	job := &pawl.Job{
		Record: rec(100), ID: newID(), Workspace: "ws", Definition: 7, Workflow: "wf", Description: "what\x00for", Parent: 8, Continues: 9,
		Version: 15, ParentStep: pawl.MakeOrd(16, 0), Schedule: 17, Rank: -18, Pool: 19, Quota: math.MaxInt64, Hooks: pawl.HooksCancelled, Blocked: 20,
		Depth: 2, WorkerCount: 3, Private: 21, Route: 10, Priority: -4, Paused: true, Mark: pawl.Attention, Ending: lifecycle.JobCompleted,
		Open: 11, Active: 12, StartedAt: 13, CompletedAt: 14, Inputs: json.RawMessage(`{"a" : "\u0000\ud800"}`), Output: json.RawMessage(`[1,  2]`),
		Error: &pawl.Failure{Class: "c", Message: "m\x00", Permanent: true, Delay: 5, Step: "s"}, Metadata: json.RawMessage(`{}`),
	}
	job.State = lifecycle.JobRunning
	step := &pawl.Step{
		Record: rec(200), StepKey: pawl.StepKey{Job: job.Key(), Ord: pawl.MakeOrd(1000, pawl.MaxInstances)}, Mark: pawl.Blocked, Unmet: 1, Skipped: true,
		Attempts: 2, Claims: 3, Losses: 4, Worker: 5, Route: math.MaxInt64, Priority: 7, Rank: -14, Pool: 15, Total: 8, Made: 9, Live: 10, EnqueuedAt: 11, StartedAt: 12,
		CompletedAt: 13, Input: json.RawMessage(`[{"x":1}]`), Output: json.RawMessage("\"\xff\""), Error: &pawl.Failure{Class: "lost"},
	}
	step.State = lifecycle.StepInProgress
	worker := &pawl.Worker{
		Record: rec(300), ID: newID(), Workspace: "ws", Name: "n", Host: "h", PID: 4, Capacity: 5, Routes: []rowkey.Route{1, -2}, Handlers: []string{"q/h", `"{`},
		Metadata: json.RawMessage(`{"k": "v"}`),
	}
	worker.State = lifecycle.WorkerPaused
	def := &pawl.Definition{Key: 7, Hash: [32]byte{1}, Name: "wf", Source: []byte{0, 1, 255}, CreatedAt: 5}
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		d.NewJobs, d.NewSteps, d.NewWorkers = []*pawl.Job{job}, []*pawl.Step{step}, []*pawl.Worker{worker}
		d.Definitions = []*pawl.Definition{def, def}
	})
	check := func(what string, want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	gotJob, err := db.Job(t.Context(), job.Key())
	check("job", job, gotJob, err)
	gotSteps, err := db.Steps(t.Context(), job.Key(), 0, 0)
	check("step", []*pawl.Step{step}, gotSteps, err)
	gotWorker, err := db.Worker(t.Context(), worker.Key())
	check("worker", worker, gotWorker, err)
	gotDef, err := db.Definition(t.Context(), 7)
	check("definition", def, gotDef, err)
	bodies, err := db.Bodies(t.Context(), []pawl.StepKey{step.StepKey, {Job: 1, Ord: 2}})
	check("bodies", map[pawl.StepKey]*pawl.Step{step.StepKey: {
		Record: pawl.Record{State: step.State}, StepKey: step.StepKey, Input: step.Input, Output: step.Output, Error: step.Error,
	}}, bodies, err)

	// An update without bodies leaves them; the rest comes back changed.
	q := &store.Query{Jobs: []rowkey.Job{job.Key()}, Steps: []pawl.StepKey{step.StepKey}, Workers: []rowkey.Worker{worker.Key()}}
	do(t, db, q, func(f *store.Facts, d *draft) {
		j, s, w := f.Jobs[job.Key()], f.Steps[step.StepKey], f.Workers[worker.Key()]
		j.Active, s.Live, w.Capacity = 99, 98, 97
		j.Definition, j.Version, j.WorkerCount, j.Rank, j.Pool, j.Quota, j.Hooks, j.Blocked = 90, 91, 92, 93, 94, 95, pawl.HooksRun, 96
		s.Rank, s.Pool = -90, -91
		d.moveJob(j, lifecycle.JobRunning, lifecycle.JobPause)
		d.moveStep(j.ID, s, lifecycle.StepSuccess, lifecycle.StepComplete)
		d.Workers = append(d.Workers, store.Update[*pawl.Worker]{Record: w, Was: w.Seq})
		j.Error = &pawl.Failure{Class: "new"}
		job, step, worker = j, s, w
	})
	job.Inputs, job.Output, job.Metadata = gotJob.Inputs, gotJob.Output, gotJob.Metadata
	step.Input, step.Output, step.Error = gotSteps[0].Input, gotSteps[0].Output, gotSteps[0].Error
	worker.Metadata = gotWorker.Metadata
	gotJob, err = db.Job(t.Context(), job.Key())
	check("job after an update", job, gotJob, err)
	gotSteps, err = db.Steps(t.Context(), job.Key(), 0, 0)
	check("step after an update", []*pawl.Step{step}, gotSteps, err)
	gotWorker, err = db.Worker(t.Context(), worker.Key())
	check("worker after an update", worker, gotWorker, err)
}

// TestAStaleTransactionSaysSo: the server's log has what has happened and that it is no fault, and the code is one
// that no other statement of Pawl can have.
func TestAStaleTransactionSaysSo(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	for rows, want := range map[string]string{"2": "", "1": codeStale} {
		_, err := db.pool.Exec(t.Context(), "select "+counted(rows)+" from (values (1), (2)) n")
		if code(err) != want || want != "" && (!strings.Contains(err.Error(), whatIsStale) || !errors.Is(writeError(err), store.ErrStale)) {
			t.Errorf("two rows, and %s expected: %v, code %q, want %q", rows, err, code(err), want)
		}
	}
}

// TestStale proves the compare-and-swap of K5: a change of what has moved on,
// or a second creation, writes nothing.
func TestStale(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	j := submit(t, db, 1, 1)[0]
	tests := map[string]func(*store.Facts, *draft){
		"old version": func(f *store.Facts, d *draft) {
			d.moveJob(f.Jobs[j.Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
			d.Jobs[0].Was--
		},
		"no such record": func(f *store.Facts, d *draft) {
			d.moveJob(&pawl.Job{ID: newID()}, lifecycle.JobRunning, lifecycle.JobAllocateResources)
		},
		"exists already": func(_ *store.Facts, d *draft) { d.NewJobs = []*pawl.Job{j} },
		"audit entry exists": func(f *store.Facts, d *draft) {
			d.moveJob(f.Jobs[j.Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
			d.Entries[len(d.Entries)-1].Sequence = 1
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			err := try(db, &store.Query{Jobs: []rowkey.Job{j.Key()}}, func(f *store.Facts, d *draft) {
				d.newJob(5) // must not be written either
				change(f, d)
			})
			if !errors.Is(err, store.ErrStale) {
				t.Fatalf("got %v, want ErrStale", err)
			}
			jobs, err := db.Jobs(t.Context(), store.JobFilter{})
			if err != nil || len(jobs) != 1 || jobs[0].Seq != j.Seq {
				t.Errorf("%d jobs afterwards, %v: want the one as it was", len(jobs), err)
			}
		})
	}
	if n := db.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
}

func TestDecideMayRefuseOrPanic(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	no := errors.New("no")
	if err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, no }); err != no {
		t.Errorf("got %v, want the error of decide as it is", err)
	}
	if err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	func() {
		defer func() { recover() }()
		_ = db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { panic("decide") })
	}()
	submit(t, db, 1, 1)
	if n := db.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
}

// TestFiveHundredJobsInOneTransaction is the largest group that the engine commits.
func TestFiveHundredJobsInOneTransaction(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 500, 3)
	q := &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{3}, Limit: 500}}}
	do(t, db, q, func(f *store.Facts, d *draft) {
		if n := len(f.Claims[0].Starts); n != 500 {
			t.Fatalf("%d starts, want 500", n)
		}
		for _, key := range f.Claims[0].Starts {
			j := f.Jobs[key]
			d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
			d.moveStep(j.ID, f.Steps[pawl.StepKey{Job: key, Ord: pawl.MakeOrd(1, 0)}],
				lifecycle.StepEnqueue, lifecycle.StepEnqueued, lifecycle.StepClaim, lifecycle.StepInProgress)
		}
	})
	stats, _ := db.Stats(t.Context())
	want := store.Stats{Commits: 2, Inserts: 1000, Updates: 1000, Entries: 3000}
	if diff := cmp.Diff(want, stats); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	jobs, err := db.Jobs(t.Context(), store.JobFilter{States: lifecycle.Job.States[2:3], Limit: 3})
	if err != nil || len(jobs) != 3 || string(jobs[0].Inputs) != `{"n":1}` {
		t.Errorf("jobs: %v, %v", jobs, err)
	}
}
