package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A Lock is held until Release, or until its process dies.
type Lock struct{ file *os.File }

// ErrHeld is returned if a lock is still held by somebody else when the context ends.
var ErrHeld = errors.New("another process holds the lock")

// lockPause is the mean time between two attempts.
const lockPause = 2 * time.Millisecond

// Acquire takes the lock of a file, which it creates if it is missing, and waits until ctx ends
// for whoever holds it.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	for {
		switch l, err := TryAcquire(path); {
		case err != nil || l != nil:
			return l, err
		}
		select {
		case <-time.After(lockPause/2 + rand.N(lockPause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w", path, ErrHeld)
		}
	}
}

// TryAcquire takes the lock of a file, or returns nil if somebody else holds it.
func TryAcquire(path string) (*Lock, error) { return try(path, syscall.LOCK_EX) }

// Held reports whether somebody holds the lock of a file. Asking makes at most a
// TryAcquire fail at that moment.
func Held(path string) (bool, error) {
	lock, err := try(path, syscall.LOCK_SH)
	if err != nil || lock == nil {
		return err == nil, err
	}
	lock.Release()
	return false, nil
}

// Locked is Held for an open file.
func Locked(f *os.File) (bool, error) {
	switch err := change(f, syscall.LOCK_SH|syscall.LOCK_NB); err {
	case nil:
		return false, change(f, syscall.LOCK_UN)
	case syscall.EWOULDBLOCK:
		return true, nil
	default:
		return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
}

// try opens the file for writing if the lock excludes others: NFS has such locks of no other files. A file
// of somebody else, which it may only read, can be locked nevertheless where it is on a local disk.
func try(path string, how int) (*Lock, error) {
	flag := os.O_RDONLY
	if how == syscall.LOCK_EX {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(path, flag|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	return tryFile(f, how)
}

// tryFile locks an open file, or closes it.
func tryFile(f *os.File, how int) (*Lock, error) {
	switch err := change(f, how|syscall.LOCK_NB); err {
	case nil:
		return &Lock{f}, nil
	case syscall.EWOULDBLOCK:
		return nil, f.Close()
	default:
		return nil, errors.Join(&os.PathError{Op: "flock", Path: f.Name(), Err: err}, f.Close())
	}
}

func change(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// Release frees the lock. The file stays.
func (l *Lock) Release() {
	_ = change(l.file, syscall.LOCK_UN) // closing is not enough while a child is being started, which has the file until exec
	_ = l.file.Close()
}

// HandOver leaves the lock to the children that have got its file: it is held until the last of them,
// and of theirs, has closed it or ended.
func (l *Lock) HandOver() { _ = l.file.Close() }

// File returns the open file of the lock. A child that gets it holds the lock, too, until it has
// closed the file or Release was called.
func (l *Lock) File() *os.File { return l.file }

// selftestEnv has the path of the lock that the second process of Selftest tries to take.
const selftestEnv = "PAWL_LOCK_SELFTEST"

// Selftest reports whether locks exclude another process on the file system of a folder. The
// other process is this program, which must call SelftestChild first.
func Selftest(ctx context.Context, dir string) error {
	f, err := os.CreateTemp(dir, ".selftest"+tempMark+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	lock, err := TryAcquire(f.Name())
	if err != nil {
		return err
	}
	if lock == nil {
		return fmt.Errorf("a new file in %s is locked by nobody and cannot be locked", dir)
	}
	defer lock.Release()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	other := exec.CommandContext(ctx, self)
	other.Env = append(os.Environ(), selftestEnv+"="+f.Name())
	switch out, err := other.CombinedOutput(); {
	case err != nil:
		return fmt.Errorf("try the lock in a second process: %w: %s", err, out)
	case string(out) == selftestTaken:
		return fmt.Errorf("locks on the file system of %s do not exclude other processes; put the folder on a local disk", dir)
	case string(out) != selftestHeld:
		return fmt.Errorf("try the lock in a second process: it prints %q", out)
	}
	return nil
}

const (
	selftestTaken = "taken"
	selftestHeld  = "held"
)

// SelftestChild does the part of the second process of Selftest and ends the process, if it was
// started for that. A program that calls Selftest calls it first thing in main.
func SelftestChild() {
	path := os.Getenv(selftestEnv)
	if path == "" {
		return
	}
	lock, err := TryAcquire(path)
	switch {
	case err != nil:
		fmt.Print(err)
		os.Exit(1)
	case lock != nil:
		fmt.Print(selftestTaken)
	default:
		fmt.Print(selftestHeld)
	}
	os.Exit(0)
}
