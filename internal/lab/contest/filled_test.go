package contest_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// fill is small, and not round.
var fill = bench.Fill{Finished: 301, Waiting: 203}

// TestFilledSQLite and TestFilledPostgres: the report has the figures of both, and what
// the database was filled with is what Pawl takes for finished and for waiting.
func TestFilledSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	full := bench.SQLite{Path: filepath.Join(dir, "full.db"), Synchronous: sqlite.Full}
	empty := bench.SQLite{Path: filepath.Join(dir, "empty.db"), Synchronous: sqlite.Full}
	reports(t, full, empty)
	db, err := sqlite.Open(t.Context(), sqlite.Config(full))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, db)
}

func TestFilledPostgres(t *testing.T) {
	t.Parallel()
	var targets [2]*bench.Postgres
	for i := range targets {
		p, err := bench.NewPostgres(t.Context(), postgres.Config{URL: pgtest.URL(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close(t.Context())
		targets[i] = p
	}
	reports(t, targets[0], targets[1])
	db, err := postgres.Open(t.Context(), postgres.Config{URL: targets[0].URL()})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, db)
}

func reports(t *testing.T, full, empty bench.Target) {
	t.Helper()
	var told []string
	o, err := contest.Filled{
		Full: full, Empty: empty, Fill: fill, Workloads: bench.Select(contest.FilledWorkloads...), Sizes: bench.Sizes{Jobs: 100, Samples: 2}, Rounds: 2,
		Progress: func(_, what string) { told = append(told, what) },
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Fill != fill || o.Store != full.Name() || len(o.Turns) != 2*2*len(contest.FilledWorkloads) {
		t.Errorf("came to %+v", o)
	}
	for _, name := range contest.FilledWorkloads {
		if !compared(o, name) {
			t.Errorf("%s: a speed of both is not in %+v", name, o.Ratios)
		}
	}
	if told[0] != "filled with 301 of 301 finished jobs" || told[1] != "filled with 203 of 203 waiting jobs" {
		t.Errorf("told of %q", told)
	}
}

func compared(o *contest.FilledOutcome, workload string) bool {
	for _, r := range o.Ratios {
		if r.Workload == workload && (r.Measure == contest.JobRate || r.Measure == contest.P50) {
			return r.First > 0 && r.Other > 0 && r.Against == contest.EmptyDatabase && r.Aim != ""
		}
	}
	return false
}

// holds looks at a filled database in which the workloads have run. It closes it.
func holds(t *testing.T, db store.Store) {
	t.Helper()
	defer db.Close()
	old := 0
	for _, j := range list(t, db, lifecycle.JobCompleted) {
		if time.Since(time.UnixMicro(j.CompletedAt)) > 48*time.Hour {
			old++
			leads(t, db, j, lifecycle.StepComplete)
		}
	}
	if want := fill.Finished - 1; old != want { // the first is a real one, of now
		t.Errorf("%d jobs ended days ago; want %d", old, want)
	}
	waiting := list(t, db, lifecycle.JobPending)
	for _, j := range waiting {
		leads(t, db, j, lifecycle.StepPending)
	}
	if len(waiting) != fill.Waiting {
		t.Fatalf("%d jobs wait; want %d", len(waiting), fill.Waiting)
	}
	serve(t, db)
	if left := list(t, db, lifecycle.JobPending, lifecycle.JobRunning); len(left) != 0 {
		t.Errorf("%d jobs are left when a worker serves their route", len(left))
	}
}

func list(t *testing.T, db store.Store, states ...machine.State) []*pawl.Job {
	t.Helper()
	jobs, err := db.Jobs(t.Context(), store.JobFilter{States: states})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// leads checks that the id of a job leads to it, and to one step in that state.
func leads(t *testing.T, db store.Store, j *pawl.Job, state machine.State) {
	t.Helper()
	found, err := db.Job(t.Context(), j.ID.JobKey())
	if err != nil || found.ID != j.ID {
		t.Fatalf("job %s: %v, %v", j.ID, found, err)
	}
	steps, err := db.Steps(t.Context(), j.ID.JobKey(), 0, 0)
	if err != nil || len(steps) != 1 || steps[0].State != state {
		t.Fatalf("job %s has the steps %v, %v; want one that is %s", j.ID, steps, err, state)
	}
}

// serve has a worker do what the waiting jobs wait for.
func serve(t *testing.T, db store.Store) {
	t.Helper()
	e := engine.New(engine.Config{Store: db})
	defer e.Close()
	w, err := worker.Start(t.Context(), e, worker.Config{Capacity: 100, Handlers: map[string]worker.Handler{
		"unserved": func(context.Context, *worker.Task) worker.Result { return worker.Result{Output: json.RawMessage(`{}`)} },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Drain(t.Context())
	err = bench.Poll(t.Context(), func() (bool, error) {
		jobs, err := db.Jobs(t.Context(), store.JobFilter{States: []machine.State{lifecycle.JobPending, lifecycle.JobRunning}, Limit: 1})
		return len(jobs) == 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
}
