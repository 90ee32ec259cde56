package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// serve serves the API of a new database with a worker, and returns its URL.
func serve(t *testing.T) string {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Config{Store: db, Poll: 20 * time.Millisecond, Silence: time.Hour})
	w, err := worker.New(client.Over(e, client.Config{}, nil), worker.Config{Name: "clerk"})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "greet", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	service := api.New(api.Config{Engine: e, Program: "test", Schema: 1, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(api.Guard(service, api.GuardConfig{}))
	t.Cleanup(func() {
		server.Close()
		cancel()
		err := <-over
		e.Close()
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
	return server.URL
}

// A client of a server does what one of a database does (J3).
func TestOpen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := client.Open(ctx, serve(t), client.Config{Actor: "ada@host"})
	if err != nil {
		t.Fatal(err)
	}
	def, err := workflow.Parse("greet.yaml", []byte("name: greet\ninputs: {who: {type: string}}\nsteps: [{id: greet, handler: greet, with: \"${{ inputs.who }}\"}]\noutput: ${{ steps.greet.output }}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, made, err := c.Workflows.Register(ctx, def, "", pawl.Change{Reason: "the first"}); err != nil || !made {
		t.Fatalf("registered: %t, %v", made, err)
	}
	done, err := c.Jobs.SubmitAll(ctx, client.Submission{Name: "greet@1", Inputs: map[string]string{"who": "Ada"}, RequestID: "one"},
		client.Submission{Name: "greet@1", Inputs: map[string]string{"who": "Ada"}, RequestID: "one"}, client.Submission{Workflow: def, Inputs: map[string]int{"who": 1}})
	if err != nil || done[0].Err != nil || done[1].ID != done[0].ID || pawl.KindOf(done[2].Err) != pawl.Invalid {
		t.Fatalf("submitted: %+v, %v", done, err)
	}
	r, err := c.Jobs.Wait(ctx, done[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := r.Decode(&text); err != nil || text != "hello Ada" {
		t.Errorf("output %q, %v", text, err)
	}
	j, err := c.Jobs.Get(ctx, done[0].ID)
	if err != nil || j.Status != lifecycle.JobCompleted || j.Version != 1 || j.StateHistory[0].Actor != "ada@host" {
		t.Errorf("the job is %+v, %v", j, err)
	}
	if _, err := c.Jobs.Cancel(ctx, done[0].ID, pawl.Change{}); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("canceled after its end: %v, want an error of kind Conflict", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A worker works on a client of a server, but for transactions, which need the database.
func TestWorkerOfAServer(t *testing.T) {
	t.Parallel()
	c, err := client.Open(t.Context(), serve(t), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(c, worker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	completed := make(chan error, 1)
	worker.Handle(w, "far", func(ctx context.Context, n int) (int, error) {
		completed <- worker.CompleteTx(ctx, nil, worker.TaskOf(ctx), n)
		return 2 * n, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	def, err := workflow.Parse("far.yaml", []byte("name: far\nsteps: [{id: far, handler: far, with: 3}]\noutput: ${{ steps.far.output }}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.Jobs.Submit(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Jobs.Wait(t.Context(), job)
	var n int
	if err == nil {
		err = r.Decode(&n)
	}
	if err != nil || n != 6 {
		t.Errorf("output %d, %v; want 6", n, err)
	}
	if err := <-completed; pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("CompleteTx: %v, want an error of kind Invalid", err)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// Open refuses what is no server, and names one that is out of reach.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(nil)
	away.Close()
	for url, kind := range map[string]pawl.Kind{"pawl.db": pawl.Invalid, "http://pawl.example.com": pawl.Invalid, away.URL: pawl.Unavailable} {
		_, err := client.Open(t.Context(), url, client.Config{})
		if pawl.KindOf(err) != kind || kind == pawl.Unavailable && !strings.Contains(fmt.Sprint(err), url) {
			t.Errorf("%q: %v of kind %d, want kind %d", url, err, pawl.KindOf(err), kind)
		}
	}
}
