package engine

import (
	"encoding/json"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// TestAnEndedJobIsForgotten: nothing of an ended job stays in memory, so that a process
// does not grow with the jobs that pass through it.
func TestAnEndedJobIsForgotten(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	for range 3 {
		w, a := e.claimOne(t)
		if _, known := e.jobs.get(a.Step.Job); !known {
			t.Fatal("a job is not remembered while it runs")
		}
		if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(a, `"done"`)}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(e.jobs.young) + len(e.jobs.old); n != 0 || e.jobs.bytes != 0 {
		t.Errorf("%d jobs of %d bytes are remembered after they have ended, want none", n, e.jobs.bytes)
	}
}

// TestPortion: one visit sends many small reports, but at most about 16 MiB of large ones,
// so that a commit is bounded for any capacity of a worker.
func TestPortion(t *testing.T) {
	t.Parallel()
	large := make(json.RawMessage, MaxOutput)
	for _, tt := range []struct {
		reports, want int
		output        json.RawMessage
	}{{0, 0, nil}, {1, 1, large}, {1000, 1000, nil}, {300, 15, large}} {
		reports := make([]link.Report, tt.reports)
		for i := range reports {
			reports[i].Step, reports[i].Output = pawl.StepKey{Job: 1, Ord: pawl.Ord(i)}, tt.output
		}
		if n := link.Portion(reports); n != tt.want {
			t.Errorf("a visit takes %d of %d reports of %d bytes, want %d", n, tt.reports, len(tt.output), tt.want)
		}
	}
}
