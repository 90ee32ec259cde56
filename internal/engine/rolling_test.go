package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// grown are the tables that a made-up change adds a column to.
var grown = map[string][]string{
	"postgres": {"worker", "worker_audit", "job", "step", "audit", "idempotency", "refusal", "log", "hold", "beat", "definition", "schedule", "schedule_audit", "token", "token_audit", "webhook", "webhook_audit", "webhook_place", "webhook_delivery", "signal", "quota", "registered", "node", "anchor", "running"},
	"sqlite":   {"worker", "worker_audit", "job", "step", "audit", "idempotency", "refusal", "definition", "schedule", "schedule_audit", "token", "token_audit", "webhook", "webhook_audit", "webhook_place", "webhook_delivery", "signal", "quota", "version", "node", "anchor"},
}

// madeUp returns a change of the kind that DESIGN.md describes: every table gets a column
// with a default and a check, and a table and an index are added.
func madeUp(kind string, n int) store.SchemaChange {
	up, down := store.RollingMark, store.RollingMark
	for _, table := range grown[kind] {
		up += fmt.Sprintf("alter table %s add column made_up%d bigint not null default 7 check (made_up%d > 0);\n", table, n, n)
		down += fmt.Sprintf("alter table %s drop column made_up%d;\n", table, n)
	}
	if kind == "sqlite" {
		up = strings.ReplaceAll(up, "bigint", "INTEGER")
	}
	up += fmt.Sprintf("create table made_up%[1]d (id integer primary key);\ncreate index job_made_up%[1]d on job (made_up%[1]d) where made_up%[1]d <> 7;\n", n)
	down = store.RollingMark + fmt.Sprintf("drop table made_up%[1]d;\ndrop index job_made_up%[1]d;\n", n) + down[len(store.RollingMark):]
	return store.SchemaChange{Up: up, Down: down}
}

// openAhead opens a database with a program that knows that many more changes.
func (db *database) openAhead(ahead int, log *slog.Logger) (store.Store, error) {
	var changes []store.SchemaChange
	for n := range ahead {
		changes = append(changes, madeUp(db.kind, n+1))
	}
	var s store.Store
	var err error
	if db.kind == "postgres" {
		s, err = postgres.Open(context.Background(), postgres.Config{URL: db.where, Ahead: changes, Log: log})
	} else {
		s, err = sqlite.Open(context.Background(), sqlite.Config{Path: db.where, Clock: db.clock, Ahead: changes, Log: log})
	}
	if err == nil {
		db.t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// complaints fails a test for what is logged as a warning or worse.
type complaints struct{ t *testing.T }

func (c complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c complaints) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c complaints) WithGroup(string) slog.Handler                { return c }
func (c complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.t.Errorf("logged: %s", text)
	return nil
}

// A busyProcess submits jobs and runs them until it is stopped.
type busyProcess struct {
	name  string
	store store.Store
	done  atomic.Int64 // jobs
	stop  func()
}

const rollingFlow = `
name: busy
concurrency: {key: "shared-${{ inputs.n % 3 }}", limit: 2}
inputs: {n: {type: integer}}
steps:
- {id: a, handler: echo, with: {n: "${{ inputs.n }}"}}
- {id: b, needs: [a], foreach: [1, 2, 3], handler: echo, with: {n: "${{ item }}"}}
- {id: c, needs: [b], sleep: 10ms}
- {id: d, needs: [c], handler: echo, if: "${{ inputs.n % 2 == 0 }}"}
output: "${{ steps.a.output }}"
`

func (db *database) busy(name string, ahead int) *busyProcess {
	t := db.t
	t.Helper()
	log := slog.New(complaints{t})
	s, err := db.openAhead(ahead, log)
	if err != nil {
		t.Fatal(err)
	}
	def := define(t, rollingFlow)
	p := &busyProcess{name: name, store: s}
	e := engine.New(engine.Config{Store: s, Poll: 50 * time.Millisecond, Silence: time.Hour, Log: log})
	w, err := worker.Start(t.Context(), e, worker.Config{Handlers: map[string]worker.Handler{
		"echo": func(context.Context, *worker.Task) worker.Result { return worker.Result{Output: []byte("1")} },
	}, Capacity: 8, Poll: 50 * time.Millisecond, Beat: 100 * time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	over := make(chan struct{})
	for c := range 3 {
		clients.Go(func() {
			for n := c; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if err := p.one(t, e, def.Canonical(), n); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	p.stop = sync.OnceFunc(func() {
		close(over)
		clients.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		w.Drain(ctx)
		e.Close()
	})
	t.Cleanup(p.stop)
	return p
}

// one runs a job to its end.
func (p *busyProcess) one(t *testing.T, e *engine.Engine, canonical []byte, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := e.Submit(ctx, pawl.Submission{Definition: canonical, Inputs: []byte(fmt.Sprintf(`{"n":%d}`, n)), RequestID: fmt.Sprint(t.Name(), p.name, n), Actor: "test"})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	j, err := e.Wait(ctx, answers[0].ID)
	if err == nil && j.State != lifecycle.JobCompleted {
		err = fmt.Errorf("job %s is %s", answers[0].ID.Public(pawl.JobPrefix), j.State)
	}
	if err == nil {
		p.done.Add(1)
	}
	return err
}

// TestASchemaChangeIsNoOutage: programs of two versions work side by side on one database,
// before a rolling change, while it is made and reverted, and after it, without an error; a
// gap of two is refused.
func TestASchemaChangeIsNoOutage(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		older := db.busy("older", 0)
		newer := db.busy("newer", 1)
		base, _, err := older.store.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		work := func() {
			t.Helper()
			a, b := older.done.Load(), newer.done.Load()
			until(t, "jobs of both are completed", func() bool { return t.Failed() || older.done.Load() > a+5 && newer.done.Load() > b+5 })
			if t.Failed() {
				t.FailNow()
			}
		}
		for range 2 {
			work()
			for _, to := range []int{base + 1, base} {
				users, err := newer.store.(living).Unfit(t.Context(), to)
				if err != nil || len(users) > 0 {
					t.Fatalf("to version %d: %v would stop, %v", to, users, err)
				}
				if err := newer.store.Migrate(t.Context(), to); err != nil {
					t.Fatalf("to version %d: %v", to, err)
				}
				for _, s := range []store.Store{older.store, newer.store} {
					if current, _, err := s.Version(t.Context()); err != nil || current != to || s.Fits(t.Context()) != nil {
						t.Errorf("version %d, %v, %v; want %d", current, err, s.Fits(t.Context()), to)
					}
				}
				work()
			}
			verify(t, older.store)
		}
		db.gapOfTwo(base, older, newer)
		verify(t, newer.store)
	})
}

// TestPostgresNewestVersionIsNoOutage: the newest change, which is rolling, is made and taken back
// under a load of jobs, without an error.
func TestPostgresNewestVersionIsNoOutage(t *testing.T) {
	t.Parallel()
	db := &database{t: t, kind: "postgres", where: pgtest.Copy(t, migrated)}
	p := db.busy("busy", 0)
	newest, _, err := p.store.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []int{newest - 1, newest, newest - 1, newest} {
		done := p.done.Load()
		until(t, "jobs are completed", func() bool { return t.Failed() || p.done.Load() > done+5 })
		if err := p.store.Migrate(t.Context(), to); err != nil {
			t.Fatalf("to version %d: %v", to, err)
		}
		if current, _, err := p.store.Version(t.Context()); err != nil || current != to || p.store.Fits(t.Context()) != nil {
			t.Errorf("version %d, %v, %v; want %d", current, err, p.store.Fits(t.Context()), to)
		}
	}
	p.stop()
	verify(t, p.store)
}

// gapOfTwo: a program that is two versions ahead, or behind, is refused; and a migration
// reports the processes that the change would stop.
func (db *database) gapOfTwo(base int, older, newer *busyProcess) {
	t := db.t
	t.Helper()
	refused := func(ahead int, hint string) {
		t.Helper()
		_, err := db.openAhead(ahead, slog.New(slog.DiscardHandler))
		var e *pawl.Error
		if !errors.As(err, &e) || e.Kind != pawl.Conflict || !strings.Contains(e.Hint, hint) {
			t.Errorf("a program of version %d: %v, want a conflict with a hint: %s", base+ahead, err, hint)
		}
	}
	migrate := func(s store.Store, to int) {
		t.Helper()
		if err := s.Migrate(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	refused(2, "pawl migrate up")
	migrate(newer.store, base+1)
	last, err := db.openAhead(2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	unfit := func() []string {
		t.Helper()
		users, err := last.(living).Unfit(t.Context(), base+2)
		if err != nil {
			t.Fatal(err)
		}
		return users
	}
	if users := unfit(); len(users) != 1 {
		t.Errorf("%v would stop; want the older process", users)
	}
	older.stop()
	if err := older.store.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the older process has left", func() bool { return len(unfit()) == 0 })
	migrate(last, base+2)
	refused(0, "use the newer pawl")
	if err := newer.store.Fits(t.Context()); err != nil {
		t.Errorf("a program one version behind: %v", err)
	}
	newer.stop()
	migrate(last, base)
	if err := newer.store.Fits(t.Context()); err != nil {
		t.Errorf("a program one version ahead: %v", err)
	}
	if err := last.Fits(t.Context()); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("a program two versions ahead: %v, want a conflict", err)
	}
}

// living is a schema that can tell which processes a change would stop.
type living interface {
	Unfit(ctx context.Context, to int) ([]string, error)
}
