// Package private keeps folders and files from other users: what lies in a folder
// of this package was put there by this user, or by root.
package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// An UnfitError is returned for a folder in which another user may have put something.
type UnfitError struct {
	Dir  string
	Why  string // to follow the name of the folder
	Open bool   // it is this user's, and its mode lets others in
}

func (e *UnfitError) Error() string { return e.Dir + " " + e.Why }

// Make creates the folder, with its parents, or checks the one that exists; see Check.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return Check(dir)
}

// Check returns an *UnfitError unless the folder is a directory of this user, not a
// symbolic link, which no other user may enter. A missing one is fs.ErrNotExist.
func Check(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &UnfitError{Dir: dir, Why: "is not a folder"}
	case !Own(info):
		return &UnfitError{Dir: dir, Why: fmt.Sprintf("belongs to user %d, and this is user %d", Owner(info), os.Geteuid())}
	case info.Mode().Perm()&0o077 != 0:
		return &UnfitError{Dir: dir, Why: fmt.Sprintf("may be entered by others: its mode is %04o, want 0700", info.Mode().Perm()), Open: true}
	}
	return nil
}

// Own reports whether a file is this user's.
func Own(info fs.FileInfo) bool { return Owner(info) == os.Geteuid() }

// Owner returns the UID of the owner of a file.
func Owner(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// Create creates a file with that mode, whatever the umask. It leaves an existing file as
// it is.
func Create(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600&mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(mode), f.Close())
}
