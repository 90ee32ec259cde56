package control

import (
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

// sweep removes the sockets and locks that killed processes have left in the folder. What cannot be
// removed does no harm: the next process sweeps, too.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), socketEnding)
		if !is {
			name, is = strings.CutSuffix(e.Name(), lockEnding)
		}
		if is && CheckName(name) == nil {
			retire(filepath.Join(dir, name+socketEnding))
		}
	}
}

// retire removes a socket and its lock if no process holds that. A socket on which a process listens all
// the same stays: the lock of that process was removed, and it will take the new one.
func retire(socket string) {
	lock, err := take(lockOf(socket))
	if err != nil || lock == nil {
		return
	}
	defer discard(lock)
	c, err := net.Dial("unix", socket)
	if err == nil {
		c.Close()
	} else if isGone(err) {
		_ = os.Remove(socket)
	}
}

// discard removes the file of a lock and releases it. If the file stays, no harm is done.
func discard(lock *flock.Flock) {
	_ = os.Remove(lock.Path())
	_ = lock.Close()
}
