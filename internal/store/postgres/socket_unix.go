//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// quiet reports whether a connection has nothing to read: neither its end nor a last message
// of the server. It does not wait.
func quiet(conn net.Conn) bool {
	raw, err := socket(conn)
	if raw == nil {
		return err == nil
	}
	var b [1]byte
	var found error
	err = raw.Control(func(fd uintptr) { // Read would wait for the driver's own reader
		_, _, found = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && (found == syscall.EAGAIN || found == syscall.EINTR)
}

// awaitAnswer waits in a system call until the connection has something to read, for at most
// the limit, in milliseconds.
func awaitAnswer(conn net.Conn, limit time.Duration) {
	raw, _ := socket(conn)
	if raw == nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds())) // the reader finds the error
	})
}

// socket returns the socket of a connection, or nil if it has none.
func socket(conn net.Conn) (syscall.RawConn, error) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil, nil
	}
	return c.SyscallConn()
}
