package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const fillingLoad = `name: fills
files: [{name: new}]
mix: [{operation: create, files: new, block: 4KiB}]
rate: 200
duration: 1m
interval: 100ms
start: {delay: 50ms}
`

const steadyLoad = `name: steady
files: [{name: data, count: 1, size: 4KiB}]
mix: [{operation: read}]
rate: 100
duration: 1m
interval: 100ms
start: {delay: 50ms}
`

// TestLoadAgentDataDiskFull: a disk that gets full under the load ends the run with an error that says
// so, and what was measured is kept. The agent deletes what it has created, and goes on (L5).
func TestLoadAgentDataDiskFull(t *testing.T) {
	t.Parallel()
	d, b := newSmallDisk(t), newLoadBench(t)
	b.write("fills.yaml", fillingLoad)
	root, want := d.dir, "no space left on device"
	if !d.mounted { // the agent's own limit stands for the disk
		root, want = d.dir+":200KiB", "the run would exceed what the agent allows it"
	}
	address := b.serve("--listen", "unix:"+b.path("socket"), "--root", root, "--state-dir", b.path("state"))
	code, printed := b.pawl("load", "run", "fills.yaml", "--agents", address, "--out", "full")
	if code != codeFailed || !strings.Contains(printed, want) || !strings.Contains(printed, "errors: create no_space 1") {
		t.Errorf("exit code %d, want %d and %q:\n%s", code, codeFailed, want, printed)
	}
	if _, err := os.Stat(b.path("full/agents/a1/result.pb")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, "*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if code, printed := b.pawl("load", "run", "brief.yaml", "--agents", address); code != codeOK {
		t.Errorf("the next run: exit code %d\n%s", code, printed)
	}
}

// TestLoadAgentStateDiskFull: an agent that cannot keep what it measures ends the run, and says why; the
// result has what it had sent until then. It deletes what it has created, and goes on when there is room (L5).
func TestLoadAgentStateDiskFull(t *testing.T) {
	t.Parallel()
	d, b := newSmallDisk(t), newLoadBench(t)
	b.write("steady.yaml", steadyLoad)
	if err := os.Mkdir(b.path("root"), 0o700); err != nil {
		t.Fatal(err)
	}
	address := b.serve("--listen", "unix:"+b.path("socket"), "--root", b.path("root"), "--state-dir", filepath.Join(d.dir, "state"))
	type ending struct {
		code    int
		printed string
	}
	ended := make(chan ending, 1)
	go func() {
		code, printed := b.pawl("load", "run", "steady.yaml", "--agents", address, "--out", "full")
		ended <- ending{code, printed}
	}()
	b.agent.until("the run has results", func() bool {
		found, _ := filepath.Glob(filepath.Join(d.dir, "state", "results", "*"))
		if len(found) == 0 {
			return false
		}
		info, err := os.Stat(found[0])
		return err == nil && info.Size() > 0
	})
	d.fill(b.agent.Process.Pid)
	var e ending
	select {
	case e = <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the run goes on")
	}
	if e.code != codeFailed || !regexp.MustCompile(`error: agent \S+ .*(no space left on device|file too large)`).MatchString(e.printed) {
		t.Errorf("exit code %d, want %d:\n%s", e.code, codeFailed, e.printed)
	}
	if !strings.Contains(e.printed, "partial: a1: there is no result; its figures are of the ") {
		t.Errorf("the end of the run:\n%s", e.printed)
	}
	if left, _ := filepath.Glob(b.path("root/*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	d.free(b.agent.Process.Pid)
	if code, printed := b.pawl("load", "run", "brief.yaml", "--agents", address); code != codeOK {
		t.Errorf("the next run: exit code %d\n%s", code, printed)
	}
}
