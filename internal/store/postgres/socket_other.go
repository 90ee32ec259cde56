//go:build !unix

package postgres

import (
	"net"
	"time"
)

// quiet cannot tell here.
func quiet(net.Conn) bool { return true }

// awaitAnswer leaves it to the reader to wait.
func awaitAnswer(net.Conn, time.Duration) {}
