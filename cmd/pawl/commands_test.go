package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

func newTestRoot() *cobra.Command {
	p := &process{getenv: func(string) string { return "" }}
	return newRoot(&app{process: p, logs: &console.LogWriter{}})
}

// every calls f with each command of the program, from the root on.
func every(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}

func TestCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	every(newTestRoot(), func(c *cobra.Command) {
		if c.Short == "" || c.Long == "" || c.Example == "" {
			t.Errorf("%s: want Short, Long and Example", c.CommandPath())
		}
		if strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short ends with a full stop", c.CommandPath())
		}
		for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			if len(line) > 100 {
				t.Errorf("%s: a line of the help is %d wide: %s", c.CommandPath(), len(line), line)
			}
		}
	})
}

// Each example is a command line that the program takes: its commands, flags and
// number of arguments exist.
func TestExamplesOfHelpParse(t *testing.T) {
	t.Parallel()
	var lines []string
	every(newTestRoot(), func(c *cobra.Command) { lines = append(lines, strings.Split(c.Example, "\n")...) })
	for _, line := range lines {
		if err := parses(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if parses("  pawl run --inptu x") == nil || parses("  pawl jbos") == nil || parses("  pawl run a b") == nil {
		t.Error("what is wrong parses too")
	}
}

func parses(line string) error {
	line, _, _ = strings.Cut(line, " > ")
	words := strings.Fields(line)
	if len(words) == 0 || words[0] != "pawl" {
		return errors.New("want pawl and a command")
	}
	c, rest, err := newTestRoot().Find(words[1:])
	if err != nil {
		return err
	}
	if err := c.ParseFlags(quoted(rest)); err != nil {
		return err
	}
	if !c.HasParent() || c.HasSubCommands() && c.Name() != "worker" && c.Name() != "agent" {
		return fmt.Errorf("%s is no command", line)
	}
	return c.ValidateArgs(c.Flags().Args())
}

// quoted joins the words that stand between quotes.
func quoted(words []string) []string {
	var joined []string
	open := false
	for _, w := range words {
		if open {
			joined[len(joined)-1] += " " + w
		} else {
			joined = append(joined, w)
		}
		if strings.Count(w, `"`)%2 == 1 {
			open = !open
		}
	}
	return joined
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"anything", errors.New("boom"), 1},
		{"internal", pawl.Errorf(pawl.Internal, "x"), 1},
		{"invalid", pawl.Errorf(pawl.Invalid, "x"), 2},
		{"problems", workflow.Problems{{Message: "x"}}, 2},
		{"not found", pawl.Errorf(pawl.NotFound, "x"), 3},
		{"not in the store", fmt.Errorf("read: %w", store.ErrNotFound), 3},
		{"refused", pawl.Errorf(pawl.Refused, "x"), 4},
		{"conflict", pawl.Errorf(pawl.Conflict, "x"), 5},
		{"illegal event", fmt.Errorf("cancel: %w", &machine.Refusal{}), 5},
		{"unavailable", pawl.Errorf(pawl.Unavailable, "x"), 6},
		{"told already", errors.Join(exit{124}, nil), 124},
	} {
		if got := codeOf(tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestComplain(t *testing.T) {
	t.Parallel()
	inner := &pawl.Error{Kind: pawl.Conflict, Message: "inner", Hint: "the hint of the cause"}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"none", nil, ""},
		{"told already", exit{1}, ""},
		{"hint", &pawl.Error{Message: "outer", Hint: "do this"}, "error: outer\nhint: do this\n"},
		{"hint of the cause", fmt.Errorf("open: %w", &pawl.Error{Message: "outer", Err: inner}), "error: open: outer: inner\nhint: the hint of the cause\n"},
		{"supervisor that runs", &control.TakenError{Role: roleSupervisor, Name: "shop", PID: 7},
			"error: supervisor shop already runs, pid 7\nhint: see it with: pawl service list --host shop; for another file, give another --name\n"},
		{"server that runs", fmt.Errorf("listen: %w", &control.TakenError{Role: "server", Name: "a"}),
			"error: listen: server a already runs\nhint: see it with: pawl service list --host a\n"},
		{"host that is gone", &pawl.Error{Message: "shop ended during the request", Err: &control.GoneError{Err: io.EOF}},
			"error: shop ended during the request: EOF\nhint: list what runs with: pawl service list\n"},
		{"two at once", errors.Join(errors.New("one"), errors.New("two")), "error: one\nerror: two\n"},
		{"several lines", errors.New("one:\n\ttwo\n\ttwo\n"), "error: one:\nerror: two\n"},
		{"escapes", errors.New("\x1b[2J"), "error: \uFFFD[2J\n"},
		{"problems", workflow.Problems{{File: "a.yaml", Line: 3, Column: 5, Key: "steps[0]", Message: "bad", Hint: "good"}}, "error: a.yaml:3:5: steps[0]: bad\nhint: good\n"},
	} {
		var b strings.Builder
		complain(&b, tt.err)
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A fault of the program is told in its voice, without a stack.
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := &process{args: []string{"jobs"}, stderr: &b, getenv: func(string) string { panic("oh") }}
	code := complain(&b, p.execute(t.Context()))
	if want := "error: pawl has a bug: oh\nhint: --log-level debug shows where\n"; code != codeFailed || b.String() != want {
		t.Errorf("exit %d: %s", code, b.String())
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"run", "jobs", "validate", "exec"}
	for word, want := range map[string]string{
		"rnu": "run", "job": "jobs", "valdiate": "validate", "EXEC": "exec", "frobnicate": "", "x": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestParseDatabase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]database{
		"":                            {Address: address.Address{Path: "/state/pawl/pawl.db"}, fallback: true},
		"pawl.db":                     {Address: address.Address{Path: "pawl.db"}},
		"/var/lib/pawl.db":            {Address: address.Address{Path: "/var/lib/pawl.db"}},
		"sqlite:///var/pawl.db":       {Address: address.Address{Path: "/var/pawl.db"}},
		"sqlite:pawl.db":              {Address: address.Address{Path: "pawl.db"}},
		"sqlite::memory:":             {Address: address.Address{Path: ":memory:"}},
		"postgres://u:p@h/d":          {Address: address.Address{Postgres: "postgres://u:p@h/d"}},
		"postgresql://h/d":            {Address: address.Address{Postgres: "postgresql://h/d"}},
		"sqlite:a?synchronous=normal": {Address: address.Address{Path: "a", Synchronous: "normal"}},
	} {
		got, err := parseDatabase(name, "/state")
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"mysql://h/d", "sqlite:", "sqlite:///a?x=1", "sqlite:a?synchronous=off", "sqlite:a?%zz"} {
		if db, err := parseDatabase(name, "/state"); pawl.KindOf(err) != pawl.Invalid || err == nil {
			t.Errorf("%q: %+v, %v; want an error of kind Invalid", name, db, err)
		}
	}
}

// A password is not shown.
func TestDatabaseString(t *testing.T) {
	t.Parallel()
	if got := (database{Address: address.Address{Postgres: "postgres://me:secret@host/db"}}).String(); strings.Contains(got, "secret") || !strings.Contains(got, "host/db") {
		t.Errorf("got %s", got)
	}
}

// A hint repeats the global flags, without the password and fit for a shell.
func TestRepeatedFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ database, server, workspace, want string }{
		{"", "", "", ""},
		{"a.db", "", "", " --database a.db"},
		{"", "http://127.0.0.1:7295", "a", " --server http://127.0.0.1:7295 --workspace a"},
		{"my jobs.db", "", "it's", ` --database 'my jobs.db' --workspace 'it'\''s'`},
		{"postgres://me:secret@host/db", "", "", " --database postgres://me:xxxxx@host/db"},
	} {
		a := &app{database: tt.database, server: tt.server, workspace: tt.workspace}
		if got := a.repeated(); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.database, tt.workspace, got, tt.want)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	timeout := &pawl.Failure{Class: pawl.ClassTimeout, Message: "it took longer than 1s"}
	said := &pawl.Failure{Class: "canceled", Message: "timeout: I say"}
	for _, tt := range []struct {
		name string
		view pawl.JobView
		want int
	}{
		{"completed", pawl.JobView{Status: lifecycle.JobCompleted}, codeOK},
		{"failed", pawl.JobView{Status: lifecycle.JobFailed}, codeFailed},
		{"canceled", pawl.JobView{Status: lifecycle.JobCanceled, Error: said}, codeFailed},
		{"timed out", pawl.JobView{Status: lifecycle.JobCanceled, Error: timeout}, codeTimedOut},
		{"failed at its timeout", pawl.JobView{Status: lifecycle.JobFailed, Error: timeout}, codeFailed},
	} {
		if got := outcome(&tt.view); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
