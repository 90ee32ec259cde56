package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/lab/s3test"
	proc "github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/signals"
)

// TestMain ends the database server that tests have used, and removes the program
// that they have built.
func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	builds.remove()
	s3test.Remove()
	os.Exit(code)
}

// path returns PATH with the program in front. It is the program as people have
// it, without the race detector, which takes a multiple of a short command's time.
func path(t *testing.T) string {
	t.Helper()
	return filepath.Dir(binary(t)) + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// TestScripts runs the program itself, as people do.
func TestScripts(t *testing.T) {
	t.Parallel()
	p := scripts(t, "")
	p.Dir = "testdata/script"
	testscript.Run(t, p)
}

// TestScriptsOnPostgres runs those scripts again that are of any database.
func TestScriptsOnPostgres(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hello", "json", "exitcodes", "resume", "interrupt", "cancel", "exec", "dev", "worker", "verbose", "migrate", "outdated",
		"approve", "bothways", "bulk", "pause", "queue", "family", "quota", "retry", "signal", "steps", "schedule", "token", "workflow", "move", "why", "prune", "workdir"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := scripts(t, pgtest.URL(t))
			p.Files = []string{filepath.Join("testdata", "script", name+".txt")}
			testscript.Run(t, p)
		})
	}
}

// scripts returns how scripts are run on a database; "" is a SQLite file of each
// script's own.
func scripts(t *testing.T, database string) testscript.Params {
	t.Helper()
	program := path(t)
	return testscript.Params{
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "cgroup":
				return mayConfine(t), nil
			case "sqlite":
				return database == "", nil
			}
			return false, fmt.Errorf("want linux, cgroup or sqlite")
		},
		Setup: func(e *testscript.Env) error {
			name := database
			if name == "" {
				name = filepath.Join(e.WorkDir, "pawl.db")
			}
			e.Setenv("PATH", program)
			e.Setenv("PAWL_DATABASE", name)
			e.Setenv("PAWL_RUNTIME_DIR", filepath.Join(e.WorkDir, "run"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("USER", "tester")
			s := &spawned{}
			e.Values[spawnedKey{}] = s
			e.Defer(s.end)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":   code,
			"spawn":  spawn,
			"signal": signalTo,
			"reap":   reap,
			"insist": insist,
			"await":  await,
			"vanish": vanish,
			"take":   take,
			"tamper": tamper,
			"url":    url,
			"both":   both,
			"arrive": arrive,
			"ago":    ago,
		},
	}
}

// mayConfine reports whether this process may make control groups.
func mayConfine(t *testing.T) bool {
	own, err := proc.OwnCgroup()
	if err != nil {
		return false
	}
	c, err := proc.OpenCgroup(filepath.Join(own, fmt.Sprintf("pawl-test-%d", os.Getpid())))
	if err != nil {
		t.Logf("no control groups: %v", err)
		return false
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// code CODE COMMAND... runs a command that must end with that exit code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

type spawnedKey struct{}

// spawned are the processes that a script has in the background, by name.
type spawned struct{ byName map[string]*exec.Cmd }

func (s *spawned) end() {
	for _, c := range s.byName {
		if c.ProcessState == nil {
			_ = c.Process.Kill() // it may be gone already
			_ = c.Wait()
		}
	}
}

func processes(ts *testscript.TestScript) *spawned { return ts.Value(spawnedKey{}).(*spawned) }

// passed are the variables that a spawned process gets.
var passed = []string{"PATH", "HOME", "USER", "TMPDIR", "PAWL_DATABASE", "PAWL_WORKSPACE", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "PAWL_RUNTIME_DIR"}

// spawn NAME COMMAND... starts a command in the background. What it prints goes
// to NAME.out and NAME.err.
func spawn(ts *testscript.TestScript, _ bool, args []string) {
	program := args[1]
	if program == "pawl" {
		program = filepath.Join(builds.dir, program)
	}
	c := exec.Command(program, args[2:]...)
	c.Dir = ts.MkAbs(".")
	for _, v := range passed {
		if value := ts.Getenv(v); value != "" {
			c.Env = append(c.Env, v+"="+value)
		}
	}
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	defer errs.Close()
	c.Stdout, c.Stderr = out, errs
	ts.Check(c.Start())
	s := processes(ts)
	if s.byName == nil {
		s.byName = map[string]*exec.Cmd{}
	}
	s.byName[args[0]] = c
	ts.Setenv(strings.ToUpper(args[0])+"_PID", strconv.Itoa(c.Process.Pid))
}

// signal NAME SIGNAL sends INT, TERM, HUP or KILL.
func signalTo(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}
	ts.Check(processes(ts).byName[args[0]].Process.Signal(signals[args[1]]))
}

// insist NAME SIGNAL PATTERN sends a signal again and again, as one that comes
// soon after another is taken for the same, until stderr matches.
func insist(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[2])
	deadline := time.After(30 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if b, err := os.ReadFile(ts.MkAbs(args[0] + ".err")); err == nil && pattern.Match(b) {
			return
		}
		signalTo(ts, false, args[:2])
		select {
		case <-again.C:
		case <-deadline:
			ts.Fatalf("%s did not come within 30 s", strings.Join(args, " "))
		}
	}
}

// reap NAME CODE waits for a spawned process; -1 is one that was killed.
func reap(ts *testscript.TestScript, _ bool, args []string) {
	c := processes(ts).byName[args[0]]
	err := c.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		ts.Check(err)
	}
	if got := c.ProcessState.ExitCode(); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s: exit code %d, want %s\n%s", args[0], got, args[1], ts.ReadFile(args[0]+".err"))
	}
}

// await FILE [PATTERN] waits until there is such a file, and until it matches.
func await(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("")
	if len(args) > 1 {
		pattern = regexp.MustCompile(args[1])
	}
	waitUntil(ts, strings.Join(args, " ")+" did not come", func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(b)
	})
}

// vanish PATTERN waits until there is no such file.
func vanish(ts *testscript.TestScript, _ bool, args []string) {
	waitUntil(ts, args[0]+" did not go", func() bool {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		return len(found) == 0
	})
}

// waitUntil waits until f is true, or fails with the complaint.
func waitUntil(ts *testscript.TestScript, complaint string, f func() bool) {
	deadline := time.After(30 * time.Second)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !f() {
		select {
		case <-poll.C:
		case <-deadline:
			ts.Fatalf("%s within 30 s", complaint)
		}
	}
}

var publicID = regexp.MustCompile(`j_[0-9a-f]{32}`)

// take VARIABLE FILE sets a variable to the first id of a job in a file; stdout
// and stderr are those of the last command. VARIABLE_END is its last 8 digits.
func take(ts *testscript.TestScript, _ bool, args []string) {
	id := publicID.FindString(ts.ReadFile(args[1]))
	if id == "" {
		ts.Fatalf("no id of a job in %s", args[1])
	}
	ts.Setenv(args[0], id)
	ts.Setenv(args[0]+"_END", id[len(id)-8:])
}

// tamper SQL changes the database behind the program's back.
func tamper(ts *testscript.TestScript, _ bool, args []string) {
	c, err := sqlite.OpenConn(ts.Getenv("PAWL_DATABASE"), sqlite.OpenReadWrite)
	ts.Check(err)
	defer func() { ts.Check(c.Close()) }()
	ts.Check(sqlitex.ExecuteTransient(c, args[0], nil))
	if c.Changes() == 0 {
		ts.Fatalf("%s changed nothing", args[0])
	}
}

// here runs the program in this process.
func here(env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &process{
		args: args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv:  func(key string) string { return env[key] },
		exit:    func(code int) { panic(fmt.Sprint("exit ", code)) },
		screen:  console.Screen{Size: func() (int, int) { return 80, 24 }},
		signals: signals.New(func() { panic("exit") }),
	}
	code = p.main()
	return code, out.String(), errs.String()
}
