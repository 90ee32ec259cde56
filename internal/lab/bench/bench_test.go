package bench_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

func TestMain(m *testing.M) {
	if task := os.Getenv("PAWL_BENCH_TASK"); task != "" {
		os.Exit(play(task))
	}
	os.Exit(pgtest.Main(m))
}

var small = bench.Sizes{Jobs: 200, Graphs: 5, FanOuts: 1, Samples: 2, Idle: time.Microsecond, Rate: 1000, Sustain: 20 * time.Millisecond}

// TestNoopJobStaysInItsBudget runs each workload small, but for the fan-out,
// which cannot be, and holds the no-op job to the rows it may cost.
func TestNoopJobStaysInItsBudget(t *testing.T) {
	target := bench.SQLite{Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: sqlite.Full}
	workloads := bench.Select("no-op", "chain", "diamonds", "start", "sustained")
	report, err := bench.Run(t.Context(), bench.Config{Targets: []bench.Target{target}, Workloads: workloads, Sizes: small})
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range workloads {
		r := report.Results[i]
		if r.Workload != w.Name || r.Jobs == 0 || r.JobRate+r.StepRate+float64(r.P50) == 0 {
			t.Errorf("%s came to %+v", w.Name, r)
		}
		if w.Name == bench.EndToEnd {
			withinBudget(t, r.PerJob)
		}
	}
	if len(report.Transitions) != 1 || report.Transitions[0].Ratio <= 0 {
		t.Errorf("transitions: %+v", report.Transitions)
	}
}

func withinBudget(t *testing.T, got bench.Cost) {
	t.Helper()
	const once = 0.01 // the worker's first move
	if got.Commits > bench.Budget.Commits || got.Inserts > bench.Budget.Inserts+once || got.Updates > bench.Budget.Updates+once || got.Audit > bench.Budget.Audit+once {
		t.Errorf("a no-op job cost %+v; its budget is %+v", got, bench.Budget)
	}
	if got.Audit < 1 || got.Allocated < 1 {
		t.Errorf("a no-op job cost %+v; so much cannot be had for nothing", got)
	}
}

// TestPostgresTellsWhatAJobCosts checks what only PostgreSQL counts, and that
// the schema is gone afterwards.
func TestPostgresTellsWhatAJobCosts(t *testing.T) {
	target, err := bench.NewPostgres(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	report, err := bench.Run(t.Context(), bench.Config{Targets: []bench.Target{target}, Workloads: bench.Select(bench.EndToEnd), Sizes: small})
	if err != nil {
		t.Fatal(err)
	}
	got := report.Results[0].PerJob
	withinBudget(t, got)
	if got.WAL < 100 || got.Dead < 1 || got.Indexed > got.Dead {
		t.Errorf("a no-op job cost %+v", got)
	}
	if report.Transitions[0].Bare <= 0 {
		t.Errorf("transitions: %+v", report.Transitions)
	}
}
