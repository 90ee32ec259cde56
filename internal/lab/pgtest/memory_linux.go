package pgtest

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryDisk is where Linux has a file system in memory, which any user may write to.
const memoryDisk = "/dev/shm"

// memoryRoom is the least room for a cluster in memory, in bytes: some hundred databases of tests
// with their log. Containers often have 64 MiB.
const memoryRoom = 6 << 30

// scratch returns the folder for clusters that need no disk; empty means os.TempDir, which it is
// where TMPDIR names one. In memory a database is made in a fraction of the time: ext4 passes over
// the inodes of files deleted in the last minutes one by one, and each database has hundreds of files.
func scratch() string {
	var s unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(memoryDisk, &s) != nil || s.Type != unix.TMPFS_MAGIC || s.Bavail*uint64(s.Bsize) < memoryRoom {
		return ""
	}
	return memoryDisk
}
