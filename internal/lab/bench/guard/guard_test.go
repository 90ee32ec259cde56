package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the program itself when a test runs this binary as such.
func TestMain(m *testing.M) {
	if os.Getenv("GUARD_TEST") == "1" {
		main()
	}
	os.Exit(m.Run())
}

// pawl is a program that prints what pawl bench -o json does: a job takes a millisecond, give or
// take a percent, and as much of the processor. It does not know the sustained load.
const pawl = `package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

const slowdown = 1.0

func main() {
	if os.Getenv("PAWL_HANGS") != "" {
		time.Sleep(time.Hour)
	}
	if slices.Contains(os.Args, "sustained") {
		fmt.Fprintln(os.Stderr, "progress\nerror: --only sustained: no workload has this in its name\nhint: see --help")
		os.Exit(2)
	}
	ms := slowdown * (1 + float64(time.Now().UnixNano()%1000)/50_000)
	fmt.Printf("{\"results\":[{\"jobs\":1000,\"seconds\":%f,\"per_job\":{\"client_cpu_us\":%f}}]}", ms, 1000*ms)
}
`

// repository is one whose commit has that program, and whose working tree has one that takes
// 15 percent longer.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/guarded\n\ngo 1.26\n")
	write("cmd/pawl/main.go", pawl)
	command(t, dir, "git", "init", "-q", "-b", "main")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "base")
	write("cmd/pawl/main.go", strings.Replace(pawl, "slowdown = 1.0", "slowdown = 1.15", 1))
	return dir
}

func command(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// process returns the guard in that repository, and its folder for temporary files.
func process(t *testing.T, repository string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	tmp := t.TempDir()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir = repository
	cmd.Env = append(os.Environ(), "GUARD_TEST=1", "PAWL_TEST_POSTGRES=", "TMPDIR="+tmp)
	return cmd, tmp
}

// nothingLeft checks that the work tree of the base and all temporary files are gone.
func nothingLeft(t *testing.T, repository, tmp string) {
	t.Helper()
	if trees := command(t, repository, "git", "worktree", "list"); strings.Count(trees, "\n") != 1 {
		t.Errorf("work trees:\n%s", trees)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestASlowerTreeIsFound: it is built, and the commit too; every workload is slower, but for the
// one that the commit does not know. The exit code, the table and the JSON say so.
func TestASlowerTreeIsFound(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	report := filepath.Join(t.TempDir(), "report.json")
	cmd, tmp := process(t, dir, "-rounds", "4", "-json", report)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitSlower {
		t.Fatalf("%v, want the exit code %d\n%s%s", err, exitSlower, out, stderr(err))
	}
	for _, want := range []string{"head: working tree, base: ", "(HEAD)", "not measured: full, sustained load: base: ", "no workload has this in its name", "slower"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	var r Report
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Comparisons) != 2*(len(workloads)-1) {
		t.Fatalf("%v, %d comparisons", err, len(r.Comparisons))
	}
	for _, c := range r.Comparisons {
		if c.Verdict != Slower || c.Ratio < 1.1 || c.Ratio > 1.2 || c.Rounds != 4 {
			t.Errorf("%+v", c)
		}
	}
	nothingLeft(t, dir, tmp)
}

// TestTheSameBinaryTwice: nothing is slower, and the exit code is 0. With one round there is no
// verdict, and that is an error.
func TestTheSameBinaryTwice(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	binary := filepath.Join(t.TempDir(), "pawl")
	command(t, dir, "go", "build", "-o", binary, "./cmd/pawl")
	cmd, tmp := process(t, dir, "-rounds", "4", "-base-binary", binary, "-head-binary", binary)
	out, err := cmd.Output()
	if err != nil || strings.Contains(string(out), Slower) || strings.Count(string(out), Same) != 2*(len(workloads)-1) {
		t.Errorf("%v\n%s%s", err, out, stderr(err))
	}
	nothingLeft(t, dir, tmp)
	cmd, _ = process(t, dir, "-rounds", "1", "-base-binary", binary, "-head-binary", binary)
	out, err = cmd.Output()
	if !strings.Contains(stderr(err), "too few rounds") || !strings.Contains(string(out), TooFew) {
		t.Errorf("%v\n%s%s", err, out, stderr(err))
	}
}

func stderr(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// TestInterrupted: while the base is built and while a program runs, an interruption ends the
// guard and what it started, and nothing is left.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	idle := t.TempDir() // a go command that takes long
	if err := os.WriteFile(filepath.Join(idle, "go"), []byte("#!/bin/sh\nexec sleep 3600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, env, at string }{
		{"building", "PATH=" + idle + ":" + os.Getenv("PATH"), "build base"},
		{"running", "PAWL_HANGS=1", "warm up"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t)
			cmd, tmp := process(t, dir, "-base", "main")
			cmd.Env = append(cmd.Env, tt.env)
			out, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), tt.at) {
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			rest, _ := io.ReadAll(out)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed {
				t.Errorf("%v, want the exit code %d: %s", err, exitFailed, rest)
			}
			if !strings.HasSuffix(string(rest), "error: interrupted\n") {
				t.Errorf("want error: interrupted, have %s", rest)
			}
			nothingLeft(t, dir, tmp)
		})
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0"}, "-rounds 0: want at least 1"},
		{[]string{"-limit", "-1s"}, "-limit -1s: want more than 0"},
		{[]string{"-only", "nonsense"}, "-only nonsense: no workload"},
		{[]string{"-base-binary", "x"}, "want both or none"},
		{[]string{"main"}, "main: want no argument"},
		{[]string{"-base", "nowhere"}, "-base nowhere: no such revision"},
	} {
		if _, err := run(t.Context(), tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.want)
		}
	}
}
