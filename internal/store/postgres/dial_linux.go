package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// impatient sets silenceLimit on a socket before it is connected.
func impatient(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silenceLimit.Milliseconds()))
	})
	if err == nil {
		err = failed
	}
	return err
}
