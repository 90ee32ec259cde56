package durable

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestScratch: a folder that is used, by its process or by a child, is never swept; one that nobody
// uses any more is, unless it is to be kept; one that was published has its contents and no lock (L5).
func TestScratch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fresh := func() *Scratch {
		t.Helper()
		s, err := NewScratch(dir, "s-*")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.Path, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	used, left, kept, published := fresh(), fresh(), fresh(), fresh()
	if err := os.Mkdir(filepath.Join(dir, "s-other"), 0o700); err != nil { // of another program
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "cat")
	child.ExtraFiles = []*os.File{left.File()}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	left.Leave()
	kept.Leave()
	if err := published.Publish(filepath.Join(dir, "published")); err != nil {
		t.Fatal(err)
	}
	sweep := func() { SweepScratch(dir, "s-*", func(path string) bool { return path == kept.Path }) }
	want := []string{"published", filepath.Base(used.Path), filepath.Base(kept.Path), "s-other"}
	sweep()
	if got := names(t, dir); len(got) != 5 {
		t.Errorf("a folder of a child was swept: %q", got)
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	sweep()
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q is left, want %q", got, want)
	}
	if got := names(t, published.Path); !slices.Equal(got, []string{"file"}) {
		t.Errorf("published: %q", got)
	}
	if err := used.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(used.Path); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestStrangeScratch: a sweep leaves alone what another user has made or may write to, what is used on
// another machine, and what is of another program; it blocks at nothing. Of its own it removes what
// was left before there was a lock, and after (L5, L10).
func TestStrangeScratch(t *testing.T) {
	t.Parallel()
	type test struct {
		name  string
		make  func(dir, lock string) error
		swept bool
	}
	mark := func(w whereabouts) func(string, string) error {
		return func(_, lock string) error {
			b, err := json.Marshal(w)
			return errors.Join(err, os.WriteFile(lock, b, 0o600))
		}
	}
	host, boot := here().Host, here().Boot
	old := func(dir string) error {
		then := time.Now().Add(-2 * scratchYoung)
		return os.Chtimes(dir, then, then)
	}
	tests := []test{
		{"left", func(string, string) error { return nil }, true},
		{"published almost", func(dir, _ string) error { return os.Chmod(dir, 0o755) }, true},
		{"of a group", func(dir, _ string) error { return os.Chmod(dir, 0o770) }, false},
		{"of everybody", func(dir, _ string) error { return os.Chmod(dir, 0o777) }, false},
		{"with a lock of everybody", func(_, lock string) error { return os.Chmod(lock, 0o666) }, false},
		{"with a named pipe", func(_, lock string) error { return errors.Join(os.Remove(lock), syscall.Mkfifo(lock, 0o600)) }, false},
		{"with a link", func(dir, lock string) error {
			return errors.Join(os.Rename(lock, dir+".lock"), os.Symlink(dir+".lock", lock))
		}, false},
		{"a link", func(dir, _ string) error { return errors.Join(os.Rename(dir, dir+".dir"), os.Symlink(dir+".dir", dir)) }, false},
		{"on another machine", mark(whereabouts{"elsewhere", "boot"}), false},
		{"in another container", mark(whereabouts{"elsewhere", boot}), boot != ""},
		{"before a reboot", mark(whereabouts{host, "boot"}), host != "localhost"},
		{"on a machine without a name", mark(whereabouts{"localhost", "boot"}), false},
		{"nobody knows where", mark(whereabouts{}), false},
		{"without a mark", func(_, lock string) error { return os.Truncate(lock, 0) }, false},
		{"being made", func(_, lock string) error { return os.Remove(lock) }, false},
		{"never made", func(dir, lock string) error { return errors.Join(os.Remove(lock), old(dir)) }, true},
		{"never locked", func(dir, lock string) error { return errors.Join(os.Rename(lock, lock+".new"), old(dir)) }, true},
		{"of another program", func(dir, lock string) error {
			return errors.Join(os.Rename(lock, filepath.Join(dir, "file")), old(dir))
		}, false},
	}
	if os.Geteuid() == 0 {
		tests = append(tests, test{"of another user", func(dir, _ string) error { return os.Chown(dir, 65534, -1) }, false},
			test{"with a lock of another user", func(_, lock string) error { return os.Chown(lock, 65534, -1) }, false})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := t.TempDir()
			s, err := NewScratch(in, "s-*")
			if err != nil {
				t.Fatal(err)
			}
			s.Leave()
			if err := tt.make(s.Path, filepath.Join(s.Path, scratchLock)); err != nil {
				t.Fatal(err)
			}
			SweepScratch(in, "s-*[^r]", nil) // not *.dir
			if _, err := os.Stat(s.Path); os.IsNotExist(err) != tt.swept {
				t.Errorf("swept: %t, want %t (%v)", !tt.swept, tt.swept, err)
			}
		})
	}
}

// TestScratchRace: folders that are made while others sweep are there as long as they are used.
func TestScratchRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				SweepScratch(dir, "s-*", nil)
				s, err := NewScratch(dir, "s-*")
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(s.Path, "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := s.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}
