package programs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// quick is a probe that a test need not wait for.
func quick(p spec.Probe) *spec.Probe {
	p.Interval, p.Timeout, p.Successes, p.Failures = 20*time.Millisecond, 5*time.Second, 1, 3
	return &p
}

// alive reports whether there is a process that is not a zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return syscall.Kill(pid, 0) == nil && !isProc()
	}
	_, state, _ := bytes.Cut(text, []byte(") "))
	return err == nil && !bytes.HasPrefix(state, []byte("Z"))
}

func isProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// (S14) A web server is ready when it responds, is restarted when it is killed, and is
// gone after the stop.
func TestWebServer(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	p := testProgram("web", "serve "+address)
	p.Ready = quick(spec.Probe{HTTP: "http://" + address + "/"})
	p.Alive = quick(spec.Probe{TCP: address})
	p.Restart.Base = time.Millisecond
	h := newFixture(t, Config{}, p)
	s := h.in("web", running)
	if s.PID == 0 || s.Starts != 1 || len(s.Why) != 0 || s.Wanted != "running" || s.Probes[0].What != "GET http://"+address+"/" {
		t.Errorf("service: %+v", s)
	}
	h.printed("web", "serving")
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = h.until("web", "running again", func(s control.Service) bool { return s.State == running && s.Starts == 2 })
	if r := h.stop(); len(r.Left) != 0 {
		t.Errorf("left: %+v", r.Left)
	}
	if alive(s.PID) {
		t.Errorf("pid %d is alive", s.PID)
	}
	if s := h.in("web", stopped); s.PID != 0 || s.Exit != "exit code 0" {
		t.Errorf("service: %+v", s)
	}
}

// (S14) Redirects are not followed, and 404 is a failure.
func TestHTTPProbe(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	web := testProgram("web", "serve "+address)
	web.Ready = quick(spec.Probe{HTTP: "http://" + address + "/missing"})
	h := newFixture(t, Config{}, web)
	s := h.until("web", "asked", func(s control.Service) bool {
		return len(s.Probes) == 1 && s.Probes[0].Error == "status 404 Not Found"
	})
	want := []string{"it is not ready yet: GET http://" + address + "/missing: status 404 Not Found"}
	if diff := gocmp.Diff(want, s.Why); s.State != starting || diff != "" {
		t.Errorf("%s, why (-want +got):\n%s", s.State, diff)
	}
	other := *web
	other.Ready = quick(spec.Probe{HTTP: "http://" + address + "/redirect"})
	if d := h.apply(&other); len(d) != 1 || !slices.Equal(d[0].Keys, []string{"ready"}) {
		t.Errorf("differences: %+v", d)
	}
	if now := h.in("web", running); now.PID != s.PID {
		t.Error("it was started again for the sake of its probe")
	}
}

// (S14) each kind of probe makes a program ready; what it says of itself is shown.
func TestProbes(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	self := testProgram("", "").Command[0]
	tests := map[string]struct {
		does string
		of   spec.Probe
	}{
		"tcp":     {"serve " + address, spec.Probe{TCP: address}},
		"log":     {"wait", spec.Probe{Log: regexp.MustCompile("^wait.ng$")}},
		"notify":  {"notify STATUS=warm READY=1", spec.Probe{Notify: true}},
		"command": {"wait", spec.Probe{Command: []string{"/bin/sh", "-c", "test $PAWL_SERVICE = command"}}},
	}
	var all []*spec.Program
	for id, tt := range tests {
		p := testProgram(id, tt.does)
		p.Ready = quick(tt.of)
		all = append(all, p)
	}
	hangs := testProgram("hangs", "wait") // in its probe, which ignores SIGTERM and has a child
	hangs.Ready = quick(spec.Probe{Command: []string{"/usr/bin/env", "PROGRAMS_TEST=slow", self}})
	hangs.Ready.Timeout = 100 * time.Millisecond
	mute := testProgram("mute", "notify STATUS=mute")
	mute.Ready = quick(spec.Probe{Notify: true})
	h := newFixture(t, Config{}, append(all, hangs, mute)...)
	for id := range tests {
		h.in(id, running)
	}
	if s := h.until("notify", "warm", func(s control.Service) bool { return s.Status != "" }); s.Status != "warm" {
		t.Errorf("status: %q", s.Status)
	}
	s := h.until("hangs", "late", func(s control.Service) bool { return len(s.Probes) > 0 && s.Probes[0].Streak > 1 })
	if s.State != starting || s.Probes[0].Error != "no response within 100ms" {
		t.Errorf("hangs: %+v", s)
	}
	if s := h.until("mute", "mute", func(s control.Service) bool { return s.Status == "mute" }); s.State != starting {
		t.Errorf("mute: %+v", s)
	}
	if r := h.stop(); len(r.Left) != 0 {
		t.Errorf("left: %+v", r.Left)
	}
}

// (S14) A program that stops sending WATCHDOG=1 is ended and restarted.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	p := testProgram("dog", "notify READY=1 WATCHDOG=1")
	p.Ready, p.Alive = quick(spec.Probe{Notify: true}), quick(spec.Probe{Notify: true})
	p.Alive.Timeout = 300 * time.Millisecond
	p.Restart.Burst, p.Restart.Base = 1, time.Millisecond
	h := newFixture(t, Config{}, p)
	s := h.until("dog", "failed, and told", func(s control.Service) bool { return s.State == failed && s.Escalated })
	want := "1 restart within 5m: its alive probe fails: message to $NOTIFY_SOCKET: no WATCHDOG=1 within 300ms; exit code 0"
	if s.Reason != want || s.Starts != 2 {
		t.Errorf("service: %+v", s)
	}
}

// (S14) A program that ignores SIGTERM is killed after its grace.
func TestDeafProgram(t *testing.T) {
	t.Parallel()
	p := testProgram("deaf", "deaf")
	p.Stop.Grace = 100 * time.Millisecond
	h := newFixture(t, Config{}, p)
	h.printed("deaf", "deaf")
	h.order("deaf", control.Stop)
	if s := h.in("deaf", stopped); s.Exit != "killed by SIGKILL" || s.Reason != "stopped by cli:alice: deploy" || s.Wanted != "stopped" || s.By != "cli:alice" {
		t.Errorf("service: %+v", s)
	}
}

// (S14) what a program leaves in a session of its own is ended with it.
func TestDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t, Config{}, testProgram("daemon", "daemon"))
	h.printed("daemon", "deaf\n")
	said := h.printed("daemon", "waiting\n") // the parent and its child print side by side
	child, _ := strconv.Atoi(regexp.MustCompile(`daemon (\d+)`).FindStringSubmatch(said)[1])
	h.order("daemon", control.Stop)
	h.in("daemon", stopped)
	if alive(child) {
		t.Errorf("pid %d is alive", child)
	}
}

// (S14) a program that crashes again and again has failed after the burst; a start
// gives it another one. An exit code may mean that there is no use in that.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	loop := testProgram("loop", "exit 3")
	loop.Restart.Base, loop.Restart.Burst = time.Millisecond, 3
	useless := testProgram("useless", "exit 78")
	useless.Restart.PermanentExitCodes = []int{64, 78}
	missing := testProgram("missing", "wait")
	missing.Command = []string{"/nowhere/to/be/found"}
	h := newFixture(t, Config{}, loop, useless, missing)
	if s := h.in("loop", failed); s.Starts != 4 || s.Reason != "3 restarts within 5m: exit code 3" {
		t.Errorf("loop: %+v", s)
	}
	h.order("loop", control.Start)
	h.until("loop", "tried again", func(s control.Service) bool { return s.State == failed && s.Starts == 8 })
	s := h.in("useless", failed)
	want := []string{"exit code 78 is permanent"}
	if diff := gocmp.Diff(want, s.Why); s.Starts != 1 || !s.Startable || diff != "" {
		t.Errorf("useless: %d starts, startable %v, why (-want +got):\n%s", s.Starts, s.Startable, diff)
	}
	if s := h.in("missing", failed); s.Starts != 0 || !strings.Contains(s.Reason, "/nowhere/to/be/found") {
		t.Errorf("missing: %+v", s)
	}
}

// (S14) a program that prints without end is not held up, and its files stay within
// their limits.
func TestFlood(t *testing.T) {
	t.Parallel()
	p := testProgram("flood", "flood")
	p.Log = spec.Log{File: filepath.Join(t.TempDir(), "f.log"), MaxSize: 1 << 20, MaxFiles: 2}
	var mu sync.Mutex
	lines := 0
	h := newFixture(t, Config{Printed: func(id, stream string, line []byte) {
		mu.Lock()
		defer mu.Unlock()
		lines++
		if stream != "stdout" || len(line) != 99 && lines <= 50_000 {
			t.Errorf("line %d of %s: %q", lines, stream, line)
		}
	}}, p)
	h.printed("flood", "the end\n")
	h.order("flood", control.Stop)
	h.in("flood", stopped)
	files, _ := filepath.Glob(p.Log.File + "*")
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > p.Log.MaxSize {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(files) != 3 || lines != 50_002 {
		t.Errorf("%d files, %d lines", len(files), lines)
	}
}

// (S14) a program has a clean environment: what is usual, what is passed on, its own,
// and Pawl's.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := testProgram("env", "environment")
	p.Env["OWN"] = "own"
	p.Pass = []string{"GIVEN_*"}
	state := folder(t)
	h := newFixture(t, Config{State: state, Environ: func() []string {
		return []string{"PATH=/bin", "HOME=/h", "LC_TIME=C", "GIVEN_A=a", "SECRET=s", "PAWL_KEEPER=other"}
	}}, p)
	said := strings.Fields(h.printed("env", "waiting"))
	want := []string{"GIVEN_A=a", "HOME=/h", "LC_TIME=C", "OWN=own", "PATH=/bin", "PAWL_KEEPER=" + state + "//env", "PAWL_SERVICE=env", "PROGRAMS_TEST=environment", "waiting"}
	slices.Sort(said)
	if diff := gocmp.Diff(want, said); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// (S10, S14) five in a chain come up in order and are stopped in reverse, each when
// the one before it is gone; none is degraded or started again meanwhile.
func TestChain(t *testing.T) {
	t.Parallel()
	var chain []*spec.Program
	for i := range 5 {
		p := testProgram(fmt.Sprintf("s%d", i), "wait")
		p.Ready = quick(spec.Probe{Log: regexp.MustCompile("waiting")})
		if i > 0 {
			p.Needs = []spec.Need{{ID: fmt.Sprintf("s%d", i-1), Condition: spec.Ready}}
		}
		chain = append(chain, p)
	}
	h := newFixture(t, Config{}, chain...)
	h.in("s4", running)
	if r := h.stop(); len(r.Left) != 0 {
		t.Errorf("left: %+v", r.Left)
	}
	var before pawl.Timestamp // when the one that needs it had stopped
	for i := 4; i >= 0; i-- {
		moves, err := h.History(context.Background(), chain[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		moves = slices.DeleteFunc(moves, func(m pawl.Transition) bool { return *cmp.Or(m.From, &m.To) == m.To })
		events := make([]machine.Event, len(moves))
		for n, m := range moves {
			events[n] = m.Event
		}
		want := []machine.Event{lifecycle.ServiceStart, lifecycle.ServiceHasStarted, lifecycle.ServiceStop, lifecycle.ServiceHasStopped}
		if diff := gocmp.Diff(want, events); diff != "" {
			t.Fatalf("%s: moves (-want +got):\n%s", chain[i].ID, diff)
		}
		if asked := moves[2].At; asked < before {
			t.Errorf("%s is asked to stop at %v, and what needs it has stopped at %v", chain[i].ID, asked, before)
		}
		before = moves[3].At
	}
}

// (S14) PostgreSQL itself: made by a program that completes, ready when it responds,
// back after it was killed, and stopped by the signal that it wants.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	bin, err := pgtest.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	host, port, _ := net.SplitHostPort(freeAddress(t))
	data := filepath.Join(dir, "data")
	as := func(p *spec.Program) *spec.Program {
		p.Dir, p.Env = dir, nil
		if os.Getuid() == 0 {
			p.User = "postgres"
			u, err := user.Lookup(p.User)
			if err != nil {
				t.Fatal(err)
			}
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			if err := os.Chown(dir, uid, gid); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	initdb := as(testProgram("initdb", ""))
	initdb.Command = []string{filepath.Join(bin, "initdb"), "--no-sync", "-A", "trust", "-U", "postgres", "--locale", "C", "-D", data}
	initdb.Restart.Policy = spec.Never
	db := as(testProgram("db", ""))
	db.Command = []string{filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=" + host, "-c", "unix_socket_directories=", "-c", "fsync=off"}
	db.Needs = []spec.Need{{ID: "initdb", Condition: spec.Completed}}
	db.Ready = quick(spec.Probe{Command: []string{filepath.Join(bin, "pg_isready"), "-q", "-h", host, "-p", port}})
	db.Stop.Signal = "SIGINT"
	db.Restart.Base = 100 * time.Millisecond
	app := as(testProgram("app", ""))
	app.Command = []string{filepath.Join(bin, "psql"), "-h", host, "-p", port, "-U", "postgres", "-Atc", "select 'it ' || 'works'"}
	app.Needs = []spec.Need{{ID: "db", Condition: spec.Ready}}
	app.Restart.Policy = spec.OnFailure
	h := newFixture(t, Config{}, initdb, db, app)
	h.in("app", completed)
	h.printed("app", "it works")
	s := h.in("db", running)
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.until("db", "running again", func(now control.Service) bool { return now.State == running && now.Starts == 2 })
	if r := h.stop(); len(r.Left) != 0 {
		t.Errorf("left: %+v", r.Left)
	}
	if s := h.in("db", stopped); s.Exit != "exit code 0" {
		t.Errorf("db: %+v", s)
	}
}

// manageForever is a manager in a process of its own: "manager STATE".
func manageForever(args []string) {
	j, err := supervisor.OpenFileJournal(filepath.Join(args[0], "journal"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	k, err := New(Config{Name: "killed", State: args[0], Journal: j})
	if err == nil {
		_, err = k.Apply(context.Background(), &spec.File{Programs: picked()}, pawl.Change{})
	}
	if err == nil {
		_, err = k.Run(context.Background())
	}
	fmt.Println(err)
}

func picked() []*spec.Program {
	p := testProgram("web", "daemon")
	return []*spec.Program{p}
}

// (S12, S14) The manager is killed; the next one kills what it left, and continues.
func TestKilledManager(t *testing.T) {
	t.Parallel()
	state := folder(t)
	first := exec.Command(testProgram("", "").Command[0])
	first.Env = append(os.Environ(), "PROGRAMS_TEST=manager "+state)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // should the test fail before the next manager does it
		_, _ = process.Sweep(context.Background(), markName+"="+state+"/")
	})
	var said []byte
	pids := regexp.MustCompile(`daemon (\d+)\n`)
	if !eventually(func() bool {
		said, _ = os.ReadFile(filepath.Join(state, "web.log"))
		return pids.Match(said) && bytes.Contains(said, []byte("deaf\n")) // in either order
	}) {
		t.Errorf("it has printed %q", said)
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if t.Failed() {
		return
	}
	child, _ := strconv.Atoi(string(pids.FindSubmatch(said)[1]))
	if !alive(child) {
		t.Error("the child has ended with the manager")
	}
	j, err := supervisor.OpenFileJournal(filepath.Join(state, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	h := newFixture(t, Config{State: state, Journal: j}, picked()...)
	h.until("web", "started again", func(s control.Service) bool { return s.State == running && s.Starts == 1 })
	if alive(child) {
		t.Errorf("pid %d is alive", child)
	}
	moves, err := h.History(context.Background(), "web")
	if err != nil || !slices.ContainsFunc(moves, func(m pawl.Transition) bool { return m.Reason == interrupted }) {
		t.Errorf("history: %+v, %v", moves, err)
	}
	h.stop()
}

// eventually polls ok until testTimeout.
func eventually(ok func() bool) bool {
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	deadline := time.Now().Add(testTimeout)
	for range ticks.C {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return false
}

// (S14) a second signal: what still runs is killed at once.
func TestForce(t *testing.T) {
	t.Parallel()
	p := testProgram("deaf", "deaf")
	p.Stop.Grace = time.Hour
	h := newFixture(t, Config{}, p)
	h.printed("deaf", "deaf")
	s := h.in("deaf", running)
	ended := make(chan supervisor.Report)
	go func() { ended <- h.stop() }()
	h.in("deaf", stopping)
	h.Force()
	if r := <-ended; len(r.Left) != 0 || alive(s.PID) {
		t.Errorf("left: %+v", r.Left)
	}
}
