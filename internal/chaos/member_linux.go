package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// attributes make a process lead a group of its own, so that Ctrl-C does not
// reach it, and die with this one.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startPinned starts cmd and closes exited when it has ended. The parent-death
// signal is sent when the thread dies that forked, so this thread is kept.
func startPinned(cmd *exec.Cmd, exited chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return <-started
}
