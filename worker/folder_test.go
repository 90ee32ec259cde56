package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSweep leaves a folder as a killed worker does, with a process that is still
// at work in it, and runs a command beside a folder that is in use (T10).
func TestSweep(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	left := filepath.Join(temp, "pawl-attempt-left")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	stray := exec.Command("sleep", "600")
	stray.Env = []string{"PATH=" + os.Getenv("PATH"), "PAWL_OUTPUT=" + left + "/output.json"}
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	inUse, err := makeFolder(temp, newTask(t, script("true")))
	if err != nil {
		t.Fatal(err)
	}
	defer inUse.remove(nil)

	if r := Command(CommandConfig{TempDir: temp})(t.Context(), newTask(t, script("true"))); r.Failure != nil {
		t.Fatal(r.Failure)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the folder that was left behind: %v; want it gone", err)
	}
	if _, err := os.Stat(inUse.path); err != nil {
		t.Errorf("the folder in use: %v; want it there", err)
	}
	if err := stray.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process that was left behind ended with %v; want it killed", err)
	}
}

// TestSweepOfStrangeNames: a pipe or a link with the name of a folder of an attempt,
// which others can make in a folder for temporary files, neither blocks a worker nor
// leads it to a folder of its user.
func TestSweepOfStrangeNames(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	precious := filepath.Join(temp, "precious")
	link := filepath.Join(temp, "pawl-attempt-link")
	err := errors.Join(os.Mkdir(precious, 0o700), os.WriteFile(filepath.Join(precious, "data"), nil, 0o600), os.Symlink(precious, link),
		syscall.Mkfifo(filepath.Join(temp, "pawl-attempt-pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	swept := make(chan struct{})
	go func() { defer close(swept); sweep(temp) }()
	select {
	case <-swept:
	case <-time.After(30 * time.Second):
		t.Fatal("the sweep waits for a writer of the pipe")
	}
	for _, path := range []string{link, filepath.Join(precious, "data")} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}
