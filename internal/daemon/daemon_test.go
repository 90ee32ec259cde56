package daemon

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// TestReadinessOfAProcessThatEnds: who sends it requests learns of its end as soon as it is
// asked to end, while its work goes on (S14).
func TestReadinessOfAProcessThatEnds(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e := engine.New(engine.Config{Store: db, Managed: true})
	defer e.Close()
	log := slog.New(slog.DiscardHandler)
	p, err := OpenPort("127.0.0.1:0", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Role: health.RoleServer, Version: "test", Metrics: metrics.New("test"), Engine: e, Store: db, Sockets: filepath.Join(t.TempDir(), "none", "here"), Port: p, Log: log, Unreachable: func(error) {}}
	ctx, ask := context.WithCancel(t.Context())
	defer ask()
	err = d.Run(ctx, func(context.Context) error {
		ask()
		r, err := http.Get("http://" + p.Address + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "the process is ending\n") {
			t.Errorf("%d %s", r.StatusCode, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
