package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
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

// TestLoadLinesNeverWait: who shows a run never waits for a reader of its lines. The reader gets
// each change of state, and the newest of the rest may be left out, which a line says.
func TestLoadLinesNeverWait(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe() // nobody reads
	l := newLoadLines(w)
	for n := range 3 * maxLoadLines {
		l.put(loadInterval{Type: "interval", Agents: n}, true)
	}
	l.put(loadSummary{Type: "summary"}, false)
	closed := make(chan error)
	go func() { closed <- errors.Join(l.close(), w.Close()) }()
	var types []string
	left := 0
	for lines := json.NewDecoder(r); ; {
		var line struct {
			Type  string
			Lines int
		}
		if err := lines.Decode(&line); err != nil {
			break
		}
		types, left = append(types, line.Type), left+line.Lines
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	summaries := slices.DeleteFunc(slices.Clone(types), func(s string) bool { return s != "summary" })
	intervals := slices.DeleteFunc(types, func(s string) bool { return s != "interval" })
	if len(summaries) != 1 || left == 0 || len(intervals)+left != 3*maxLoadLines {
		t.Errorf("%d summaries, %d intervals and %d left out of %d", len(summaries), len(intervals), left, 3*maxLoadLines)
	}
	failing := newLoadLines(badWriter{})
	failing.put(loadLeft{}, false)
	if err := failing.close(); err == nil {
		t.Error("a writer that fails is no error")
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

type badWriter struct{}

func (badWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
