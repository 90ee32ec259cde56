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

// patience is how long a test waits for what has to happen: it is generous, and
// nothing is measured by it.
const patience = 60 * time.Second

// A house is a keeper of real programs.
type house struct {
	*testing.T
	*Keeper
	stop    func() supervisor.Report
	changed chan struct{}
}

func newHouse(t *testing.T, c Config, programs ...*spec.Program) *house {
	t.Helper()
	h := &house{T: t, changed: make(chan struct{}, 1)}
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
	if h.Keeper, err = New(c); err != nil {
		t.Fatal(err)
	}
	h.apply(programs...)
	h.run()
	return h
}

// folder is a folder that others may enter, and whose path is short enough for a
// socket.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keeper")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (h *house) run() {
	ctx, cancel := context.WithCancel(context.Background())
	reports := make(chan supervisor.Report, 1)
	go func() {
		r, err := h.Keeper.Run(ctx)
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

func (h *house) apply(programs ...*spec.Program) []control.Difference {
	h.Helper()
	d, err := h.Apply(context.Background(), &spec.File{Programs: programs}, pawl.Change{Actor: "test"})
	if err != nil {
		h.Fatal(err)
	}
	return d
}

// until waits until a service is as it should be.
func (h *house) until(id string, what string, ok func(control.Service) bool) control.Service {
	h.Helper()
	deadline, ticks := time.NewTimer(patience), time.NewTicker(20*time.Millisecond) // a streak is not told
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

func (h *house) in(id, state string) control.Service {
	h.Helper()
	return h.until(id, state, func(s control.Service) bool { return s.State == state })
}

func (h *house) order(id string, v control.Verb) {
	h.Helper()
	if err := h.Order(context.Background(), id, control.Order{Verb: v, Change: pawl.Change{Actor: "cli:alice", Reason: "deploy"}}); err != nil {
		h.Fatal(err)
	}
}

// printed waits until a program has printed a text.
func (h *house) printed(id, text string) string {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// genuine is a program that runs this test binary as one of the programs.
func genuine(id, what string) *spec.Program {
	p := plain(id)
	p.Command = []string{os.Args[0]}
	if !filepath.IsAbs(os.Args[0]) {
		wd, _ := os.Getwd()
		p.Command[0] = filepath.Join(wd, os.Args[0])
	}
	p.Env = map[string]string{"KEEPER_TEST": what}
	p.Dir = "/"
	return p
}

// plain is a program with the defaults of a file.
func plain(id string) *spec.Program {
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
