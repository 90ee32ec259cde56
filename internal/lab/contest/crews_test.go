package contest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// TestCrews: each crew has its figures, the first is what the others are held against,
// and the gaps are those of the crew's own jobs.
func TestCrews(t *testing.T) {
	t.Parallel()
	p, err := bench.NewPostgres(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(t.Context())
	for _, target := range []bench.Target{p, bench.SQLite{Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: sqlite.Normal}} {
		var told []string
		o, err := contest.Crews{Target: target, Workers: []int{1, 3}, Sizes: bench.Sizes{Jobs: 1200}, Rounds: 2,
			Progress: func(_, what string) { told = append(told, what) }}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if o.Store != target.Name() || o.Processes || o.Jobs != 1200 || o.Rounds != 2 || len(o.Crews) != 2 {
			t.Errorf("came to %+v", o)
		}
		for i, workers := range []int{1, 3} {
			c := o.Crews[i]
			whole := 1000 * float64(o.Jobs) / c.Least // ms
			if c.Workers != workers || c.JobRate <= 0 || c.Least > c.JobRate || c.Most < c.JobRate || c.ClientCPU <= 0 || c.Gap <= 0 || c.Gap >= whole {
				t.Errorf("%s: crew %d: %+v, want its figures, and a gap below %.1f ms", o.Store, i, c, whole)
			}
		}
		if o.Crews[0].Ratio != 1 {
			t.Errorf("the first crew is %v of itself", o.Crews[0].Ratio)
		}
		if all := strings.Join(told, "\n"); !strings.Contains(all, "round 1: 1 worker: ") || !strings.Contains(all, "round 2: 3 workers: ") {
			t.Errorf("told of %q", told)
		}
	}
}
