package report

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestNoLocks: a file system without locks is one clear error, and other errors stay what they are (L7).
func TestNoLocks(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{syscall.ENOLCK, syscall.EOPNOTSUPP} {
		err := unlocked("/mnt/results", errors.Join(&fs.PathError{Op: "flock", Path: "/mnt/results/.in-use", Err: errno}))
		var e *pawl.Error
		if !errors.As(err, &e) || e.Kind != pawl.Invalid || !strings.HasPrefix(e.Message, "the file system of /mnt/results refuses locks (flock)") || e.Hint == "" || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for _, other := range []error{&fs.PathError{Op: "flock", Err: syscall.EIO}, &fs.PathError{Op: "open", Err: syscall.ENOLCK}} {
		if err := unlocked("/mnt/results", other); err != other {
			t.Errorf("%v became %v", other, err)
		}
	}
}
