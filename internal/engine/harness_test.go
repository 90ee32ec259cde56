package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite/sqlitex"

	zombie "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/lab/sqlitetest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(victimVariable); where != "" {
		victim(where)
	}
	if arguments := os.Getenv(submitterVariable); arguments != "" {
		submitter(arguments)
	}
	os.Exit(pgtest.Main(m))
}

// A database is one database under test.
type database struct {
	t     *testing.T
	kind  string // sqlite, memory, postgres
	where string // path or URL
	skew  atomic.Int64
	only  store.Store // in memory there is only one handle
}

// open opens the database again, as another process would. In memory it returns the same
// handle each time.
func (db *database) open() store.Store {
	db.t.Helper()
	if db.only != nil {
		return db.only
	}
	opened, err := openStore(db.kind, db.where, db.clock)
	if err != nil {
		db.t.Fatal(err)
	}
	s := &pure{Store: opened}
	db.t.Cleanup(func() { s.Close() })
	if db.kind == "memory" {
		db.only = s
	}
	return s
}

func openStore(kind, where string, clock func() time.Time) (store.Store, error) {
	if kind == "postgres" {
		return postgres.Open(context.Background(), postgres.Config{URL: where})
	}
	return sqlite.Open(context.Background(), sqlite.Config{Path: where, Clock: clock})
}

func (db *database) clock() time.Time { return time.Now().Add(time.Duration(db.skew.Load())) }

// elapse moves every deadline of steps and jobs closer by d. In memory the whole clock
// moves, so workers seem silent for d too.
func (db *database) elapse(d time.Duration) {
	db.t.Helper()
	if db.kind == "memory" {
		db.skew.Add(int64(d))
		return
	}
	for _, table := range []string{"step", "job"} {
		db.sql(fmt.Sprintf("update %s set due_at = due_at - %d where due_at > 0", table, d.Microseconds()))
	}
}

// sql changes a stored database without the engine.
func (db *database) sql(statement string) {
	db.t.Helper()
	var err error
	if db.kind == "postgres" {
		err = execPostgres(db.where, statement)
	} else {
		err = execSQLite(db.where, statement)
	}
	if err != nil {
		db.t.Fatalf("%s: %v", statement, err)
	}
}

func execPostgres(url, statement string) error {
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), statement)
	return err
}

func execSQLite(path, statement string) error {
	conn, err := zombie.OpenConn(path, zombie.OpenReadWrite)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetBusyTimeout(30 * time.Second)
	return sqlitex.ExecuteTransient(conn, statement, nil)
}

// onDatabases runs f on a SQLite file, on SQLite in memory and on PostgreSQL.
func onDatabases(t *testing.T, f func(t *testing.T, db *database)) {
	t.Helper()
	onShared(t, f)
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		f(t, &database{t: t, kind: "memory", where: ":memory:"})
	})
}

// onShared runs f on the databases that several processes can open.
func onShared(t *testing.T, f func(t *testing.T, db *database)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		f(t, &database{t: t, kind: "sqlite", where: sqlitetest.Copy(t)})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		f(t, &database{t: t, kind: "postgres", where: pgtest.Copy(t, migrated)})
	})
}

// migrated migrates an empty database to the newest schema.
func migrated(url string) error {
	s, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	if err != nil {
		return err
	}
	return s.Close()
}

// onStores is onDatabases for tests that only open stores.
func onStores(t *testing.T, f func(t *testing.T, open func() store.Store)) {
	t.Helper()
	onDatabases(t, func(t *testing.T, db *database) { f(t, db.open) })
}

// A process is an engine with a worker, as one process has them.
type process struct {
	t      *testing.T
	store  store.Store
	engine *engine.Engine
	worker *worker.Worker
	config setup
}

// A setup configures a process. Without handlers it has no worker.
type setup struct {
	handlers map[string]worker.Handler
	capacity int
	queues   []string        // none: default
	webhooks *webhook.Config // it delivers the events of webhooks; nil: it does not
	silence  time.Duration   // 0: an hour, so that a slow machine ends no worker
}

func startProcess(t *testing.T, s store.Store, handlers map[string]worker.Handler) *process {
	t.Helper()
	return start(t, s, setup{handlers: handlers})
}

func start(t *testing.T, s store.Store, c setup) *process {
	t.Helper()
	if c.silence == 0 {
		c.silence = time.Hour
	}
	p := &process{t: t, store: s, config: c}
	config := engine.Config{Store: s, Poll: 50 * time.Millisecond, Silence: c.silence, Jitter: func() float64 { return 0 }}
	if c.webhooks != nil {
		config.Deliver, config.Webhooks = true, *c.webhooks
	}
	p.engine = engine.New(config)
	if c.handlers != nil {
		p.startWorker()
	}
	t.Cleanup(p.stop)
	return p
}

// startWorker starts the worker, and retries if the database fails on purpose.
func (p *process) startWorker() {
	p.t.Helper()
	for try := 1; ; try++ {
		w, err := worker.Start(p.t.Context(), p.engine, worker.Config{Handlers: p.config.handlers, Queues: p.config.queues,
			Capacity: p.config.capacity, Poll: 50 * time.Millisecond, Beat: 100 * time.Millisecond})
		if err == nil {
			p.worker = w
			return
		}
		if !link.Retryable(err) || try == 100 {
			p.t.Fatal(err)
		}
	}
}

// stop ends the process in order. Steps that still run after a while are interrupted.
func (p *process) stop() {
	if p.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.worker.Drain(ctx)
	}
	p.engine.Close()
}

// workerKey returns the key of the process's worker as it is registered now.
func (p *process) workerKey() rowkey.Worker {
	p.t.Helper()
	id, err := pawl.ParseID(pawl.WorkerPrefix, p.worker.ID())
	if err != nil {
		p.t.Fatal(err)
	}
	return id.WorkerKey()
}

// errorOf returns the error of a verb whose receipt does not matter.
func errorOf(_ pawl.Receipt, err error) error { return err }

// madeBy returns the id of the job that a verb has made.
func madeBy(r pawl.Receipt, err error) (pawl.ID, error) {
	if err != nil {
		return pawl.ID{}, err
	}
	return pawl.ParseID(pawl.JobPrefix, r.ID)
}

func define(t testing.TB, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d
}

func (p *process) submit(def *workflow.Definition, inputs string) pawl.ID {
	p.t.Helper()
	bound, err := def.BindInputs(object(p.t, inputs))
	if err != nil {
		p.t.Fatal(err)
	}
	answers, err := p.engine.Submit(p.t.Context(), pawl.Submission{Definition: def.Canonical(), Inputs: bound, Actor: "test"})
	if err != nil {
		p.t.Fatal(err)
	}
	if answers[0].Err != nil {
		p.t.Fatal(answers[0].Err)
	}
	return answers[0].ID
}

func object(t *testing.T, s string) map[string]any {
	t.Helper()
	if s == "" {
		return nil
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(s), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// patience bounds every wait of the tests.
const patience = 30 * time.Second

// wait returns the job once it has ended.
func (p *process) wait(id pawl.ID) *pawl.JobView {
	p.t.Helper()
	return p.waitFor(id, patience)
}

func (p *process) waitFor(id pawl.ID, limit time.Duration) *pawl.JobView {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	got, err := p.engine.Wait(ctx, id)
	if err != nil {
		p.t.Fatalf("job %s did not end: %v\n%s", id.Public(pawl.JobPrefix), err, p.dump(id))
	}
	if stored, err := p.store.Job(ctx, id.JobKey()); err != nil || !sameEnd(got, stored) {
		p.t.Errorf("who waited was told %+v; stored is %+v, %v", got, stored, err)
	}
	return p.job(id)
}

// sameEnd compares jobs that have ended. A completed job may omit an error that was
// resolved. What was submitted below a canceled job is canceled after the end, which ends the
// mark of the job.
func sameEnd(a, b *pawl.Job) bool {
	x, y := *a, *b
	if x.Children && x.State == lifecycle.JobCanceled {
		for _, j := range []*pawl.Job{&x, &y} {
			j.Children, j.Mark, j.MarkAt, j.MarkTries = false, pawl.Clear, 0, 0
		}
	}
	if x.State == lifecycle.JobCompleted {
		x.Error, y.Error = nil, nil
	}
	return reflect.DeepEqual(x, y)
}

func (p *process) job(id pawl.ID) *pawl.JobView {
	p.t.Helper()
	v, err := p.engine.Job(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *process) dump(id pawl.ID) string {
	v, err := p.engine.Job(context.Background(), id)
	if err != nil {
		return err.Error()
	}
	v.StateHistory = nil
	record, _ := p.store.Job(context.Background(), id.JobKey())
	b, _ := json.MarshalIndent(v, "", "  ")
	return fmt.Sprintf("%s\nrecord: %+v", b, record)
}

// until waits for a condition that only the database shows.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !f() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// verify checks the whole trail against what is stored (K6).
func verify(t *testing.T, s store.Store) {
	t.Helper()
	if f, err := verified(s, 0); f != nil || err != nil {
		t.Error(f, err)
	}
}

// verified returns the fault in the trail of a job, or of all jobs, and in what it seals.
func verified(s store.Store, job rowkey.Job) (*audit.Fault, error) {
	ctx := context.Background()
	v := trail.Verifier{Views: s}
	var fault *audit.Fault
	err := s.Trails(ctx, job, func(trail store.TrailOf) (err error) {
		if fault == nil {
			fault, err = v.Take(ctx, trail)
		}
		return err
	})
	if fault != nil || err != nil {
		return fault, err
	}
	return v.End(ctx)
}

// settled checks that an ended job left nothing behind: no open or active step,
// no mark, no deadline (T7).
func (p *process) settled(id pawl.ID) {
	p.t.Helper()
	j, err := p.store.Job(p.t.Context(), id.JobKey())
	if err != nil {
		p.t.Fatal(err)
	}
	if j.Open != 0 || j.Active != 0 || j.Mark != pawl.Clear || j.DueAt != 0 {
		p.t.Errorf("job %s %s: open %d, active %d, mark %d, due %d; want nothing left", j.Workflow, j.State, j.Open, j.Active, j.Mark, j.DueAt)
	}
	steps, err := p.store.Steps(p.t.Context(), id.JobKey(), 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range steps {
		if !lifecycle.Step.Ended(s.State) || s.Mark != pawl.Clear || s.DueAt != 0 || s.Live != 0 {
			p.t.Errorf("job %s, step %s: %s, mark %d, due %d %s, live %d; want it ended with nothing left", j.Workflow, s.StepKey, s.State, s.Mark, s.DueAt, s.DueEvent, s.Live)
		}
	}
}

// collected returns everything that a history calls its function with.
func collected[K any](ctx context.Context, history func(context.Context, K, func(pawl.Transition) error) error, of K) (all []pawl.Transition, err error) {
	err = history(ctx, of, func(t pawl.Transition) error { all = append(all, t); return nil })
	return all, err
}

// refused returns the facts of a job that came too late (T5).
func (p *process) refused(id pawl.ID) []pawl.Transition {
	p.t.Helper()
	rows, err := collected(p.t.Context(), p.engine.History, id)
	if err != nil {
		p.t.Fatal(err)
	}
	var late []pawl.Transition
	for _, r := range rows {
		if r.Refused {
			late = append(late, r)
		}
	}
	return late
}

func steps(v *pawl.JobView) map[string]pawl.StepView {
	m := make(map[string]pawl.StepView)
	for _, s := range v.Steps {
		m[s.Key] = s
	}
	return m
}

func note(reason string) pawl.Change { return pawl.Change{Actor: "test", Reason: reason} }

// workerNote is note for moves of workers.
func workerNote(reason string) decide.Note { return decide.Note{Actor: "test", Reason: reason} }
