package sqlite

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/pawl-dev/pawl/internal/private"
)

// waitingFile is the name of the queueFile of a database.
const waitingFile = "waiting.queue"

// A queueFile is a file that processes waiting to write lock, shared. It stays open: a look at it on each
// commit would mostly be the time to open it. Its methods are called by whoever has the turn to
// write, so one lock at a time is taken through it. If a lock cannot be taken, a process only waits longer.
type queueFile struct {
	path string
	mode fs.FileMode // if it has to be made
	file *os.File    // nil: to be opened
}

// newQueueFile opens the file; if that fails now, it is tried again when it is needed.
func newQueueFile(path string, mode fs.FileMode) *queueFile {
	q := &queueFile{path: path, mode: mode}
	_ = q.open()
	return q
}

// enter announces that this process waits to write, until leave.
func (q *queueFile) enter() (leave func()) {
	_ = q.lock(syscall.LOCK_SH)
	return q.unlock
}

// others reports whether another process waits to write.
func (q *queueFile) others() bool {
	err := q.lock(syscall.LOCK_EX)
	q.unlock()
	return err == syscall.EWOULDBLOCK
}

func (q *queueFile) close() {
	if q.file != nil {
		q.file.Close()
		q.file = nil
	}
}

// lock takes a lock at once, or fails.
func (q *queueFile) lock(how int) error {
	if err := q.open(); err != nil {
		return err
	}
	for {
		if err := syscall.Flock(int(q.file.Fd()), how|syscall.LOCK_NB); err != syscall.EINTR {
			return err
		}
	}
}

// unlock releases the lock, if one is held. Closing the file would not, while a program is being started,
// which has it until exec.
func (q *queueFile) unlock() {
	if q.file != nil {
		_ = syscall.Flock(int(q.file.Fd()), syscall.LOCK_UN)
	}
}

// open opens the file again if it was removed: other processes then lock the one that was made since.
func (q *queueFile) open() (err error) {
	if q.file != nil {
		var s syscall.Stat_t
		if syscall.Fstat(int(q.file.Fd()), &s) == nil && s.Nlink > 0 {
			return nil
		}
		q.close()
	}
	if err := private.Create(q.path, q.mode); err != nil {
		return err
	}
	q.file, err = os.Open(q.path)
	return err
}
