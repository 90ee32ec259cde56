//go:build !linux

package postgres

import "syscall"

// impatient leaves a socket as it is: keepalives are all that is known here.
func impatient(_, _ string, _ syscall.RawConn) error { return nil }
