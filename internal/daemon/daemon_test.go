package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/store"
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

// A failing store has no version for some calls.
type failing struct {
	store.Store
	left int
	err  error
}

func (s *failing) Version(context.Context) (current, newest int, err error) {
	if s.left > 0 {
		s.left--
		return 0, 0, s.err
	}
	return 12, 12, nil
}

// TestAnOutageAtTheStart: a process that works is not ended by an outage of the database while it
// begins to serve, but by a signal and by another error (T10).
func TestAnOutageAtTheStart(t *testing.T) {
	t.Parallel()
	outage, bug := pawl.Errorf(pawl.Unavailable, "the database does not respond"), errors.New("a bug")
	synctest.Test(t, func(t *testing.T) {
		if v, err := (&Daemon{Store: &failing{left: 2, err: outage}}).schema(t.Context()); err != nil || v != 12 {
			t.Errorf("after two failures: version %d, %v; want 12", v, err)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if _, err := (&Daemon{Store: &failing{left: math.MaxInt, err: outage}}).schema(ctx); !errors.Is(err, outage) {
			t.Errorf("at the end of the process: %v, want that of the database", err)
		}
		if _, err := (&Daemon{Store: &failing{left: 1, err: bug}}).schema(t.Context()); !errors.Is(err, bug) {
			t.Errorf("another error: %v, want it at once", err)
		}
	})
}
