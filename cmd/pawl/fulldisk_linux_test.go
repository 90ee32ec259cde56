package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/supervisor"
)

// A smallDisk is a file system that can be full. Where none may be mounted it is the
// supervisor that may write no larger files.
type smallDisk struct {
	*testing.T
	dir     string
	mounted bool
}

func newSmallDisk(t *testing.T) *smallDisk {
	d := &smallDisk{T: t, dir: t.TempDir()}
	d.mounted = syscall.Mount("pawl-test", d.dir, "tmpfs", 0, "size=256k") == nil
	if d.mounted {
		t.Cleanup(func() { _ = syscall.Unmount(d.dir, syscall.MNT_DETACH) })
	}
	return d
}

// fill leaves no room for the history.
func (d *smallDisk) fill(pid int) {
	d.Helper()
	if !d.mounted {
		d.limit(pid, 1)
		return
	}
	f, err := os.Create(filepath.Join(d.dir, "ballast"))
	if err != nil {
		d.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.Fatal(err)
	}
}

// free gives the room back.
func (d *smallDisk) free(pid int) {
	d.Helper()
	if !d.mounted {
		d.limit(pid, unix.RLIM_INFINITY)
	} else if err := os.Remove(filepath.Join(d.dir, "ballast")); err != nil {
		d.Fatal(err)
	}
}

func (d *smallDisk) limit(pid int, size uint64) {
	d.Helper()
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil); err != nil {
		d.Fatal(err)
	}
}

func toldBy(f *os.File) string {
	text, _ := os.ReadFile(f.Name())
	return string(text)
}

const manyMoves = `services:
  web: {command: [sleep, "1000"], restart: {base: 10ms, cap: 10ms, burst: 0}}
  idle: {command: [sleep, "1000"]}
  later: {command: [sleep, "1000"], autostart: false}
`

// On a full disk programs are started again, orders work, and list, show and why say what
// is not recorded, which is once there is room (S12, S14).
func TestSuperviseOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	file, run := filepath.Join(d.dir, "many.yaml"), filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(file, []byte(manyMoves), 0o600); err != nil {
		t.Fatal(err)
	}
	pawl := func(args ...string) *exec.Cmd {
		c := exec.Command(binary(t), args...)
		c.Env = append(os.Environ(), "PAWL_RUNTIME_DIR="+run)
		return c
	}
	say := func(args ...string) string {
		t.Helper()
		out, err := pawl(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	sup := pawl("supervise", file, "--state", filepath.Join(d.dir, "state"), "--watch=false")
	told, err := os.Create(filepath.Join(t.TempDir(), "told"))
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	sup.Stderr = told
	if err := sup.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = sup.Process.Kill()
			_ = sup.Wait()
		}
	}()
	await := func(what, id string, is func(s control.Service) bool) (s control.Service) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for {
			out, err := pawl("service", "show", id, "-o", "json").Output()
			if err == nil {
				s = control.Service{}
				if err := json.Unmarshal(out, &s); err != nil {
					t.Fatal(err)
				}
				if s.State == control.Running && s.PID == 0 {
					t.Errorf("it is listed as running and does not: %+v", s)
				}
				if is(s) {
					return s
				}
			}
			if !sleep.For(ctx, 50*time.Millisecond) {
				t.Fatalf("service %s is not %s: %+v\n%s", id, what, s, toldBy(told))
			}
		}
	}
	runs := func(s control.Service) bool { return s.State == control.Running && s.PID != 0 }
	web := await("running", "web", runs)
	await("running", "idle", runs)

	d.fill(sup.Process.Pid)
	for range 60 { // until the last block of the history is full
		if web.Unrecorded != nil && web.Unrecorded.Moves > 0 {
			break
		}
		if err := syscall.Kill(web.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		last := web.PID
		web = await("running again", "web", func(s control.Service) bool { return runs(s) && s.PID != last })
	}
	if u := web.Unrecorded; u == nil || u.Moves == 0 || u.Error == "" {
		t.Fatalf("unrecorded: %+v", u)
	}
	for _, args := range [][]string{{"list"}, {"show", "web"}, {"why", "web"}} {
		if out := say(append([]string{"service"}, args...)...); !strings.Contains(out, "not recorded") && !strings.Contains(out, "not in its history yet") {
			t.Errorf("%v says nothing of it:\n%s", args, out)
		}
	}
	say("service", "stop", "idle", "web")
	say("service", "start", "later")
	if out := say("service", "history", "idle"); !strings.Contains(out, "stopped") {
		t.Errorf("the history of idle lacks its stop:\n%s", out)
	}

	d.free(sup.Process.Pid)
	for _, id := range []string{"web", "idle", "later"} {
		await("recorded", id, func(s control.Service) bool { return s.Unrecorded == nil || s.Unrecorded.Moves == 0 })
	}
	if err := sup.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := sup.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, toldBy(told))
	}
	j, err := supervisor.OpenFileJournal(filepath.Join(d.dir, "state", "journal.jsonl")) // which checks it
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
