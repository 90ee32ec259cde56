//go:build !unix

package postgres

import (
	"net"
	"time"
)

// quiet returns true on this platform, which cannot tell.
func quiet(net.Conn) bool { return true }

// awaitAnswer does nothing: the reader waits.
func awaitAnswer(net.Conn, time.Duration) {}
