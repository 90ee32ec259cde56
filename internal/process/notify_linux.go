package process

import (
	"net"
	"os"
	"syscall"
)

// credentialSpace has the size of the sender's credentials: the kernel closes passed
// files that do not fit.
var credentialSpace = syscall.CmsgLen(syscall.SizeofUcred)

// enableCredentials makes the kernel report the sender of each message.
func enableCredentials(conn *net.UnixConn) error {
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

// accepts reports whether a message counts. A sender in another pid namespace has pid 0.
func (c NotifyConfig) accepts(oob []byte) bool {
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
