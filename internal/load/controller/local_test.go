package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

// TestKilledAgents: the state of a local agent that was killed stays, since it says what is to be
// deleted, unless all of its files are removed anyway (L5).
func TestKilledAgents(t *testing.T) {
	t.Parallel()
	killed := &KilledError{Names: []string{"local-2"}, After: time.Second}
	for _, tt := range []struct {
		root    string
		stores  []string
		stopped error
		stays   bool
	}{{"/mnt/data", nil, killed, true}, {"DIR/root", nil, killed, false}, {"DIR/root", []string{"http://host/bucket"}, killed, true}, {"/mnt/data", nil, nil, false}} {
		scratch, err := durable.NewScratch(t.TempDir(), "dir-*")
		if err != nil {
			t.Fatal(err)
		}
		dir := scratch.Path
		root, flags := strings.Replace(tt.root, "DIR", dir, 1), ""
		for _, s := range tt.stores {
			flags += " --s3 '" + s + "'"
		}
		if tt.stopped != nil {
			keepJob(t, dir, "local-2", cmp.Or(strings.Join(tt.stores, ""), root))
		}
		err = clearLocal(scratch, root, tt.stores, tt.stopped)
		if _, gone := os.Stat(dir); tt.stays != (gone == nil) || (tt.stopped == nil) != (err == nil) {
			t.Errorf("root %q: stays %t, want %t; %v", tt.root, gone == nil, tt.stays, err)
		}
		var refused *pawl.Error
		if tt.stays && (!errors.As(err, &refused) || !strings.HasSuffix(refused.Hint, ": pawl agent --state-dir "+dir+"/local-2/state --root "+root+flags)) {
			t.Errorf("%v", err)
		}
	}
}

// keepJob makes the state of a local agent that has a run to clean up, and returns it.
func keepJob(t *testing.T, dir, agent, root string) (state string) {
	t.Helper()
	state = filepath.Join(dir, agent, "state")
	run := filepath.Join(state, "runs", runID)
	b, err := json.Marshal(workload.Job{RunID: runID, Root: root})
	if err := errors.Join(err, os.MkdirAll(run, 0o700), os.WriteFile(filepath.Join(run, "job.json"), b, 0o600)); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestUnfinished: what is missing is nothing to clean up, and what cannot be read is an error, so that it
// is kept. The name of the folder is taken as it is (L5).
func TestUnfinished(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		make func(state, job string) error // of an agent that has a run to clean up
		left int
		fail bool
	}{
		{"as it was", func(string, string) error { return nil }, 1, false},
		{"no job", func(_, job string) error { return os.Remove(job) }, 0, false},
		{"no state", func(state, _ string) error { return os.RemoveAll(state) }, 0, false},
		{"a damaged job", func(_, job string) error { return os.Truncate(job, 5) }, 0, true},
		{"a job that cannot be read", func(_, job string) error { return errors.Join(os.Remove(job), os.Mkdir(job, 0o700)) }, 0, true},
		{"no folder of runs", func(state, _ string) error {
			return errors.Join(os.RemoveAll(filepath.Join(state, "runs")), os.WriteFile(filepath.Join(state, "runs"), nil, 0o600))
		}, 0, true},
	} {
		dir := filepath.Join(t.TempDir(), "pawl-load-[*?")
		state := keepJob(t, dir, "local-1", "/mnt/data")
		keepJob(t, dir, "local-2", filepath.Join(dir, "root")) // which goes with dir
		if err := tt.make(state, filepath.Join(state, "runs", runID, "job.json")); err != nil {
			t.Fatal(err)
		}
		left, err := unfinished(dir)
		if len(left) != tt.left || tt.left == 1 && left[0] != (leftover{state, "/mnt/data"}) || (err != nil) != tt.fail {
			t.Errorf("%s: %v, %v", tt.name, left, err)
		}
	}
}

// TestFinishAll: only after an agent that has died somebody cleans up, which a context ends, and no
// more begins then (L5).
func TestFinishAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, agent := range []string{"local-1", "local-2", "local-3"} {
		keepJob(t, dir, agent, "/mnt/data")
	}
	program := filepath.Join(t.TempDir(), "pawl") // begins to clean up, and does not end
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>$0.lines\nexec sleep 100\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if file, err := os.Stat(program + ".lines"); err == nil && file.Size() > 0 { // it is there before its line is
				cancel()
			}
			time.Sleep(localPause)
		}
	}()
	l, ends := &Local{patience: localStop}, map[string]string{
		"local-1": "echo up; exec sleep 100", "local-2": "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", "local-3": "echo up; exec sleep 100",
	}
	for _, name := range []string{"local-1", "local-2", "local-3"} {
		a := &localAgent{name: name, done: make(chan struct{})}
		r, w := io.Pipe()
		if err := a.start([]string{"sh", "-c", ends[name]}, w, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, r) }()
		l.agents = append(l.agents, a)
	}
	_ = syscall.Kill(l.agents[0].cmd.Process.Pid, syscall.SIGKILL)
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	err := finishAll(ctx, program, dir, slog.New(slog.DiscardHandler), l.died)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	text := err.Error()
	if !strings.Contains(text, "agent local-1 has ended with signal: killed") || strings.Contains(text, "local-2") {
		t.Error(text)
	}
	lines, err := os.ReadFile(program + ".lines")
	if err != nil || strings.Count(string(lines), "\n") != 1 || !slices.Contains(strings.Fields(string(lines)), "/mnt/data") {
		t.Errorf("%q, %v", lines, err)
	}
}
