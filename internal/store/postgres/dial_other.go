//go:build !linux

package postgres

import "syscall"

// impatient leaves a socket unchanged: this platform has only keepalives.
func impatient(_, _ string, _ syscall.RawConn) error { return nil }
