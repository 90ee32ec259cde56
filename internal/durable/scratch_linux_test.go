package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestScratchIsRemovedInOrder: a folder of which a part cannot be removed keeps its lock, by which the
// next sweep finds it (L5).
func TestScratchIsRemovedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := NewScratch(dir, "s-*")
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(s.Path, "closed")
	for _, err := range []error{os.Mkdir(closed, 0o700), os.WriteFile(filepath.Join(closed, "file"), nil, 0o600), os.Chmod(closed, 0o500)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var above []string // which others cannot enter, if this is root
	for path := filepath.Dir(dir); os.Geteuid() == 0 && path != os.TempDir(); path = filepath.Dir(path) {
		above = append(above, path)
	}
	for _, path := range append(above, dir, s.Path) {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	unprivileged(func() { err = s.Remove() })
	if !errors.Is(err, fs.ErrPermission) {
		t.Fatal(err)
	}
	if got := names(t, s.Path); len(got) != 2 {
		t.Errorf("%q is left", got)
	}
	for _, path := range []string{s.Path, closed} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	SweepScratch(dir, "s-*", nil)
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("%q is left after the sweep", got)
	}
}

// unprivileged calls f without what root may do to the files of others.
func unprivileged(f func()) {
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, set := range []func(int) (int, error){unix.SetfsuidRetUid, unix.SetfsgidRetGid} {
		_, _ = set(65534)
		defer set(0)
	}
	f()
}
