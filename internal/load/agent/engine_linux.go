package agent

import (
	"runtime"
	"syscall"
)

// attributes put an engine into a process group of its own, and have the kernel kill it when the
// thread that has started it dies. The group is also a session: the kernel shares out processors by
// session (sched_autogroup), and what else runs in that of the agent would slow the load down.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// pinned calls f on a thread that does not end before f does.
func pinned(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}
