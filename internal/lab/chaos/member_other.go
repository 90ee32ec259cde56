//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startPinned(cmd *exec.Cmd, exited chan struct{}, begun func(pid int) error) error {
	if err := cmd.Start(); err != nil {
		close(exited)
		return err
	}
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	return begun(cmd.Process.Pid)
}
