package durable

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/private"
)

const (
	// scratchLock is the file in a scratch folder whose lock is held while the folder is used. It says where.
	scratchLock = ".in-use"
	// scratchNew is that file until it is locked and written.
	scratchNew = ".in-use.new"
	// scratchYoung is the age below which a folder without scratchLock may be one that is being made.
	scratchYoung = time.Hour
)

// A Scratch is a folder that is used until Remove or Publish, by its process and by the children
// that have got the file of its lock. If all of them die first, SweepScratch removes it.
type Scratch struct {
	Path string
	lock *Lock
}

// NewScratch makes a folder in another one, with a name like that of os.MkdirTemp.
func NewScratch(in, pattern string) (*Scratch, error) {
	path, err := os.MkdirTemp(in, pattern)
	if err != nil {
		return nil, err
	}
	lock, err := lockScratch(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &Scratch{path, lock}, nil
}

// lockScratch makes the lock of a folder, which is locked and says where as soon as it is there.
func lockScratch(dir string) (*Lock, error) {
	where, err := json.Marshal(here())
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, scratchNew), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(where); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	lock, err := tryFile(f, syscall.LOCK_EX)
	if err == nil && lock == nil {
		err = &os.PathError{Op: "flock", Path: f.Name(), Err: ErrHeld}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, scratchLock)); err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// A whereabouts says on which machine a folder is used. flock does not exclude other machines on
// each file system that they share.
type whereabouts struct {
	Host string `json:"host"`
	Boot string `json:"boot,omitempty"` // the id of the boot; empty if unknown
}

func here() whereabouts {
	host, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return whereabouts{host, strings.TrimSpace(string(boot))}
}

// sees reports whether a free lock of a folder that is used there means, here, that nobody uses it: in
// the same boot, which containers with names of their own share, and on the same machine after another.
func (w whereabouts) sees(there whereabouts) bool {
	if w.Boot != "" && w.Boot == there.Boot {
		return true
	}
	return w.Host == there.Host && w.Host != "" && w.Host != "localhost"
}

// File returns the open file of the lock, which makes a child that gets it a user of the folder.
func (s *Scratch) File() *os.File { return s.lock.File() }

// Remove removes the folder. After Publish it does nothing. With an error SweepScratch finds what is left.
func (s *Scratch) Remove() error {
	if s.lock == nil {
		return nil
	}
	err := removeScratch(s.Path)
	s.lock.Release()
	s.lock = nil
	return err
}

// removeScratch removes a folder, and its lock only if nothing else is left.
func removeScratch(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != scratchLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Publish gives the folder the name that it is to keep, where nothing may be but an empty folder.
// With an error it is as it was.
func (s *Scratch) Publish(path string) error {
	if err := os.Rename(s.Path, path); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(path, scratchLock)) // it is published with it, too. Not before: it would be free to be swept
	s.Path = path
	s.lock.Release()
	s.lock = nil
	return nil
}

// Leave gives up the folder without removing it. SweepScratch finds it when its last
// user has ended.
func (s *Scratch) Leave() { s.lock.HandOver() }

// SweepScratch removes the scratch folders of a pattern that nobody uses any more, but for those of
// which keep returns true. It touches none that another user has made or may write to, nor one that
// may be used on another machine. What cannot be removed stays.
func SweepScratch(in, pattern string, keep func(path string) bool) {
	entries, _ := os.ReadDir(in) // what cannot be read cannot be swept
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); !ok {
			continue
		}
		dir := filepath.Join(in, e.Name())
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && ours(info) {
			sweepScratch(dir, info.ModTime(), keep)
		}
	}
}

// ours reports whether something is this user's, and nobody else may write to it.
func ours(info fs.FileInfo) bool { return private.Own(info) && info.Mode()&0o022 == 0 }

func sweepScratch(dir string, changed time.Time, keep func(path string) bool) {
	name := filepath.Join(dir, scratchLock)
	// It may be anything, a named pipe even: those would block.
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) && time.Since(changed) > scratchYoung {
		// Its maker has died before it was locked, or who has removed it before the last step. If it is
		// not empty, it is of another program.
		_ = os.Remove(filepath.Join(dir, scratchNew))
		_ = os.Remove(dir)
	}
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !ours(info) {
		_ = f.Close()
		return
	}
	lock, err := tryFile(f, syscall.LOCK_EX)
	if err != nil || lock == nil {
		return
	}
	defer lock.Release()
	if unused(name, f, info) && (keep == nil || !keep(dir)) {
		_ = removeScratch(dir) // see SweepScratch
	}
}

// unused reports whether the lock of a folder, which has been taken, means that nobody uses it.
func unused(name string, f *os.File, info fs.FileInfo) bool {
	var there whereabouts
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil || json.Unmarshal(b, &there) != nil || !here().sees(there) {
		return false
	}
	again, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer again.Close()
	now, err := again.Stat()
	if err != nil || !os.SameFile(info, now) { // swept meanwhile
		return false
	}
	held, err := Locked(again)
	return err == nil && held // otherwise locks exclude nobody on this file system
}
