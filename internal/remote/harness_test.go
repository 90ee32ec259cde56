package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// A site is an engine with a SQLite file, and the API on it.
type site struct {
	local   *engine.Engine
	handler http.Handler
	url     string
}

func newSite(t *testing.T) *site {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	must(t, err)
	e := engine.New(engine.Config{Store: db, Poll: 20 * time.Millisecond, Silence: time.Hour})
	log := slog.New(slog.DiscardHandler)
	service := api.New(api.Config{Engine: e, Program: "1.0", Schema: 1, Now: time.Now, Log: log, Events: e.Feed()})
	s := &site{local: e, handler: api.Guard(service, api.GuardConfig{Raw: []string{"/api/steps/*/log"}, Log: log})}
	server := httptest.NewServer(s.handler)
	s.url = server.URL
	t.Cleanup(func() {
		server.Close()
		service.Close()
		e.Close()
		must(t, db.Close())
	})
	return s
}

// open returns the engine of a server.
func open(t *testing.T, url string) *remote.Engine {
	t.Helper()
	e, err := remote.Open(t.Context(), url, remote.Config{})
	must(t, err)
	t.Cleanup(e.Close)
	return e
}

// work runs a worker whose handler work returns its input, or fails if that says so, until
// stop is called.
func (s *site) work(t *testing.T) (stop func()) {
	t.Helper()
	w, err := worker.New(linker{s.local}, worker.Config{Name: "clerk", Poll: 20 * time.Millisecond, Beat: 20 * time.Millisecond})
	must(t, err)
	worker.Handle(w, "work", func(_ context.Context, in struct{ Fail string }) (string, error) {
		if in.Fail != "" {
			return "", errors.New(in.Fail)
		}
		return "done", nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-over)
	}
}

type linker struct{ e link.Worker }

func (l linker) Link() link.Worker { return l.e }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// canonical returns a definition of the text of a file.
func canonical(t *testing.T, source string) []byte {
	t.Helper()
	def, err := workflow.Parse("test.yaml", []byte(source))
	must(t, err)
	return def.Canonical()
}

// The workflows of the tests.
const (
	order = `name: order
inputs: {fail: {type: string, default: ""}}
steps:
  - id: work
    handler: work
    with: {fail: "${{ inputs.fail }}"}
    retry: {max_attempts: 2, base: 1h}
  - id: ship
    needs: [work]
    approval: {prompt: "Ship?", form: {note: {type: string}}}
  - id: paid
    needs: [ship]
    event: {name: paid}
output: ${{ steps.work.output }}
`
	quick = `name: quick
steps: [{id: work, handler: work}]
`
	many = `name: many
steps: [{id: go, event: {name: go}}]
`
	draining = `name: draining
on_error: drain
steps:
  - {id: work, handler: work, with: {fail: "no"}, retry: {max_attempts: 1}}
  - {id: wait, event: {name: go}}
`
)

// submit submits a job and returns its id.
func submit(t *testing.T, e link.Jobs, source, inputs string) pawl.ID {
	t.Helper()
	done, err := e.Submit(t.Context(), pawl.Submission{Definition: canonical(t, source), Inputs: json.RawMessage(inputs), Actor: "ada"})
	must(t, err)
	must(t, done[0].Err)
	return done[0].ID
}

// until waits until a job is as f says.
func until(t *testing.T, e link.Engine, id pawl.ID, f func(*pawl.JobView) bool) {
	t.Helper()
	must(t, e.Watch(t.Context(), id, func() (bool, error) {
		v, err := e.Job(t.Context(), id)
		return err == nil && !f(v), err
	}))
}

// stepIs returns a condition for until.
func stepIs(key string, is func(*pawl.StepView) bool) func(*pawl.JobView) bool {
	return func(v *pawl.JobView) bool {
		for i := range v.Steps {
			if s := &v.Steps[i]; s.Key == key && is(s) {
				return true
			}
		}
		return false
	}
}
