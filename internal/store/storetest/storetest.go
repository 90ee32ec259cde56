// Package storetest is the suite that every store passes: each promise of
// package store, on one handle, on several, and on several processes.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Database is a new, empty database that the suite may open several times.
type Database struct {
	// Open opens another handle, as another process would. The suite closes it.
	Open func(t testing.TB) store.Store

	// Name is the name by which the function passed to Main opens the same database in a child
	// process. Empty means that no other handle can see the database, as in memory: tests that
	// need two handles are skipped.
	Name string

	// SQL runs a statement outside the store and returns the names of its columns and its rows
	// as text, "NULL" for NULL.
	SQL func(ctx context.Context, statement string) (columns []string, rows [][]string, err error)

	// Begin begins users' transactions: one of each type that the store accepts, at least one
	// if the database has a Name. CommitWakes says that their commits wake listeners.
	Begin       []Begin
	CommitWakes bool
}

// Run runs the suite. fresh returns a new database, which is removed with the test. The
// package of the test needs a TestMain; see Main.
func Run(t *testing.T, fresh func(t *testing.T) Database) {
	t.Helper()
	for _, part := range [][]test{
		ledgerTests, factTests, claimTests, poolTests, lookTests, registryTests, scheduleTests, tokenTests, pauseTests, webhookTests, signalTests,
		holdTests, viewTests, logTests, retentionTests, schemaTests, packedTests, columnTests, sharedTests, runningTests, pageTests, scanTests, joinedTests, feedTests, moveTests,
	} {
		for _, tt := range part {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				db := fresh(t)
				if tt.shared && db.Name == "" {
					return
				}
				tt.run(newEnv(t, db))
			})
		}
	}
}

// A test is one promise.
type test struct {
	name   string
	run    func(*env)
	shared bool // needs a second handle
}

// patience bounds every wait of the suite.
const patience = 60 * time.Second

// An env is a database with one open handle, and the helpers of the tests.
type env struct {
	*testing.T
	db   Database
	st   store.Store
	mint *Mint
	ctx  context.Context
	noon time.Time // of the first day that a test needed

	second store.Store  // see another
	routes rowkey.Route // the routes used so far; see newRoute
}

func newEnv(t *testing.T, db Database) *env {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	e := &env{T: t, db: db, mint: NewMint(), ctx: ctx}
	e.st = e.open()
	return e
}

// open opens another handle and closes it when the test ends.
func (e *env) open() store.Store {
	e.Helper()
	st := e.db.Open(e.T)
	e.Cleanup(func() {
		if err := st.Close(); err != nil {
			e.Errorf("close: %v", err)
		}
	})
	return st
}

// another returns a second handle, always the same one.
func (e *env) another() store.Store {
	e.Helper()
	if e.second == nil {
		e.second = e.open()
	}
	return e.second
}

// ok fails the test at once if there is an error.
func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// try runs a transaction on a handle.
func (e *env) try(st store.Store, q *store.Query, decide func(*store.Facts, *Batch)) error {
	return st.Do(e.ctx, q, func(f *store.Facts) (*store.Changes, error) {
		b := NewBatch(f.Now)
		decide(f, b)
		return &b.Changes, nil
	})
}

// do runs a transaction that has to succeed.
func (e *env) do(q *store.Query, decide func(*store.Facts, *Batch)) {
	e.Helper()
	e.ok(e.try(e.st, q, decide))
}

// see returns facts without changing anything.
func (e *env) see(q *store.Query) *store.Facts {
	e.Helper()
	var facts *store.Facts
	e.ok(e.st.Do(e.ctx, q, func(f *store.Facts) (*store.Changes, error) {
		facts = f
		return nil, nil
	}))
	return facts
}

// now returns the database's clock.
func (e *env) now() int64 {
	e.Helper()
	return e.see(&store.Query{}).Now
}

// A made is a job with its steps, as stored.
type made struct {
	job   *pawl.Job
	steps []*pawl.Step
}

func (m made) key() rowkey.Job { return m.job.Key() }

func (m made) steps1() pawl.StepKey { return m.steps[0].StepKey }

// add stores a job, PENDING on route 0, with n pending steps, after change was called on them.
// change may add to the batch of the same transaction.
func (e *env) add(n int, change func(m made, b *Batch)) made {
	e.Helper()
	var m made
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) { m = e.build(f.Now, n, b, change) })
	return m
}

// build adds a job and n steps to a batch.
func (e *env) build(now int64, n int, b *Batch, change func(m made, b *Batch)) made {
	m := made{job: &pawl.Job{ID: e.mint.ID(now), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 2}}
	m.job.Inputs, m.job.Metadata = []byte(`{"in":1}`), []byte(`{}`)
	b.AddJob(m.job)
	b.MoveJob(m.job, "validate")
	for i := range n {
		s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(i+1, 0)}}
		b.AddStep(m.job, s)
		m.steps = append(m.steps, s)
	}
	if change != nil {
		change(m, b)
	}
	return m
}

// enqueued is a change for add: the job runs, its steps are enqueued. Steps of a higher rank
// have the higher priority, so that a test distinguishes the two.
func enqueued(route rowkey.Route, rank int64) func(made, *Batch) {
	return func(m made, b *Batch) {
		b.MoveJob(m.job, "allocate_resources")
		for _, s := range m.steps {
			s.Route, s.Rank, s.Priority = route, rank, int(rank)
			b.MoveStep(m.job, s, "enqueue")
		}
	}
}

// claimed is a change for add: the worker holds every step.
func claimed(worker rowkey.Worker) func(made, *Batch) {
	return func(m made, b *Batch) {
		enqueued(1, 0)(m, b)
		for _, s := range m.steps {
			s.Worker, s.Claims = worker, 1
			b.MoveStep(m.job, s, "claim")
		}
	}
}

// addWorker stores a living worker.
func (e *env) addWorker() *pawl.Worker {
	e.Helper()
	var w *pawl.Worker
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		w = &pawl.Worker{ID: e.mint.ID(f.Now), Workspace: "w", Name: "host-1", Host: "host", PID: 1, Capacity: 4,
			Routes: []rowkey.Route{1, 2}, Handlers: []string{"default/noop"}, Metadata: []byte(`{"v":1}`)}
		b.AddWorker(w)
	})
	return w
}

// addSchedule stores an active schedule of that name in the workspace w, after change was
// called on it.
func (e *env) addSchedule(name string, change func(*pawl.Schedule)) *pawl.Schedule {
	e.Helper()
	var s *pawl.Schedule
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		s = e.schedule(f.Now, name)
		if change != nil {
			change(s)
		}
		b.AddSchedule(s)
	})
	return s
}

// schedule returns a schedule with a value in every field.
func (e *env) schedule(now int64, name string) *pawl.Schedule {
	s := &pawl.Schedule{ID: e.mint.ID(now), Workspace: "w", Name: name, Workflow: "flow@3", Inputs: []byte(`{"in":1}`),
		Cron: "*/5 * * * *", TimeZone: "Europe/Berlin", CatchUp: 90 * time.Minute, Overlap: "queue", Priority: -4,
		Due: 21, LastJob: 22, Waiting: 23}
	s.DueAt, s.DueEvent = 1<<60+3, "fire"
	return s
}
