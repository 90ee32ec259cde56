package agent

import (
	"runtime"
	"syscall"
)

// attributes put an engine into a process group of its own, and have the kernel kill it when the
// thread that has started it dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pinned calls f on a thread that does not end before f does.
func pinned(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}
