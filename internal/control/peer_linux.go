package control

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl"
)

// stranger answers an error if the other end of a connection is of another user
// than this process, root aside. The folder has kept others out already; this is
// for a folder whose mode was changed later.
func stranger(c net.Conn) error {
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
		return pawl.Errorf(pawl.Refused, "this process is of the user with the number %d, and who asks is %d", os.Geteuid(), peer.Uid)
	}
	return nil
}
