package programs

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// testTimeout is how long a test waits for an event. It is generous, since nothing is
// measured by it.
const testTimeout = 60 * time.Second

// A fixture is a Manager of real processes.
type fixture struct {
	*testing.T
	*Manager
	stop    func() supervisor.Report
	changed chan struct{}
}

func newFixture(t *testing.T, c Config, programs ...*spec.Program) *fixture {
	t.Helper()
	h := &fixture{T: t, changed: make(chan struct{}, 1)}
	if c.State == "" {
		c.State = folder(t)
	}
	if c.Name = "test"; c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Changed = func(string) {
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}
	var err error
	if h.Manager, err = New(c); err != nil {
		t.Fatal(err)
	}
	h.apply(programs...)
	h.run()
	return h
}

// folder creates a folder that other users may enter, with a path that is short enough for
// a socket.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "manager")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (h *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan supervisor.Report, 1)
	go func() {
		r, err := h.Manager.Run(ctx)
		if err != nil {
			h.Error(err)
		}
		reports <- r
		close(reports)
	}()
	var report supervisor.Report
	h.stop = func() supervisor.Report {
		cancel()
		if r, ok := <-reports; ok {
			report = r
		}
		return report
	}
	h.Cleanup(func() {
		h.Force()
		h.stop()
	})
}

func (h *fixture) apply(programs ...*spec.Program) []control.Difference {
	h.Helper()
	d, err := h.Apply(context.Background(), &spec.File{Programs: programs}, pawl.Change{Actor: "test"})
	if err != nil {
		h.Fatal(err)
	}
	return d
}

// until waits until ok of the service.
func (h *fixture) until(id string, what string, ok func(control.Service) bool) control.Service {
	h.Helper()
	deadline, ticks := time.NewTimer(testTimeout), time.NewTicker(20*time.Millisecond) // a streak wakes no waiter
	defer deadline.Stop()
	defer ticks.Stop()
	for {
		s, err := h.Service(id)
		if err != nil {
			h.Fatal(err)
		}
		if ok(s) {
			return s
		}
		select {
		case <-h.changed:
		case <-ticks.C:
		case <-deadline.C:
			h.Fatalf("service %s is not %s: %+v", id, what, s)
		}
	}
}

func (h *fixture) in(id, state string) control.Service {
	h.Helper()
	return h.until(id, state, func(s control.Service) bool { return s.State == state })
}

func (h *fixture) order(id string, v control.Verb) {
	h.Helper()
	if err := h.Order(context.Background(), id, control.Order{Verb: v, Change: pawl.Change{Actor: "cli:alice", Reason: "deploy"}}); err != nil {
		h.Fatal(err)
	}
}

// printed waits until a program has printed a text, and returns all it has printed.
func (h *fixture) printed(id, text string) string {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	w := &awaited{text: text, found: cancel}
	_ = h.Logs(ctx, id, control.LogQuery{Tail: -1, Follow: true}, w)
	if !strings.Contains(w.String(), text) {
		h.Fatalf("service %s has not printed %q: %.2000s", id, text, w)
	}
	return w.String()
}

type awaited struct {
	strings.Builder
	text  string
	found func()
}

func (a *awaited) Write(b []byte) (int, error) {
	a.Builder.Write(b)
	if strings.Contains(a.String(), a.text) {
		a.found()
	}
	return len(b), nil
}

// testProgram returns a program that runs this test binary as one of those in
// main_test.go.
func testProgram(id, what string) *spec.Program {
	p := defaultProgram(id)
	p.Command = []string{os.Args[0]}
	if !filepath.IsAbs(os.Args[0]) {
		wd, _ := os.Getwd()
		p.Command[0] = filepath.Join(wd, os.Args[0])
	}
	p.Env = map[string]string{"PROGRAMS_TEST": what}
	p.Dir = "/"
	return p
}

// defaultProgram returns a program with the defaults of a file.
func defaultProgram(id string) *spec.Program {
	return &spec.Program{
		ID: id, Command: []string{"fake"}, Autostart: true,
		Restart: spec.Restart{
			Policy: spec.Always, Base: time.Second, Cap: time.Minute, Jitter: false,
			Burst: 5, Window: 5 * time.Minute, Reset: time.Minute,
		},
		Stop: spec.Stop{Signal: "SIGTERM", Grace: 10 * time.Second},
		Log:  spec.Log{MaxSize: 10 << 20, MaxFiles: 5},
	}
}
