package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// TestMain is the program itself when a test runs this binary as such.
func TestMain(m *testing.M) {
	if os.Getenv("PGTEST_RUN") == "1" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// program runs the program with a folder of its own for temporary files.
func program(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(dir); up != filepath.Clean(os.TempDir()) && up != "/"; up = filepath.Dir(up) {
		_ = os.Chmod(up, 0o755) // for the account of the server
	}
	cmd := exec.Command(os.Args[0], args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, pgtest.Variable+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PGTEST_RUN=1", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd, dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestExitCodeAndVariable(t *testing.T) {
	t.Parallel()
	cmd, dir := program(t, "--", "sh", "-c", `ls -d "$TMPDIR"/pawl-postgres-* || exit 2; case "$PAWL_TEST_POSTGRES" in postgres://*) exit 7;; esac; exit 1`)
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v, want 7", err)
	}
	empty(t, dir)
}

func TestASignalEndsTheCommandAndTheCluster(t *testing.T) {
	t.Parallel()
	cmd, dir := program(t, "--", "sh", "-c", "echo started; exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %d", got)
	}
	empty(t, dir)
}

func TestNoCommand(t *testing.T) {
	t.Parallel()
	cmd, _ := program(t)
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 2 {
		t.Errorf("ended with %d, want 2", got)
	}
}
