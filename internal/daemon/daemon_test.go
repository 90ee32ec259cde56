package daemon

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// daemonOf returns a server on a new database.
func daemonOf(t *testing.T) *Daemon {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e := engine.New(engine.Config{Store: db, Managed: true})
	t.Cleanup(e.Close)
	log := slog.New(slog.DiscardHandler)
	p, err := OpenPort("127.0.0.1:0", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	return &Daemon{Role: health.RoleServer, Version: "test", Metrics: metrics.New("test"), Engine: e, Store: db, Sockets: filepath.Join(t.TempDir(), "none", "here"), Port: p, Log: log, Unreachable: func(error) {}}
}

// TestReadinessOfAProcessThatEnds: who sends it requests learns of its end as soon as it is
// asked to end, while its work goes on (S14).
func TestReadinessOfAProcessThatEnds(t *testing.T) {
	t.Parallel()
	d := daemonOf(t)
	ctx, ask := context.WithCancel(t.Context())
	defer ask()
	err := d.Run(ctx, func(context.Context) error {
		ask()
		r, err := http.Get("http://" + d.Port.Address + "/readyz")
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

// A silentStore reads no version of the schema.
type silentStore struct{ store.Store }

func (silentStore) Version(context.Context) (current, newest int, err error) {
	return 0, 0, pawl.Errorf(pawl.Unavailable, "the database does not respond")
}

// TestAnOutageAtTheStart: an outage of the database while a process begins to serve does not end it, and
// it serves the version that the schema had when the database was opened (T10).
func TestAnOutageAtTheStart(t *testing.T) {
	t.Parallel()
	d := daemonOf(t)
	d.Store = silentStore{d.Store}
	err := d.Run(t.Context(), func(context.Context) error {
		r, err := http.Get("http://" + d.Port.Address + "/api/version")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		var v struct{ Schema int }
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil || v.Schema != d.Store.Opened() || v.Schema == 0 {
			t.Errorf("the version is %d, %v; want %d", v.Schema, err, d.Store.Opened())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
