//go:build !linux

package control

import "net"

// stranger lets everybody in: the folder of the socket keeps others out.
func stranger(net.Conn) error { return nil }
