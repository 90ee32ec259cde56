package main

import (
	"os"
	"os/exec"
	"path/filepath"
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

// in runs the program in a folder for temporary files, and returns the TMPDIR of its command.
func in(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--", "sh", "-c", `printf %s "$TMPDIR"; touch "$TMPDIR/kept"; ls -ld "$TMPDIR" | grep -q "^drwx--x--x" && exit 7`)
	cmd.Env = append(os.Environ(), "RAMDISK_RUN=1", "TMPDIR="+dir)
	out, err := cmd.Output()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("ended with %d, want 7: %v", got, err)
	}
	return string(out)
}

func TestFolderAndExitCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := in(t, dir)
	if !strings.HasPrefix(first, dir+"/pawl-check-") {
		t.Errorf("TMPDIR is %s, want a folder in %s", first, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if again := in(t, dir); again != first {
		t.Errorf("TMPDIR is %s, and then %s", first, again)
	}
	if err := os.MkdirAll(filepath.Join(first, "of another"), 0o700); err != nil {
		t.Fatal(err)
	}
	if beside := in(t, dir); filepath.Dir(beside) != dir || beside == first {
		t.Errorf("TMPDIR is %s, beside one that is used", beside)
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
