package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Mkdir(in("open"), 0o700), os.Chmod(in("open"), 0o710), os.WriteFile(in("file"), nil, 0o600),
		os.Mkdir(in("target"), 0o700), os.Symlink(in("target"), in("link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"open":      "may be entered by others: its mode is 0710, want 0700",
		"file":      "is not a folder",
		"link":      "is not a folder",
		"target":    "",
		"new/below": "",
	} {
		var unfit *UnfitError
		err := Make(in(name))
		if want == "" && err != nil || want != "" && (!errors.As(err, &unfit) || unfit.Why != want || unfit.Open != (name == "open")) {
			t.Errorf("Make %s: %v, want %q", name, err, want)
		}
	}
	if info, err := os.Stat(in("new/below")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("a new folder: %v, %v", info.Mode(), err)
	}
	if err := Check(in("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// Whose a folder is counts, whatever its mode.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Chmod(dir, 0o700) != nil || os.Chown(dir, 65534, -1) != nil {
		dir = "/proc/1" // this user may not give folders away, so that one of root's has to do
	}
	if err := Make(dir); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("got %v", err)
	}
}

// TestCreate: the mode is what was asked for under any umask, and a file that is there
// stays as it is. Not parallel: the umask is the process's.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	for _, mask := range []int{0, 0o022, 0o077, 0o277} {
		old := syscall.Umask(mask)
		path := filepath.Join(dir, string(rune('a'+mask%26)))
		err := Create(path, 0o660)
		syscall.Umask(old)
		if info, e := os.Stat(path); err != nil || e != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("umask %04o: %v, %v", mask, info, errors.Join(err, e))
		}
	}
	path := filepath.Join(dir, "there")
	if err := errors.Join(os.WriteFile(path, []byte("x"), 0o644), os.Chmod(path, 0o644), Create(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 1 {
		t.Errorf("a file that was there: %v, %v", info, err)
	}
}
