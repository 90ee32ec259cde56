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

// startPinned starts cmd, has begun look at it, and closes exited when it has ended.
// The parent-death signal is sent when the thread dies that forked, and that thread
// alone traces, so it is kept.
func startPinned(cmd *exec.Cmd, exited chan struct{}, begun func(pid int) error) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		if err != nil {
			started <- err
			return
		}
		if err = begun(cmd.Process.Pid); err != nil {
			_ = cmd.Process.Kill()
		}
		started <- err
		_ = cmd.Wait()
	}()
	return <-started
}
