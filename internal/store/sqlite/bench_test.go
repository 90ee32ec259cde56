package sqlite_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// benchBatch is how many jobs share a commit.
const benchBatch = 200

// BenchmarkNoopJobs runs jobs of one step that does nothing: inserted, claimed
// and completed in three commits, each shared by 200 jobs; 2 inserts, 4 updates
// and 8 audit rows for each job.
func BenchmarkNoopJobs(b *testing.B) {
	for _, synchronous := range []string{sqlite.Full, sqlite.Normal} {
		b.Run(synchronous, func(b *testing.B) {
			db, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "bench.db"), Synchronous: synchronous})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			n := noop{b: b, db: db, mint: storetest.NewMint(), route: pawl.Route("default", "default", "noop", 0)}
			jobs := 0
			for b.Loop() {
				n.submit()
				n.complete(n.claim())
				jobs += benchBatch
			}
			b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

type noop struct {
	b     *testing.B
	db    *sqlite.DB
	mint  *storetest.Mint
	route rowkey.Route
}

func (n *noop) do(q *store.Query, decide func(*store.Facts, *storetest.Batch)) {
	err := n.db.Do(n.b.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		batch := storetest.NewBatch(f.Now)
		decide(f, batch)
		return &batch.Changes, nil
	})
	if err != nil {
		n.b.Fatal(err)
	}
}

func (n *noop) submit() {
	n.do(&store.Query{}, func(f *store.Facts, b *storetest.Batch) {
		for range benchBatch {
			j := &pawl.Job{ID: n.mint.ID(f.Now), Workspace: "default", Definition: 1, Workflow: "noop", WorkerCount: 10,
				Route: n.route, Open: 1, Inputs: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`)}
			b.AddJob(j)
			b.MoveJob(j, lifecycle.JobValidate)
			b.AddStep(j, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}, Route: n.route})
		}
	})
}

func (n *noop) claim() *store.Query {
	worker := rowkey.Worker(1)
	q := &store.Query{Claims: []store.ClaimQuery{{Worker: worker, Routes: []rowkey.Route{n.route}, Limit: benchBatch}}}
	next := &store.Query{}
	n.do(q, func(f *store.Facts, b *storetest.Batch) {
		for _, key := range f.Claims[0].Starts {
			j, s := f.Jobs[key], f.Steps[pawl.StepKey{Job: key, Ord: pawl.MakeOrd(1, 0)}]
			j.Active, j.StartedAt, j.Inputs = 1, f.Now, nil
			j.Metadata = nil
			b.MoveJob(j, lifecycle.JobAllocateResources)
			s.Worker, s.Claims, s.Attempts, s.StartedAt = worker, 1, 1, f.Now
			b.MoveStep(j, s, lifecycle.StepEnqueue, lifecycle.StepClaim)
			next.Jobs, next.Steps = append(next.Jobs, key), append(next.Steps, s.StepKey)
		}
	})
	if len(next.Jobs) != benchBatch {
		n.b.Fatalf("claimed %d jobs, want %d", len(next.Jobs), benchBatch)
	}
	return next
}

func (n *noop) complete(q *store.Query) {
	n.do(q, func(f *store.Facts, b *storetest.Batch) {
		for i, key := range q.Jobs {
			j, s := f.Jobs[key], f.Steps[q.Steps[i]]
			s.CompletedAt, s.Output = f.Now, json.RawMessage(`{"ok":true}`)
			b.MoveStep(j, s, lifecycle.StepSuccess)
			j.Open, j.Active, j.CompletedAt = 0, 0, f.Now
			b.MoveJob(j, lifecycle.JobSuccess)
		}
	})
}
