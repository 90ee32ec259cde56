package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
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
			screen: screen{terminal: terminal, size: func() (int, int) { return 80, 24 }}, signals: make(chan os.Signal, 2),
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

// TestTimesAsText writes the same moment in two zones.
func TestTimesAsText(t *testing.T) {
	t.Parallel()
	at, there := pawl.Timestamp(pawl.Micros(time.Date(2026, 1, 31, 23, 30, 0, 250e6, time.UTC))), time.FixedZone("", 3600)
	for _, tt := range []struct{ got, want string }{
		{stamp(at.Time(), nil), "2026-01-31T23:30:00.250Z"},
		{stamp(at.Time(), there), "2026-02-01T00:30:00.250+01:00"},
		{second(at, nil), "2026-01-31 23:30:00Z"},
		{second(at, there), "2026-02-01 00:30:00+01:00"},
		{exactly(at, nil), at.String()},
		{exactly(at, there), "2026-02-01T00:30:00.250000+01:00"},
		{second(0, there) + exactly(0, there) + moment(time.Time{}, there), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
