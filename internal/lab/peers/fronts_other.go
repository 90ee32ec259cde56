//go:build !linux

package main

import (
	"syscall"
	"time"
)

// dies is for Linux: elsewhere processes are killed at the end of each turn only.
var dies *syscall.SysProcAttr

// sleep is time.Sleep, which may be late by a millisecond.
func sleep(d time.Duration) { time.Sleep(d) }
