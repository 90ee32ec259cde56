//go:build !linux

package agent

import "syscall"

// attributes put an engine into a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func pinned(f func()) { f() }
