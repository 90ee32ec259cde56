//go:build unix && !linux

package process

import "net"

// Senders are not told apart here.
const senderSpace = 0

func askForSenders(*net.UnixConn) error { return nil }

func (NotifyConfig) hears([]byte) bool { return true }
