//go:build generated

package generated

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// The tool, and what its clients need.
const (
	tool    = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
	runtime = "github.com/oapi-codegen/runtime@latest"
)

// TestAGeneratedClient: a client made of the document in OpenAPI 3.0 submits a job, waits for
// it, reads its history, and understands a refusal (J4).
func TestAGeneratedClient(t *testing.T) {
	url := serve(t)
	dir := t.TempDir()
	source, err := os.ReadFile("testdata/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := httptest.NewRecorder()
	api.New(api.Config{Log: slog.New(slog.DiscardHandler)}).ServeHTTP(got, httptest.NewRequest("GET", "/openapi-3.0.json", nil))
	for name, text := range map[string][]byte{"main.go": source, "openapi.json": got.Body.Bytes(), "go.mod": []byte("module client\n\ngo 1.26\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, "go", "run", tool, "-generate", "types,client", "-package", "main", "-o", "client.gen.go", "openapi.json")
	command(t, dir, "go", "get", runtime)
	if said := command(t, dir, "go", "run", ".", url); said != "COMPLETED 42 success INVALID_STATE_TRANSITION\n" {
		t.Errorf("the client says %q", said)
	}
}

// command runs a command in a folder and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// serve serves the API of an engine with a worker, and a registered workflow, and returns the
// URL.
func serve(t *testing.T) string {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Config{Store: db})
	log := slog.New(slog.DiscardHandler)
	server := httptest.NewServer(api.Guard(api.New(api.Config{Engine: e, Now: time.Now, Log: log}), api.GuardConfig{}))
	w, err := worker.New(e, worker.Config{DrainTimeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		server.Close()
		e.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	def, err := workflow.Parse("double", []byte("name: double\ninputs: {n: {type: integer}}\nsteps: [{id: twice, handler: double, with: \"${{ inputs.n }}\"}]\noutput: ${{ steps.twice.output }}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Over(e, client.Config{}, nil).Workflows.Register(t.Context(), def, "", pawl.Change{}); err != nil {
		t.Fatal(err)
	}
	return server.URL
}
