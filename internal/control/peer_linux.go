package control

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl"
)

// checkPeer returns an error if the other end of a connection is a user other than this
// process's or root. The mode of the folder keeps others out; this is for a folder whose
// mode was changed later.
func checkPeer(c net.Conn) error {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) {
		peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	switch {
	case asked != nil:
		return asked
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return pawl.Errorf(pawl.Refused, "this process belongs to user %d, and the client is user %d", os.Geteuid(), peer.Uid)
	}
	return nil
}
