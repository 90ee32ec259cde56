package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A readMeter counts the rows that a sweep reads.
type readMeter struct {
	store.Store
	mu   sync.Mutex
	rows int
	seen map[rowkey.Job]bool // jobs whose steps were read
}

func (m *readMeter) count(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows += n
}

// read returns how many rows were read, and of how many jobs.
func (m *readMeter) read() (rows, jobs int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows, len(m.seen)
}

func (m *readMeter) Running(ctx context.Context, from store.Spot, limit int) ([]store.Passed, error) {
	page, err := m.Store.Running(ctx, from, limit)
	m.count(len(page))
	return page, err
}

func (m *readMeter) Bare(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	page, err := m.Store.Bare(ctx, job, after, limit)
	m.count(len(page))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[job] = true
	return page, err
}

func (m *readMeter) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	m.count(len(keys))
	return m.Store.Bodies(ctx, keys)
}

func (m *readMeter) Jobs(ctx context.Context, f store.JobFilter) ([]*pawl.Job, error) {
	jobs, err := m.Store.Jobs(ctx, f)
	m.count(len(jobs))
	return jobs, err
}

// waitingJobs makes running jobs of one workflow, with that many steps each, all of which
// are fan-outs with an instance, or wait for child jobs.
func waitingJobs(t *testing.T, db store.Store, def *workflow.Definition, jobs, instances int) {
	t.Helper()
	mint := storetest.NewMint()
	child := pawl.MakeID(time.Unix(1_800_000_000, 0), 1, 1)
	for range jobs {
		err := db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
			b := storetest.NewBatch(f.Now)
			b.Definitions = []*pawl.Definition{{Key: definitions.KeyOf(def.Hash()), Hash: def.Hash(), Name: def.Name, Source: def.Canonical(), CreatedAt: f.Now}}
			j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: def.Name, Definition: definitions.KeyOf(def.Hash()), WorkerCount: 1, Open: 1, Rank: f.Now}
			b.AddJob(j)
			b.MoveJob(j, lifecycle.JobValidate, lifecycle.JobAllocateResources)
			for i := range instances + 1 {
				s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, i)}, Claims: 1, Live: instances, Input: []byte(`{"kind":"workflow","job":"` + child.Public(pawl.JobPrefix) + `"}`)}
				b.AddStep(j, s)
				b.MoveStep(j, s, lifecycle.StepEnqueue, lifecycle.StepClaim)
			}
			return &b.Changes, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestASweepReads500RowsAMinute, for any shape of the jobs, and covers all of them.
func TestASweepReads500RowsAMinute(t *testing.T) { // K8
	t.Parallel()
	for name, shape := range map[string]struct{ jobs, instances int }{"many small jobs": {400, 2}, "wide jobs": {3, 1000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
				if err != nil {
					t.Fatal(err)
				}
				def, err := workflow.Parse("wide.yaml", []byte("name: wide\nsteps: [{id: a, foreach: [1], workflow: leaf}]\n"))
				if err != nil {
					t.Fatal(err)
				}
				waitingJobs(t, db, def, shape.jobs, shape.instances)
				m := &readMeter{Store: db, seen: make(map[rowkey.Job]bool)}
				e := New(Config{Store: m, Passive: true})
				ctx, cancel := context.WithCancel(t.Context())
				var over sync.WaitGroup
				s := &sweeper{e: e}
				over.Go(func() { s.run(ctx, &rounds{}) })
				minutes, rows, jobs := 0, 0, 0
				for ; jobs < shape.jobs && minutes < 60; minutes++ {
					before := rows
					time.Sleep(time.Minute)
					synctest.Wait()
					if rows, jobs = m.read(); rows-before > sweepRows {
						t.Errorf("%d rows were read in a minute; want at most %d", rows-before, sweepRows)
					}
				}
				if minutes == 60 || rows < minutes*sweepRows/4 {
					t.Errorf("%d of %d jobs were gone through in %d minutes, with %d rows", jobs, shape.jobs, minutes, rows)
				}
				if n := s.found.Load(); n != 0 {
					t.Errorf("%d waits were found, and none has ended", n)
				}
				cancel()
				over.Wait()
				e.Close()
				db.Close()
			})
		})
	}
}

// TestTheSweepReports its findings: in the log, and as a number of its part.
func TestTheSweepReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		e := New(Config{Store: db, Managed: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		def, err := workflow.Parse("wide.yaml", []byte("name: wide\nsteps: [{id: a, foreach: [1], handler: h}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		waitingJobs(t, db, def, 1, 0) // a fan-out with no instances left
		ctx, cancel := context.WithCancel(t.Context())
		var over sync.WaitGroup
		for _, p := range e.Parts() {
			if p.Name != "sweep" {
				continue
			}
			over.Go(func() { p.Run(ctx) })
			time.Sleep(2 * sweepEvery) // to the end, and again from the beginning
			synctest.Wait()
			if seen := p.Seen(); seen.Found != 1 || seen.Rounds != 2 {
				t.Errorf("%+v; want two rounds that have found one", seen)
			}
		}
		cancel()
		over.Wait()
		e.Close()
		db.Close()
		for _, want := range []string{"level=WARN", "cause=\"all its instances have ended\"", "step=a", "job=j_"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log.String())
			}
		}
	})
}
