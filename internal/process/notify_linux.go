package process

import (
	"net"
	"os"
	"syscall"
)

// senderSpace holds who the sender is, and nothing more: the kernel closes files that
// it has no room for.
var senderSpace = syscall.CmsgLen(syscall.SizeofUcred)

// askForSenders has the kernel say who sent a message.
func askForSenders(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1)
	})
	if err != nil {
		return err
	}
	return failed
}

// hears tells whether a message counts. A sender of another pid namespace has no number.
func (c NotifyConfig) hears(oob []byte) bool {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return false
	}
	sender, err := syscall.ParseUnixCredentials(&messages[0])
	if err != nil {
		return false
	}
	known := int(sender.Uid) == os.Geteuid() || c.User != nil && sender.Uid == c.User.UID
	return known && (c.Accept == nil || sender.Pid == 0 || c.Accept(int(sender.Pid)))
}
