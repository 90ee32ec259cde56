package durable

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
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
