package process

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode"
)

const (
	maxNotice = 4096 // bytes of a message, as in systemd
	maxStatus = 1024 // bytes of a status that are kept
)

// A Notice is a message of a program about itself.
type Notice struct {
	Ready, Stopping, Watchdog bool
	Status                    *string // nil: not in the message
}

// NotifyConfig configures a Notify.
type NotifyConfig struct {
	Path string   // of the socket; at most 107 bytes on Linux, 103 elsewhere. A socket that is left there is removed
	User *Account // the account of the program; nil: this process's

	// Accept reports whether the program owns the process that sent a message; see
	// Process.Owns. It is called on Linux only, and only for senders of User or this
	// process's user: messages of others are ignored. nil: all of these are accepted.
	Accept func(pid int) bool

	// OnNotice is called with each message, from one goroutine. Meanwhile messages wait
	// in the socket's buffer only.
	OnNotice func(Notice)
}

// A Notify is a socket to which a program reports its state, as with sd_notify(3):
// READY=1, STOPPING=1, WATCHDOG=1 and STATUS=text. Other lines, messages of more than 4096
// bytes and passed files are ignored.
type Notify struct {
	conn *net.UnixConn
	done sync.WaitGroup
}

// ListenNotify opens the socket. The folder has to exist and should be private: where
// the system does not report the sender, only the folder keeps other users out.
func ListenNotify(c NotifyConfig) (*Notify, error) {
	if limit := len(syscall.RawSockaddrUnix{}.Path) - 1; len(c.Path) > limit {
		return nil, fmt.Errorf("the path of the notify socket has %d bytes, at most %d are allowed: %s", len(c.Path), limit, c.Path)
	}
	if info, err := os.Lstat(c.Path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(c.Path) // if that fails, so does listening
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: c.Path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("create the notify socket: %w", err)
	}
	n := &Notify{conn: conn}
	if err := n.open(c); err != nil {
		conn.Close()
		_ = os.Remove(c.Path)
		return nil, fmt.Errorf("create the notify socket %s: %w", c.Path, err)
	}
	n.done.Go(func() { n.receive(c) })
	return n, nil
}

// open lets only the program's user write to the socket.
func (n *Notify) open(c NotifyConfig) error {
	if err := os.Chmod(c.Path, 0o600); err != nil {
		return err
	}
	if c.User != nil && int(c.User.UID) != os.Geteuid() {
		if err := os.Chown(c.Path, int(c.User.UID), -1); err != nil {
			return err
		}
	}
	return enableCredentials(n.conn)
}

// Close waits for the last call of OnNotice and removes the socket. It must not be called
// from OnNotice.
func (n *Notify) Close() error {
	path := n.conn.LocalAddr().String()
	err := n.conn.Close()
	n.done.Wait()
	if err == nil { // otherwise it was closed before, and the path may be another's by now
		err = os.Remove(path)
	}
	return err
}

func (n *Notify) receive(c NotifyConfig) {
	buf, oob := make([]byte, maxNotice), make([]byte, credentialSpace)
	for {
		size, oobSize, flags, _, err := n.conn.ReadMsgUnix(buf, oob)
		if err != nil {
			return // the socket is closed
		}
		if flags&syscall.MSG_TRUNC != 0 || !c.accepts(oob[:oobSize]) {
			continue
		}
		if notice := parseNotice(string(buf[:size])); notice != (Notice{}) {
			c.OnNotice(notice)
		}
	}
}

func parseNotice(text string) (n Notice) {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch {
		case line == "READY=1":
			n.Ready = true
		case line == "STOPPING=1":
			n.Stopping = true
		case line == "WATCHDOG=1":
			n.Watchdog = true
		case name == "STATUS":
			status := sanitize(value)
			n.Status = &status
		}
	}
	return n
}

// sanitize returns text that is safe to show: truncated, and without control characters.
func sanitize(text string) string {
	text = text[:min(len(text), maxStatus)]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
