package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/signals"
)

// TestZones shows times as those of the terminal's owner, or else in UTC.
func TestZones(t *testing.T) {
	t.Parallel()
	db := "--database=" + filepath.Join(t.TempDir(), "pawl.db")
	run := func(terminal bool, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		p := &process{
			args: append(args, db), stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" },
			exit:   func(int) { panic("exit") },
			screen: console.Screen{Terminal: terminal, Size: func() (int, int) { return 80, 24 }}, signals: signals.New(func() { panic("exit") }),
			local: time.FixedZone("there", 19800), // 5 h 30 min
		}
		if terminal {
			p.columns = func() int { return 200 }
		}
		if code := p.main(); code != codeOK {
			t.Fatalf("%v: exit code %d\n%s", args, code, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	file := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(file, []byte("name: hello\nsteps: [{id: a, command: [\"true\"]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	local, utc := regexp.MustCompile(`\d:\d\d(\.\d+)?\+05:30`), regexp.MustCompile(`\d:\d\d(\.\d+)?Z`)
	for _, args := range [][]string{{"run", file, "--verbose"}, {"jobs"}, {"job", "show", "last"}, {"job", "history", "last"}} {
		for _, tt := range []struct {
			terminal bool
			flag     []string
			want     *regexp.Regexp
			lacks    *regexp.Regexp
		}{
			{true, nil, local, utc},
			{true, []string{"--utc"}, utc, local},
			{false, nil, utc, local},
			{true, []string{"-o", "json"}, utc, nil},
		} {
			out, errs := run(tt.terminal, append(args, tt.flag...)...)
			if text := out + errs; !tt.want.MatchString(text) || tt.lacks != nil && tt.lacks.MatchString(text) {
				t.Errorf("%v %v on a terminal %v: want %s in\n%s", args, tt.flag, tt.terminal, tt.want, text)
			}
			if tt.lacks == nil && local.MatchString(out) {
				t.Errorf("%v %v: JSON has local times:\n%s", args, tt.flag, out)
			}
		}
	}
}
