//go:build unix && !solaris && !aix

package supervisor

import (
	"os"
	"syscall"
)

// lock keeps other processes out of a journal. The kernel ends it with the file.
func lock(file *os.File) error {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errInUse
	}
	return nil
}

// shut closes a file and ends its lock, which a process that is just being started
// would hold on to otherwise.
func shut(file *os.File) error {
	_ = syscall.Flock(int(file.Fd()), syscall.LOCK_UN)
	return file.Close()
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
