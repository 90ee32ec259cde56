package engine

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestTheFrontOfAPoolHidesNobody: jobs that are first for slots of a concurrency key and
// cannot start do not hold up those behind them: each time that slots are free and the same
// jobs are first, others behind them are tried.
func TestTheFrontOfAPoolHidesNobody(t *testing.T) { // J7, K8
	t.Parallel()
	e, _ := interposedEngine(t)
	mint := storetest.NewMint()
	var all []rowkey.Job
	err := e.store.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		for i := range 35 {
			j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 1, Pool: 9, Rank: int64(i)}
			b.AddJob(j)
			b.MoveJob(j, lifecycle.JobValidate)
			all = append(all, j.Key())
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[rowkey.Job]bool)
	for round := range 4 {
		got, err := e.evaluator.waitIn(t.Context(), 9)
		if err != nil || !slices.Equal(got[:perPool], all[:perPool]) {
			t.Fatalf("%v, %v; want the first ones first", got, err)
		}
		if round == 0 && len(got) != perPool {
			t.Errorf("%d jobs are tried at first; want %d", len(got), perPool)
		}
		for _, k := range got {
			tried[k] = true
		}
	}
	if len(tried) != len(all) {
		t.Errorf("%d of %d jobs were tried", len(tried), len(all))
	}
	e.evaluator.fronts[9] = front{first: 1, tried: store.Ranked{Rank: 20, Job: 1}} // another job was first
	if got, err := e.evaluator.waitIn(t.Context(), 9); err != nil || len(got) != perPool {
		t.Errorf("%d jobs, %v; want those in front alone, since they are new there", len(got), err)
	}
}
