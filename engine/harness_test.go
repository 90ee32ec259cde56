package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/engine"
	"github.com/pawl-dev/pawl/internal/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/runner"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
	"github.com/pawl-dev/pawl/workflow"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// onStores runs f on a SQLite file, on SQLite in memory and on PostgreSQL. reopen
// opens the database again, as another process would; in memory it answers nil.
func onStores(t *testing.T, f func(t *testing.T, open func() store.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "pawl.db")
		f(t, func() store.Store { return closing(t)(sqlite.Open(t.Context(), sqlite.Config{Path: path})) })
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		var s store.Store
		f(t, func() store.Store {
			if s == nil {
				s = closing(t)(sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"}))
			}
			return s
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		f(t, func() store.Store { return closing(t)(postgres.Open(t.Context(), postgres.Config{URL: url})) })
	})
}

func closing(t *testing.T) func(s store.Store, err error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// A process is an engine with a worker, as one process has them.
type process struct {
	t      *testing.T
	store  store.Store
	engine *engine.Engine
	worker *runner.Worker
}

func startProcess(t *testing.T, s store.Store, handlers map[string]runner.Handler) *process {
	t.Helper()
	p := &process{t: t, store: s, engine: engine.New(engine.Config{Store: s, Poll: 50 * time.Millisecond, Jitter: func() float64 { return 0 }})}
	if handlers != nil {
		w, err := runner.Start(t.Context(), runner.WorkerConfig{Engine: p.engine, Store: s, Handlers: handlers, Poll: 50 * time.Millisecond, Beat: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		p.worker = w
	}
	t.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	if p.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.worker.Drain(ctx)
	}
	p.engine.Close()
}

func define(t *testing.T, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
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

// wait answers the job once it has ended.
func (p *process) wait(id pawl.ID) *pawl.JobView {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	if _, err := p.engine.Wait(ctx, id); err != nil {
		v, _ := p.engine.Job(p.t.Context(), id)
		b, _ := json.MarshalIndent(v, "", "  ")
		p.t.Fatalf("job %s did not end: %v\n%s", id.Public(pawl.JobPrefix), err, b)
	}
	v, err := p.engine.Job(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// verify checks the whole trail against what is stored (K6).
func verify(t *testing.T, s store.Store) {
	t.Helper()
	err := s.Trails(t.Context(), 0, func(trail store.TrailOf) error {
		m := lifecycle.ByName(trail.Kind)
		if f := audit.Verify(m, trail.Entries, audit.Stored{Entity: trail.ID, State: trail.Record.State, Seq: trail.Record.Seq, Head: trail.Record.Head}); f != nil {
			return f
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func steps(v *pawl.JobView) map[string]pawl.StepView {
	m := make(map[string]pawl.StepView)
	for _, s := range v.Steps {
		m[s.Key] = s
	}
	return m
}

func note(reason string) workflow.Note { return workflow.Note{Actor: "test", Reason: reason} }
