package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain is the program itself when a test runs this binary as such.
func TestMain(m *testing.M) {
	if os.Getenv("RAMDISK_RUN") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFolderAndExitCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "--", "sh", "-c", `echo "$TMPDIR"; touch "$TMPDIR/kept" && exit 7`)
	cmd.Env = append(os.Environ(), "RAMDISK_RUN=1", "TMPDIR="+dir)
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("ended with %d, want 7: %v", got, err)
	}
	if !strings.HasPrefix(string(out), dir+"/pawl-check-") {
		t.Errorf("TMPDIR is %s, want a folder in %s", out, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoCommand(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RAMDISK_RUN=1")
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != 2 {
		t.Errorf("ended with %d, want 2", got)
	}
}
