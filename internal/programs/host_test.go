package programs

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
)

// (S14) what is refused, and with which kind of error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	h := newFixture(t, Config{}, testProgram("web", "wait"))
	ctx := context.Background()
	apply := func(programs ...*spec.Program) error {
		_, err := h.Apply(ctx, &spec.File{Programs: programs}, pawl.Change{})
		return err
	}
	needs := func(id string, of ...string) *spec.Program {
		p := testProgram(id, "wait")
		for _, n := range of {
			p.Needs = append(p.Needs, spec.Need{ID: n, Condition: spec.Started})
		}
		return p
	}
	empty := testProgram("empty", "wait")
	empty.Command = nil
	_, reload := h.Reload(ctx, pawl.Change{})
	_, service := h.Service("wbe")
	_, history := h.History(ctx, "wbe")
	for name, tt := range map[string]struct {
		err  error
		kind pawl.Kind
	}{
		"service": {service, pawl.NotFound},
		"history": {history, pawl.NotFound},
		"order":   {h.Order(ctx, "wbe", control.Order{Verb: control.Stop}), pawl.NotFound},
		"verb":    {h.Order(ctx, "web", control.Order{Verb: "kick"}), pawl.Invalid},
		"logs":    {h.Logs(ctx, "wbe", control.LogQuery{}, os.Stdout), pawl.NotFound},
		"reload":  {reload, pawl.Refused},
		"cycle":   {apply(needs("a", "b"), needs("b", "c"), needs("c", "a")), pawl.Invalid},
		"need":    {apply(needs("a", "zz")), pawl.Invalid},
		"command": {apply(empty), pawl.Invalid},
		"id":      {apply(testProgram("not an id", "wait")), pawl.Invalid},
	} {
		if pawl.KindOf(tt.err) != tt.kind || tt.err == nil {
			t.Errorf("%s: %v, want kind %v", name, tt.err, tt.kind)
		}
	}
	var e *pawl.Error
	if !errors.As(service, &e) || e.Hint != "did you mean web?" {
		t.Errorf("hint: %+v", service)
	}
	if all := h.Services(); len(all) != 1 || all[0].ID != "web" {
		t.Errorf("services: %+v", all)
	}
	h.stop()
	for name, err := range map[string]error{"order": h.Order(ctx, "web", control.Order{Verb: control.Start}), "apply": apply()} {
		if pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("%s after the stop: %v", name, err)
		}
	}
}

// (S14) Reload reads the file again; a file that cannot be read changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	broken := errors.New("line 3: it is broken")
	var load error
	c := Config{Load: func() (*spec.File, error) {
		return &spec.File{Programs: []*spec.Program{testProgram("other", "wait")}}, load
	}}
	h := newFixture(t, c, testProgram("web", "wait"))
	h.in("web", running)
	load = broken
	if _, err := h.Reload(context.Background(), pawl.Change{}); !errors.Is(err, broken) {
		t.Errorf("error: %v", err)
	}
	h.in("web", running)
	load = nil
	if d, err := h.Reload(context.Background(), pawl.Change{Actor: "cli:alice"}); err != nil || len(d) != 2 {
		t.Errorf("differences: %+v, %v", d, err)
	}
	h.in("other", running)
	if _, err := h.Service("web"); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("web: %v", err)
	}
}

// (S14) A state folder has one manager: the sweep of another would kill its programs.
func TestOneManager(t *testing.T) {
	t.Parallel()
	state := folder(t)
	h := newFixture(t, Config{State: state}, testProgram("web", "wait"))
	s := h.in("web", running)
	second, err := New(Config{State: state})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Run(context.Background()); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("second: %v", err)
	}
	if !alive(s.PID) {
		t.Error("its program was killed")
	}
}

// (S14) A program runs as another user, who can write to its socket. Only root can do
// that; for others the program fails.
func TestUser(t *testing.T) {
	t.Parallel()
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	p := testProgram("other", "")
	p.Command = []string{"/bin/sh", "-c", `id -un; echo "$HOME $USER $LOGNAME"; echo as; exec sleep 1000`}
	p.User, p.Env = "nobody", nil
	p.Ready = quick(spec.Probe{Command: []string{"/bin/sh", "-c", `test $(id -un) = nobody`}})
	n := testProgram("notify", "notify READY=1")
	n.Command = []string{copied(t)}
	n.User, n.Ready = "nobody", quick(spec.Probe{Notify: true})
	h := newFixture(t, Config{}, p, n)
	if os.Getuid() != 0 {
		if s := h.in("other", failed); !strings.Contains(s.Reason, "root") {
			t.Errorf("reason: %s", s.Reason)
		}
		return
	}
	h.in("other", running)
	h.in("notify", running)
	said := h.printed("other", "as\n")
	if want := "nobody\n" + nobody.HomeDir + " nobody nobody\n"; !strings.HasPrefix(said, want) {
		t.Errorf("it said %q, want %q", said, want)
	}
}

// copied returns the path of a copy of the test binary that every user can run.
func copied(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(testProgram("", "").Command[0])
	path := filepath.Join(folder(t), "program")
	if err == nil {
		err = os.WriteFile(path, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// (S14) A check says what an order would do, in the words of its refusal, and does nothing.
func TestChecks(t *testing.T) {
	t.Parallel()
	h := newFixture(t, Config{}, testProgram("web", "wait"))
	first := h.in("web", running)
	check := func(when string, want map[control.Verb]string) {
		t.Helper()
		for _, v := range control.Verbs {
			text := ""
			if err := h.Check("web", v); err != nil {
				text = err.Error()
			}
			if text != want[v] {
				t.Errorf("%s, %s: %q, want %q", when, v, text, want[v])
			}
		}
	}
	check("running", map[control.Verb]string{control.Start: "service web runs already, or is about to"})
	if now := h.in("web", running); now.PID != first.PID || now.Starts != first.Starts {
		t.Errorf("a check has moved it: %+v", now)
	}
	h.order("web", control.Stop)
	h.in("web", stopped)
	check("stopped", map[control.Verb]string{control.Stop: "service web does not run, or is about to stop"})
	h.order("web", control.Start)
	h.in("web", running)
	for name, tt := range map[string]struct {
		err  error
		kind pawl.Kind
	}{
		"unknown": {h.Check("wbe", control.Start), pawl.NotFound},
		"verb":    {h.Check("web", "kick"), pawl.Invalid},
	} {
		if pawl.KindOf(tt.err) != tt.kind {
			t.Errorf("%s: %v, want kind %v", name, tt.err, tt.kind)
		}
	}
	h.stop()
	if err := h.Check("web", control.Restart); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}
