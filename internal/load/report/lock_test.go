package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// TestNoLocks: a folder on a file system without locks is one clear error, before anything is there; other errors stay what
// they are (L7).
func TestNoLocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op     string
		errno  syscall.Errno
		locked bool // the file system has locks
	}{
		{"flock", syscall.ENOLCK, false}, {"flock", syscall.EOPNOTSUPP, false}, {"flock", syscall.ENOSYS, false}, {"flock", syscall.EIO, true}, {"open", syscall.ENOLCK, true},
	} {
		parent := t.TempDir()
		_, err := newFolder(filepath.Join(parent, "result"), func(in, _ string) (*durable.Scratch, error) {
			return nil, errors.Join(&fs.PathError{Op: test.op, Path: in + "/.in-use", Err: test.errno}, nil) // as durable.NewScratch does
		})
		if !errors.Is(err, test.errno) {
			t.Errorf("%s %v: %v", test.op, test.errno, err)
		}
		var e *pawl.Error
		is := errors.As(err, &e) && e.Kind == pawl.Invalid && strings.HasPrefix(e.Message, "the file system of "+parent+" refuses locks (flock)") && e.Hint != ""
		if is == test.locked {
			t.Errorf("%s %v became %v", test.op, test.errno, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}
