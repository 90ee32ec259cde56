package bench_test

import (
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/bench"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestNoopJobStaysInItsBudget runs each workload small, and holds the no-op job
// to the rows it may cost.
func TestNoopJobStaysInItsBudget(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	results, err := bench.Run(t.Context(), bench.Config{Name: "test", Store: s, Jobs: 1000, Chains: 20, Samples: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 6 {
		t.Fatalf("%d results; want 6", len(results))
	}
	got := results[0].PerJob
	const once = 0.01 // the worker's first move
	if got.Commits > bench.Budget.Commits || got.Inserts > bench.Budget.Inserts+once || got.Updates > bench.Budget.Updates+once || got.Audit > bench.Budget.Audit+once {
		t.Errorf("a no-op job cost %+v; its budget is %+v", got, bench.Budget)
	}
	for _, r := range results {
		if r.JobRate == 0 && r.P50 == 0 {
			t.Errorf("%s has neither a rate nor a latency", r.Workload)
		}
	}
}
