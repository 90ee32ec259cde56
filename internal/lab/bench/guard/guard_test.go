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
	"syscall"
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
	return repositoryOf(t, pawl, strings.Replace(pawl, "slowdown = 1.0", "slowdown = 1.15", 1))
}

func repositoryOf(t *testing.T, base, head string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/guarded\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "cmd/pawl/main.go"), base)
	command(t, dir, "git", "init", "-q", "-b", "main")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "base")
	write(t, filepath.Join(dir, "cmd/pawl/main.go"), head)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
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
// one that the commit does not know. The exit code, the table and the JSON say so. A hook of git
// of another repository may have started it.
func TestASlowerTreeIsFound(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	report := filepath.Join(t.TempDir(), "report.json")
	cmd, tmp := process(t, dir, "-rounds", "4", "-json", report)
	cmd.Env = append(cmd.Env, "GIT_DIR=/nowhere", "GIT_INDEX_FILE=/nowhere/index")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitSlower {
		t.Fatalf("%v, want the exit code %d\n%s%s", err, exitSlower, out, stderr(err))
	}
	for _, want := range []string{"head: working tree (go1.", "), base: ", "(HEAD, go1.", "not measured: full, sustained load: base: ", "no workload has this in its name", "slower"} {
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

// TestFailuresAreNotIgnored: only an older program may not know a workload. A crash and a refused
// connection have the same exit code.
func TestFailuresAreNotIgnored(t *testing.T) {
	t.Parallel()
	crash := strings.Replace(pawl, "\tms := ", "\tif slowdown > 0 {\n\t\tpanic(\"broken\")\n\t}\n\tms := ", 1)
	knows := strings.Replace(pawl, `os.Args, "sustained"`, `os.Args, "nonsense"`, 1)
	refused := strings.Replace(pawl, "--only sustained: no workload has this in its name", "--postgres: connection refused", 1)
	for _, tt := range []struct {
		name, base, head, want string
	}{
		{"head crashes", pawl, crash, "error: head: [bench --only drain "},
		{"head crashes", pawl, crash, "panic: broken"},
		{"base crashes", crash, pawl, "panic: broken"},
		{"head does not know a workload", knows, pawl, "no workload has this in its name"},
		{"the connection of base is refused", refused, knows, "--postgres: connection refused"},
		{"base knows none of them", pawl, knows, "error: nothing was measured"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			only := "sustained"
			if tt.base == crash || tt.head == crash {
				only = "no-op jobs, drain"
			}
			dir := repositoryOf(t, tt.base, tt.head)
			cmd, tmp := process(t, dir, "-rounds", "4", "-only", only)
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr(err), tt.want) || strings.Contains(stderr(err), "rounds") {
				t.Errorf("%v, want the exit code %d and %q\n%s%s", err, exitFailed, tt.want, out, stderr(err))
			}
			nothingLeft(t, dir, tmp)
		})
	}
}

// TestVersionsOfGo: the base is built with the version that its go.mod names if it is another one
// than that of the working tree.
func TestVersionsOfGo(t *testing.T) {
	t.Parallel()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	write(t, filepath.Join(bin, "go"), "#!/bin/sh\necho \"$GOTOOLCHAIN\" >> "+bin+"/log\nGOTOOLCHAIN=local exec "+real+" \"$@\"\n")
	for _, tt := range []struct{ head, want string }{
		{"go 1.26", "local\nlocal\n"},
		{"go 1.25.3", "go1.26.0\nlocal\n"},
		{"go 1.26\n\ntoolchain go1.26.1", "go1.26.0\nlocal\n"},
	} {
		dir := repository(t)
		write(t, filepath.Join(dir, "go.mod"), "module example.com/guarded\n\n"+tt.head+"\n")
		write(t, filepath.Join(bin, "log"), "")
		cmd, _ := process(t, dir, "-rounds", "1", "-only", "drain")
		cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "GOTOOLCHAIN=local")
		_, err := cmd.Output()
		if got, e := os.ReadFile(filepath.Join(bin, "log")); e != nil || string(got) != tt.want {
			t.Errorf("%s: GOTOOLCHAIN was %q, %v; want %q\n%s", tt.head, got, e, tt.want, stderr(err))
		}
	}
}

// TestAfterAKill: the next guard removes what one that was killed has left.
func TestAfterAKill(t *testing.T) {
	t.Parallel()
	idle := t.TempDir()
	write(t, filepath.Join(idle, "go"), "#!/bin/sh\nexec sleep 3600\n")
	dir := repository(t)
	cmd, tmp := process(t, dir, "-base", "main")
	cmd.Env = append(cmd.Env, "PATH="+idle+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	startUntil(t, cmd, "build base")
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if trees := command(t, dir, "git", "worktree", "list"); strings.Count(trees, "\n") != 2 {
		t.Fatalf("want a work tree that is left, have\n%s", trees)
	}
	next, _ := process(t, dir, "-base", "nowhere")
	next.Env = append(next.Env, "TMPDIR="+tmp)
	if _, err := next.Output(); !strings.Contains(stderr(err), "no such revision") {
		t.Errorf("%v: %s", err, stderr(err))
	}
	nothingLeft(t, dir, tmp)
}

// TestALivingGuardIsLeftAlone: a guard leaves alone what another one uses.
func TestALivingGuardIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	cmd, tmp := process(t, dir, "-base", "main")
	cmd.Env = append(cmd.Env, "PAWL_HANGS=1")
	rest := startUntil(t, cmd, "warm up")
	next, _ := process(t, dir, "-base", "nowhere")
	next.Env = append(next.Env, "TMPDIR="+tmp)
	_ = next.Run()
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 1 {
		t.Errorf("%v, %v: want the folder of the other guard", left, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(rest)
	_ = cmd.Wait()
	nothingLeft(t, dir, tmp)
}

// startUntil starts a guard, and returns what it writes to standard error after a line with a text.
func startUntil(t *testing.T, cmd *exec.Cmd, text string) io.Reader {
	t.Helper()
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), text) {
	}
	return out
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
	write(t, filepath.Join(idle, "go"), "#!/bin/sh\nexec sleep 3600\n")
	for _, tt := range []struct {
		name, env, at string
		signal        os.Signal
	}{
		{"building", "PATH=" + idle + ":" + os.Getenv("PATH"), "build base", os.Interrupt},
		{"running", "PAWL_HANGS=1", "warm up", os.Interrupt},
		{"the terminal was closed", "PAWL_HANGS=1", "warm up", syscall.SIGHUP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t)
			cmd, tmp := process(t, dir, "-base", "main")
			cmd.Env = append(cmd.Env, tt.env)
			out := startUntil(t, cmd, tt.at)
			if err := cmd.Process.Signal(tt.signal); err != nil {
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
