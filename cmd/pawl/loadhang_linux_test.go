package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/hangtest"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/results/resultstest"
)

// status requests a path of the API of loads, and returns the status and how long it took.
func (s *answering) status(t *testing.T, method, path string) (int, time.Duration) {
	begun := time.Now()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader("{}"))
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	_ = a.Body.Close() // its status is there
	return a.StatusCode, time.Since(begun)
}

// TestServerBesideHangs: the files of one run hang in the kernel, and one file of another. Many requests for those are refused in time, and later
// ones at once; meanwhile other runs are read, evaluated and aborted as ever, and all of them are listed. What hangs
// holds up neither the metrics nor the end of the server (L7, L11).
func TestServerBesideHangs(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(dir, "runs")
	if err := os.Mkdir(runs, 0o755); err != nil {
		t.Fatal(err)
	}
	for n, name := range []string{"hangs", "inside", "other"} {
		resultstest.Write(t, runs, name, n, 2, resultstest.File)
	}
	j := resultstest.Journal(t, runs, "on", 3, resultstest.File)
	defer j.Close()
	j.Changed(resultstest.View(3, controller.Running))
	address := freeAddress(t)
	command := exec.Command(binary(t), "--database", filepath.Join(dir, "pawl.db"), "server", "--listen", address, "--load", runs)
	var said bytes.Buffer
	command.Stderr = &said
	p := hangtest.Start(t, command)
	s := &answering{command, "http://" + address}
	f := &fleet{t: t}
	f.until("the server serves", func() bool {
		v, _ := s.get(t, "runs")
		return len(v.Items) == 4
	})
	p.Hang(filepath.Join(runs, "hangs"), filepath.Join(runs, "inside", "intervals.tsv"))
	var all sync.WaitGroup
	for range 4 {
		for _, path := range []string{"hangs", "hangs/report", "hangs/intervals", "hangs/history", "hangs/follow", "inside/intervals"} {
			all.Go(func() {
				status, took := s.status(t, http.MethodGet, "/api/load/runs/"+path)
				if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests || took > 30*time.Second {
					t.Errorf("%q of what hangs: %d after %s", path, status, took)
				}
			})
		}
	}
	f.until("calls hang", func() bool { return p.Hanging() > 0 })
	others := func() {
		t.Helper()
		const soon = 5 * time.Second // half of what it takes until a read is given up
		for _, path := range []string{"", "/report", "/intervals", "/history", "/follow"} {
			if status, took := s.status(t, http.MethodGet, "/api/load/runs/other"+path); status != http.StatusOK || took > soon {
				t.Errorf("%q of another run: %d after %s", path, status, took)
			}
		}
		if status, took := s.status(t, http.MethodPost, "/api/load/runs/on/abort"); status != http.StatusOK || took > soon {
			t.Errorf("the abort of another run: %d after %s", status, took)
		}
		if status, took := s.status(t, http.MethodGet, "/metrics"); status != http.StatusOK || took > soon {
			t.Errorf("the metrics: %d after %s", status, took)
		}
	}
	others()
	all.Wait()
	others()
	if status, took := s.status(t, http.MethodGet, "/api/load/runs/hangs"); status != http.StatusServiceUnavailable || took > time.Second {
		t.Errorf("once it is known to hang: %d after %s", status, took)
	}
	if _, body := s.get(t, "runs?limit=100"); strings.Count(body, `"state":"damaged","reason":"it cannot be read in time`) != 1 {
		t.Errorf("the list is %s", body)
	}
	p.Release()
	f.until("the run is read again", func() bool {
		v, _ := s.get(t, "runs/hangs")
		return v.State == "completed"
	})
	p.Hang(runs)
	go func() {
		if a, err := http.Get(s.url + "/api/load/runs"); err == nil { // which hangs, and may fail
			_ = a.Body.Close()
		}
	}()
	f.until("a list hangs", func() bool { return p.Hanging() > 0 })
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // what it was doing has failed, perhaps
	if command.ProcessState.ExitCode() < 0 {
		t.Errorf("%s: %s", command.ProcessState, said.String())
	}
}

// TestAgentBesideHangs: the folder of an agent hangs in the kernel while a load runs there. The agent still responds, Ctrl-C
// ends the run in time though neither the engine nor the cleanup gets anywhere, and what is left is said. It is
// deleted once the folder is back and the agent starts again (L5).
func TestAgentBesideHangs(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pawl-h-") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	root, file, socket := filepath.Join(dir, "root"), filepath.Join(dir, "load.yaml"), "unix:"+filepath.Join(dir, "s")
	const load = "{name: hangs, files: [{name: data, count: 4, size: 64KiB}], mix: [{operation: read}, {operation: write}], rate: 200, duration: 1h, interval: 100ms, timeouts: {prepare: 2s}, start: {delay: 10ms}}"
	if err := errors.Join(os.Mkdir(root, 0o755), os.WriteFile(file, []byte(load), 0o600)); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, "sqlite://"+filepath.Join(dir, "pawl.db"))
	args := []string{"agent", "--listen", socket, "--root", root, "--state-dir", filepath.Join(dir, "state")}
	command := exec.Command(f.bin, args...)
	p := hangtest.Start(t, command)
	f.until("the agent serves", func() bool { return exec.Command(f.bin, "agent", "show", socket).Run() == nil })
	run := f.start("load", "run", file, "--agents", socket, "--out", filepath.Join(dir, "out"))
	f.until("the load runs", func() bool { return strings.Contains(f.say("agent", "show", socket), "RUNNING") })
	p.Hang(root)
	f.until("operations hang", func() bool { return p.Hanging() > 0 })
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := run.Wait(); err == nil || run.ProcessState.ExitCode() != 130 || time.Since(begun) > 20*time.Second {
		t.Errorf("the run ended after %s: %v: %s", time.Since(begun), err, run.Stderr)
	}
	if said := f.say("agent", "show", socket); !strings.Contains(said, "ABORTED") || !strings.Contains(said, "in a system call that does not return") {
		t.Errorf("the agent shows\n%s", said)
	}
	if said := f.say("load", "report", filepath.Join(dir, "out")); !strings.Contains(said, "the cleanup made no progress for 2s and was ended; the next start of the agent goes on with it") {
		t.Errorf("the report is\n%s", said)
	}
	p.Release()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it has left files
	f.start(args...)
	f.until("what was left is deleted", func() bool {
		left, err := os.ReadDir(root)
		return err == nil && len(left) == 0
	})
}
