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
	maxNotice = 4096 // bytes of a message, as with systemd
	maxStatus = 1024 // bytes of a status that are kept
)

// A Notice is what a program says of itself.
type Notice struct {
	Ready, Stopping, Watchdog bool
	Status                    *string // nil: it says nothing of it
}

// NotifyConfig is what a Notify is made of.
type NotifyConfig struct {
	Path string   // of the socket; at most 107 bytes on Linux, 103 elsewhere. One that is left there is removed
	User *Account // that of the program; nil: this process's

	// Accept tells whether the program owns the process that a message is from; see
	// Process.Owns. It is asked on Linux only, and for processes of User or of this
	// process's user; others are not heard. nil: all of them are.
	Accept func(pid int) bool

	// Got is called with each message, from one goroutine. Senders wait for it.
	Got func(Notice)
}

// A Notify is a socket at which a program says how it is, as with sd_notify(3): it
// understands READY=1, STOPPING=1, WATCHDOG=1 and STATUS=text. Other lines, messages
// of more than 4096 bytes and files that come along are ignored.
type Notify struct {
	conn *net.UnixConn
	done sync.WaitGroup
}

// ListenNotify opens the socket. The folder has to be there, and to be private: where
// senders cannot be told, it is all that keeps others out.
func ListenNotify(c NotifyConfig) (*Notify, error) {
	if limit := len(syscall.RawSockaddrUnix{}.Path) - 1; len(c.Path) > limit {
		return nil, fmt.Errorf("the path of the notify socket has %d bytes, at most %d are allowed: %s", len(c.Path), limit, c.Path)
	}
	if info, err := os.Lstat(c.Path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(c.Path) // what fails is said by what follows
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: c.Path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("make the notify socket: %w", err)
	}
	n := &Notify{conn: conn}
	if err := n.open(c); err != nil {
		conn.Close()
		_ = os.Remove(c.Path)
		return nil, fmt.Errorf("make the notify socket %s: %w", c.Path, err)
	}
	n.done.Go(func() { n.receive(c) })
	return n, nil
}

// open lets the program's user write to the socket, and no other.
func (n *Notify) open(c NotifyConfig) error {
	if err := os.Chmod(c.Path, 0o600); err != nil {
		return err
	}
	if c.User != nil && int(c.User.UID) != os.Geteuid() {
		if err := os.Chown(c.Path, int(c.User.UID), -1); err != nil {
			return err
		}
	}
	return askForSenders(n.conn)
}

// Close ends the calls of Got and removes the socket. It must not be called from Got.
func (n *Notify) Close() error {
	path := n.conn.LocalAddr().String()
	err := n.conn.Close()
	n.done.Wait()
	if err == nil { // else it was closed before, and the path may be another's
		err = os.Remove(path)
	}
	return err
}

func (n *Notify) receive(c NotifyConfig) {
	buf, oob := make([]byte, maxNotice), make([]byte, senderSpace)
	for {
		size, oobSize, flags, _, err := n.conn.ReadMsgUnix(buf, oob)
		if err != nil {
			return // it is closed
		}
		if flags&syscall.MSG_TRUNC != 0 || !c.hears(oob[:oobSize]) {
			continue
		}
		if notice := parseNotice(string(buf[:size])); notice != (Notice{}) {
			c.Got(notice)
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
			status := plain(value)
			n.Status = &status
		}
	}
	return n
}

// plain answers text that can be shown: bounded, and without control characters.
func plain(text string) string {
	text = text[:min(len(text), maxStatus)]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
