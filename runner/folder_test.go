package runner

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
