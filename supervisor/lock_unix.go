//go:build unix && !solaris && !aix

package supervisor

import (
	"os"
	"syscall"
)

// lock keeps other processes from opening a journal. The kernel releases it when the file
// is closed.
func lock(file *os.File) error {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errInUse
	}
	return nil
}

// unlockAndClose closes a file and releases its lock, which a process that is just being
// forked would keep otherwise.
func unlockAndClose(file *os.File) error {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	return file.Close()
}

// syncFolder syncs the directory entry of a new file.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	return folder.Sync()
}
