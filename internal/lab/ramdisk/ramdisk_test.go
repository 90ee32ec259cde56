package ramdisk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/durable"
)

func TestInMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tmpdir string
		free   uint64
		want   bool
	}{
		{"TMPDIR set", "/tmp", 10, false},
		{"room", "", 10, true},
		{"as much as needed", "", 5, true},
		{"too little room", "", 4, false},
		{"no file system in memory", "", 0, false},
	} {
		if got := inMemory(c.tmpdir, c.free, 5); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAFolderIsInTMPDIR(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir+"/")
	first, err := New("x-*", 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OnDisk("x-*")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*durable.Scratch{first, second} {
		if filepath.Dir(s.Path) != dir {
			t.Errorf("%s is not in %s", s.Path, dir)
		}
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
