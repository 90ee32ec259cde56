package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestQueueFile: who waits is seen by others, and not by itself; a file that was removed, or a folder that
// was made again, is found again by all.
func TestQueueFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pawl.db.locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := newQueueFile(filepath.Join(dir, waitingFile), 0o600), newQueueFile(filepath.Join(dir, waitingFile), 0o600)
	defer a.close()
	defer b.close()
	check := func(when string) {
		t.Helper()
		if a.others() || b.others() {
			t.Errorf("%s: somebody waits", when)
		}
		leave := b.enter()
		if !a.others() {
			t.Errorf("%s: nobody waits", when)
		}
		if leave(); a.others() {
			t.Errorf("%s: somebody waits who has left", when)
		}
	}
	check("at first")
	if kept := a.file; kept == nil {
		t.Error("the file is not open")
	} else if a.others(); a.file != kept {
		t.Error("the file was opened again")
	}
	if err := os.Remove(a.path); err != nil {
		t.Fatal(err)
	}
	check("without the file")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b.enter()()
	if a.others() {
		t.Error("without the folder: somebody waits")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	check("with a new folder")
}

// TestQueueFileInAChild: a child that still has the file of who waited keeps nobody waiting.
func TestQueueFileInAChild(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), waitingFile)
	a, b := newQueueFile(path, 0o600), newQueueFile(path, 0o600)
	defer a.close()
	leave := b.enter()
	inherited, err := syscall.Dup(int(b.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	leave()
	b.close()
	if a.others() {
		t.Error("somebody waits")
	}
}
