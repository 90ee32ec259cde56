package pgtest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// attributes make a program run as the account, in a process group of its own
// (so that Ctrl-C does not reach it), and die with this process.
func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// startPinned starts cmd and closes exited when it has ended. Pdeathsig is sent when the
// thread that forked dies, so this thread is kept until then.
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
