package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// TestLoadOverrides: what flags replace is what agents get, and everything else is as in the file.
func TestLoadOverrides(t *testing.T) {
	t.Parallel()
	const file = "name: a # a comment\ncount: 5\nfiles: [{name: d}]\nmix:\n  - {operation: mkdir, files: d, weight: 3}\nrate: {operations: 9, arrival: poisson}\n"
	test, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	o := loadRun{duration: 90 * time.Second, rate: 12.5}
	src, err := o.replace([]byte(file), test)
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Parse(src)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	want := *test
	want.Count, want.Duration, want.Rate = 0, 90*time.Second, &spec.Rate{Operations: 12.5, Arrival: spec.Poisson}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("%s\n%s", diff, src)
	}
}

// TestLoadFolder: a folder that cannot be written is refused before a run begins, and one of a run that has not
// begun leaves nothing behind (L7).
func TestLoadFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	var refused *pawl.Error
	if _, err := a.loadFolder(&loadRun{out: filepath.Join(file, "result")}); !errors.As(err, &refused) || !strings.Contains(refused.Hint, "--out") {
		t.Errorf("%v, want an error with a hint", err)
	}
	f, err := a.loadFolder(&loadRun{out: filepath.Join(dir, "a", "result")})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "a")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// TestQuorumOfFewAgents: a quorum that the agents cannot make is refused before any is started.
func TestQuorumOfFewAgents(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "load.yaml")
	if err := os.WriteFile(file, []byte("name: a\nfiles: [{name: d}]\nmix: [{operation: mkdir}]\nstart: {policy: quorum, quorum: 5}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *pawl.Error
	if err := (&app{}).loadRun(t.Context(), file, loadRun{local: 3}); !errors.As(err, &refused) || refused.Message != "start.quorum 5: there are 3 agents" || refused.Hint == "" {
		t.Error(err)
	}
}

// TestLoadMetricsPort: a port that is in use is refused by the name of the flag that has it.
func TestLoadMetricsPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newLoadBench(t)
	code, printed := b.pawl("load", "run", "brief.yaml", "--metrics", l.Addr().String(), "--out", "out")
	if code != codeUnavailable || !strings.Contains(printed, "give --metrics another one") {
		t.Errorf("exit code %d, want %d:\n%s", code, codeUnavailable, printed)
	}
}
