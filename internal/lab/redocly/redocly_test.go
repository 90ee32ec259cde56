package redocly

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/api"
)

// The tool, and the Node.js that it needs at least where there is an older one.
const (
	tool = "@redocly/cli@2.77.0"
	node = "node@22"
)

// TestDocuments: both documents pass the strictest rules, with no exception (J4).
func TestDocuments(t *testing.T) {
	t.Parallel()
	service := api.New(api.Config{Log: slog.New(slog.DiscardHandler)})
	dir := t.TempDir()
	for _, name := range []string{"openapi.json", "openapi-3.0.json"} {
		got := httptest.NewRecorder()
		service.ServeHTTP(got, httptest.NewRequest("GET", "/"+name, nil))
		if err := os.WriteFile(filepath.Join(dir, name), got.Body.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lint := exec.CommandContext(t.Context(), npx(t), "--yes", "--package", node, "--package", tool, "redocly", "lint", "--extends", "recommended-strict", "openapi.json", "openapi-3.0.json")
	lint.Dir = dir
	lint.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "CI=true")
	if out, err := lint.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// npx returns the path of npx, which is installed first if there is none.
func npx(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("npx"); err == nil {
		return path
	}
	for _, args := range [][]string{{"update", "-q"}, {"install", "-q", "-y", "--no-install-recommends", "npm"}} {
		if out, err := exec.CommandContext(t.Context(), "apt-get", args...).CombinedOutput(); err != nil {
			t.Fatalf("npx is missing; run: sudo apt-get install -y --no-install-recommends npm\n%v\n%s", err, out)
		}
	}
	path, err := exec.LookPath("npx")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
