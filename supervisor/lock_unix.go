//go:build unix && !solaris && !aix

package supervisor

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes out of a journal. The kernel ends it with the file.
func lock(file *os.File) error {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errors.New("it is in use, or cannot be locked: want one process at a time")
	}
	return nil
}

// syncFolder brings the name of a new file to the disk.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return folder.Sync()
}
