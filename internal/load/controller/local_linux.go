package controller

import (
	"runtime"
	"syscall"
)

// localAttributes puts a local agent into a group of its own, so that Ctrl-C does not reach it,
// and has the kernel end it when this process dies.
func localAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// pinned calls f on a thread that does not end before f does.
func pinned(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}
