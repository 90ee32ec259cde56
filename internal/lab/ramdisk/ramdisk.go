// Package ramdisk keeps temporary files of tests in memory where there is room. There a file is made
// and deleted in a fraction of the time: ext4 passes over the inodes of files deleted in the last
// minutes one by one.
package ramdisk

import (
	"os"

	"github.com/pawl-dev/pawl/internal/durable"
)

// New makes a scratch folder in memory if room bytes are free there, else in os.TempDir: that is also
// where TMPDIR names a folder, so `TMPDIR=/tmp make test` uses no memory. It first removes those of
// the pattern whose users were killed, so that they do not fill the memory until the next boot.
//
// Where systemd has RemoveIPC=yes, its default, it removes a user's files in /dev/shm when the last
// session of that user ends, unless it is a system account such as root. A run that is to outlive its
// session needs TMPDIR.
func New(pattern string, room uint64) (*durable.Scratch, error) {
	sweep(pattern)
	in := os.TempDir()
	if inMemory(os.Getenv("TMPDIR"), free(), room) {
		in = folder
	}
	return durable.NewScratch(in, pattern)
}

// OnDisk makes a scratch folder in os.TempDir, as New does where there is no room.
func OnDisk(pattern string) (*durable.Scratch, error) {
	sweep(pattern)
	return durable.NewScratch(os.TempDir(), pattern)
}

func sweep(pattern string) {
	durable.SweepScratch(folder, pattern, nil)
	durable.SweepScratch(os.TempDir(), pattern, nil)
}

func inMemory(tmpdir string, free, room uint64) bool { return tmpdir == "" && free >= room }
