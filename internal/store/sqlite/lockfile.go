package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/pawl-dev/pawl/internal/private"
	"github.com/pawl-dev/pawl/internal/store"
)

// maxFileName bounds a lock file's name; a longer one is replaced by a digest.
const maxFileName = 200

// lockEnding ends the name of each lock file.
const lockEnding = ".lock"

// lookers is how often a name that seems taken is tried, a millisecond apart, since alive
// and sweep take its lock for a moment.
const lookers = 5

// fileHolds are lock files in a folder. The kernel frees the locks of a process
// that dies, however it dies.
type fileHolds struct {
	dir   string
	mode  fs.FileMode // of new files
	clock func() time.Time
}

// newFileHolds makes the folder beside a database.
func newFileHolds(dir string, database fs.FileInfo, clock func() time.Time) (*fileHolds, error) {
	h := &fileHolds{dir: dir, mode: modeBeside(database), clock: clock}
	if err := lockFolder(dir, database); err != nil {
		return nil, err
	}
	return h, nil
}

// file returns the lock file of a name.
func (h *fileHolds) file(name string) string {
	file := url.PathEscape(name) + lockEnding
	if len(file) > maxFileName {
		sum := sha256.Sum256([]byte(name))
		file = hex.EncodeToString(sum[:]) + lockEnding
	}
	return filepath.Join(h.dir, file)
}

func (h *fileHolds) hold(name string, note []byte) (release func(), err error) {
	path := h.file(name)
	lock, err := take(path, h.mode)
	for try := 0; try < lookers && lock == nil && err == nil; try++ {
		time.Sleep(time.Millisecond)
		lock, err = take(path, h.mode)
	}
	if err != nil {
		return nil, noRoom(err)
	}
	if lock == nil {
		old, _ := os.ReadFile(path) // it may be free by now; then its holder is unknown
		return nil, &store.HeldError{Name: name, Note: old}
	}
	err = os.WriteFile(path, note, 0o600)
	if err == nil {
		err = h.beat(name)
	}
	if err != nil {
		drop(lock)
		return nil, noRoom(err)
	}
	h.sweep()
	return func() { drop(lock) }, nil
}

// sweep removes the files that killed processes have left, unless one has beaten within leftAfter: until
// then the beat of a worker may still be of interest.
func (h *fileHolds) sweep() {
	entries, _ := os.ReadDir(h.dir) // fewer or none if it cannot be read: others sweep, too
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) != lockEnding || h.clock().Sub(info.ModTime()) < leftAfter {
			continue
		}
		if lock, err := take(filepath.Join(h.dir, e.Name()), h.mode); err == nil && lock != nil {
			drop(lock)
		}
	}
}

// take locks the file, creating it if necessary, or returns nil if another process holds it. A
// holder removes its file before it releases the lock, so the lock counts only if the file
// still exists.
func take(path string, mode fs.FileMode) (*flock.Flock, error) {
	for {
		if err := private.Create(path, mode); err != nil {
			return nil, err
		}
		lock := flock.New(path)
		ok, err := lock.TryLock()
		if err != nil || !ok {
			return nil, errors.Join(err, lock.Close())
		}
		mine, err := lock.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Stat(path); err == nil && os.SameFile(mine, there) {
				return lock, nil
			}
		}
		lock.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// drop removes the file and releases the lock. A failed removal does no harm.
func drop(lock *flock.Flock) {
	os.Remove(lock.Path())
	lock.Close()
}

func (h *fileHolds) beat(name string) error {
	now := h.clock()
	err := os.Chtimes(h.file(name), now, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is free: Reap finds it
	}
	return err
}

// alive tests a lock by taking a shared one, and releases it at once.
func (h *fileHolds) alive(name string) (held bool, beat time.Time, err error) {
	path := h.file(name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, time.Time{}, nil
	}
	if err != nil {
		return false, time.Time{}, err
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	free, err := lock.TryRLock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, time.Time{}, nil
	}
	return !free, info.ModTime(), errors.Join(err, lock.Close())
}
