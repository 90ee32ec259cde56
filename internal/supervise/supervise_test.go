package supervise

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/programs"
	"github.com/pawl-dev/pawl/supervisor"
)

const valid = "name: shop\nservices:\n  web: {command: [sleep, \"60\"]}\n"

// A screen is where a supervision says what happens; a test waits for it.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // 1: something was written since the last look
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await returns once the text was said.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("want %q in\n%s", text, s)
		}
	}
}

func supervision(t *testing.T) (*Supervision, *screen) {
	t.Helper()
	out := &screen{more: make(chan struct{}, 1)}
	s := &Supervision{Path: filepath.Join(t.TempDir(), "shop.yaml"), Metrics: metrics.New("test"), Log: slog.New(slog.DiscardHandler), Out: &console.LogWriter{W: out}}
	s.write(t, valid)
	return s, out
}

func (s *Supervision) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLoad: what was read last is known, also if it was invalid or not there, so that it
// is reported once.
func TestLoad(t *testing.T) {
	t.Parallel()
	s, _ := supervision(t)
	f, err := s.Load()
	if err != nil || f.Name != "shop" || len(f.Programs) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	was := s.known()
	s.Name = "shop2"
	if f, err = s.Load(); err != nil || f.Name != "shop2" || s.known() != was {
		t.Errorf("%+v, %v: want the name that it has", f, err)
	}
	s.write(t, "services: 7\n")
	if _, err := s.Load(); err == nil || s.known() == was {
		t.Errorf("an invalid file: %v, and it is not known", err)
	}
	was = s.known()
	if err := os.Remove(s.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); pawl.KindOf(err) != pawl.NotFound || s.known() == was {
		t.Errorf("no file: %v, and it is not known", err)
	}
}

// TestKeep keeps one program, reports what a reload does, and stops it when its context
// ends. It is not parallel: it kills what descends from this process.
func TestKeep(t *testing.T) {
	s, out := supervision(t)
	f, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	s.Name, s.Log = f.Name, slog.New(slog.NewTextHandler(s.Out, nil))
	state := filepath.Join(t.TempDir(), "state")
	s.State = state
	journal, err := OpenJournal(state)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	run, err := os.MkdirTemp("", "pawl-run-") // a socket wants a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(run)
	l, err := control.Listen(run, control.About{Name: s.Name, Role: "supervisor"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if s.Manager, err = programs.New(s.Config(state, journal)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan supervisor.Report, 1)
	go func() {
		r, err := s.Keep(ctx, context.Background(), f, l, pawl.Change{Actor: "test"}, false)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	out.await(t, " web running (pid ")
	if reasons := s.Unready(ctx); len(reasons) > 0 {
		t.Errorf("unready: %q", reasons)
	}
	s.write(t, "services: 7\n")
	if _, err := s.Reload(ctx, pawl.Change{Actor: "test"}); err == nil {
		t.Error("an invalid file was applied")
	}
	out.await(t, "was not applied; everything stays as it is\n")
	s.write(t, valid)
	if d, err := s.Reload(ctx, pawl.Change{Actor: "test"}); err != nil || len(d) > 0 {
		t.Errorf("the old file again: %v, %v", d, err)
	}
	out.await(t, "is as it was before\n")
	if err := os.Rename(state, state+".away"); err != nil {
		t.Fatal(err)
	}
	out.await(t, "logs and history are lost")
	if reasons := s.Unready(ctx); len(reasons) != 1 || !strings.Contains(reasons[0], "was removed") {
		t.Errorf("without its folder: unready: %q", reasons)
	}
	if err := os.Rename(state+".away", state); err != nil {
		t.Fatal(err)
	}
	out.await(t, "the folder of logs and history is back")
	if reasons := s.Unready(ctx); len(reasons) > 0 {
		t.Errorf("with its folder: unready: %q", reasons)
	}
	stop()
	if r := <-ended; len(r.Left) > 0 {
		t.Errorf("left: %+v", r.Left)
	}
	out.await(t, "supervisor shop has stopped\n")
}
