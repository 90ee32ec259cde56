package main

import (
	"syscall"
	"time"
)

// dies makes the kernel kill a process when the thread ends that has started it.
var dies = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// sleep is time.Sleep to some 0.1 ms: that may be a millisecond late, which is longer than many a
// request takes.
func sleep(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&t, nil) // a signal may end it early
	}
}
