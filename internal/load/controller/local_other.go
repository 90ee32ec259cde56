//go:build !linux

package controller

import "syscall"

// localAttributes puts a local agent into a group of its own, so that Ctrl-C does not reach it.
func localAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func pinned(f func()) { f() }
