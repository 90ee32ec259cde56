package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// scratchLock is the file in a scratch folder whose lock is held while the folder is used.
const scratchLock = ".in-use"

// A Scratch is a folder that is used until Remove or Publish, by its process and by the children
// that have got the file of its lock. If all of them die first, SweepScratch removes it.
type Scratch struct {
	Path string
	lock *Lock
}

// NewScratch makes a folder in another one, with a name like that of os.MkdirTemp.
func NewScratch(in, pattern string) (*Scratch, error) {
	for {
		path, err := os.MkdirTemp(in, pattern)
		if err != nil {
			return nil, err
		}
		name := filepath.Join(path, scratchLock)
		lock, err := TryAcquire(name)
		if err == nil && lock != nil {
			if _, err = os.Lstat(name); err == nil {
				return &Scratch{path, lock}, nil
			}
			lock.Release()
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		// Somebody swept between the folder and its lock.
	}
}

// File returns the open file of the lock, which makes a child that gets it a user of the folder.
func (s *Scratch) File() *os.File { return s.lock.File() }

// Remove removes the folder. After Publish it does nothing.
func (s *Scratch) Remove() error {
	if s.lock == nil {
		return nil
	}
	err := os.RemoveAll(s.Path)
	s.lock.Release()
	s.lock = nil
	return err
}

// Publish gives the folder the name that it is to keep, where nothing may be but an empty folder.
// With an error it is as it was.
func (s *Scratch) Publish(path string) error {
	if err := os.Rename(s.Path, path); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(path, scratchLock)) // not before: it would be free to be swept
	s.Path = path
	s.lock.Release()
	s.lock = nil
	return err
}

// Leave gives up the folder without removing it. SweepScratch finds it when its last
// user has ended.
func (s *Scratch) Leave() { s.lock.HandOver() }

// SweepScratch removes the scratch folders of a pattern that nobody uses any more, but for those of
// which keep returns true. What cannot be removed stays, since it may be another user's.
func SweepScratch(in, pattern string, keep func(path string) bool) {
	entries, _ := os.ReadDir(in) // what cannot be read cannot be swept
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); ok && e.IsDir() {
			sweepScratch(filepath.Join(in, e.Name()), keep)
		}
	}
}

func sweepScratch(dir string, keep func(path string) bool) {
	f, err := os.OpenFile(filepath.Join(dir, scratchLock), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	lock, err := tryFile(f, syscall.LOCK_EX)
	if err != nil || lock == nil {
		return
	}
	defer lock.Release()
	if keep == nil || !keep(dir) {
		_ = os.RemoveAll(dir) // see SweepScratch
	}
}
