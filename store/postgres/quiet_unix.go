//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// quiet reports whether there is nothing to be read from a connection: neither an end
// nor a farewell of the server. It does not wait.
func quiet(conn net.Conn) bool {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var b [1]byte
	var found error
	err = raw.Control(func(fd uintptr) { // Read would wait for the driver's own reader
		_, _, found = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && (found == syscall.EAGAIN || found == syscall.EINTR)
}
