//go:build !linux

package pgtest

import (
	"os/exec"
	"syscall"
)

func attributes(account *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: account, Setpgid: true}
}

func startPinned(cmd *exec.Cmd, exited chan struct{}) error {
	if err := cmd.Start(); err != nil {
		close(exited)
		return err
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	return nil
}
