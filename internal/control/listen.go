package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/pawl-dev/pawl"
)

// An About is what a host says of itself.
type About struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"` // "supervisor" or "server"
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	File      string    `json:"file,omitempty"`  // that its services come from
	State     string    `json:"state,omitempty"` // the folder of its logs and its journal
}

// look is how often a socket is looked for that somebody may have removed: who cleans
// the folder of temporary files, or ends the login that its folder belongs to.
const look = time.Minute

// A Listener is a host's socket, which it has for itself.
type Listener struct {
	about  About
	path   string
	lock   *flock.Flock
	socket *net.UnixListener
	look   time.Duration
}

// Listen makes the socket of the host in the folder, where it lies until Close.
// Name and Role are to be set; the process is this one. A name that another process
// has is an error of kind Conflict that names its pid; the socket that a dead one
// has left is replaced.
func Listen(dir string, about About) (*Listener, error) {
	about.PID, about.StartedAt = os.Getpid(), time.Now()
	path, err := socketOf(dir, about.Name)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	l := &Listener{about: about, path: path, look: look}
	if err := l.hold(); err != nil {
		return nil, err
	}
	if err := l.listen(); err != nil {
		l.release()
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the socket cannot be made", Err: err}
	}
	return l, nil
}

// Path is that of the socket.
func (l *Listener) Path() string { return l.path }

// Close removes the socket and lets go of the name. Closing twice is fine.
func (l *Listener) Close() error {
	err := l.socket.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if l.lock.Locked() {
		_ = os.Remove(l.path) // one that stays is replaced by the next
	}
	l.release()
	return err
}

// again makes a socket anew that somebody has removed, or answers nil. The lock may
// be gone with it: then it is taken anew too, if nobody else has.
func (l *Listener) again() (*net.UnixListener, error) {
	if _, err := os.Lstat(l.path); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := makeFolder(filepath.Dir(l.path)); err != nil {
		return nil, err
	}
	if !own(l.lock) {
		_ = l.lock.Close()
		if err := l.hold(); err != nil {
			return nil, err
		}
	}
	_ = l.socket.Close() // nobody finds it
	err := l.listen()
	return l.socket, err
}

// own reports whether the file of a lock that is held is still there.
func own(lock *flock.Flock) bool {
	mine, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(mine, there)
}

// hold takes the lock of the name, which the kernel ends with this process, and
// writes into it whose it is.
func (l *Listener) hold() error {
	file := lockOf(l.path)
	lock, err := take(file)
	if err != nil {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the lock of the name " + l.about.Name + " cannot be taken", Err: err}
	}
	if lock == nil {
		return taken(file, l.about)
	}
	l.lock = lock
	note, err := json.Marshal(l.about)
	if err == nil {
		err = os.WriteFile(file, note, 0o600)
	}
	if err != nil {
		l.release()
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the lock of the name " + l.about.Name + " cannot be written", Err: err}
	}
	return nil
}

// taken is the error of a name that another process has.
func taken(file string, wanted About) error {
	e := &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("%s %s already runs", wanted.Role, wanted.Name), Hint: "look at it with: pawl service list --host " + wanted.Name}
	if wanted.Role == "supervisor" {
		e.Hint += "; another file takes another --name"
	}
	if holder, ok := holderOf(file); ok {
		e.Message = fmt.Sprintf("%s %s already runs, pid %d", holder.Role, holder.Name, holder.PID)
	}
	return e
}

// lockOf answers the file of the lock that belongs to a socket.
func lockOf(socket string) string { return strings.TrimSuffix(socket, socketEnding) + lockEnding }

// holderOf answers what a lock says of who has it, or had it last.
func holderOf(lock string) (holder About, ok bool) {
	note, err := os.ReadFile(lock)
	ok = err == nil && json.Unmarshal(note, &holder) == nil && holder.PID != 0
	return holder, ok
}

// take locks a file, or answers nil if another process has it. A holder removes its
// file before it lets go; so the lock counts only if the file is still there.
func take(file string) (*flock.Flock, error) {
	for {
		lock := flock.New(file, flock.SetPermissions(0o600))
		ok, err := lock.TryLock()
		if err != nil || !ok {
			return nil, errors.Join(err, lock.Close())
		}
		if own(lock) {
			return lock, nil
		}
		_ = lock.Close()
	}
}

func (l *Listener) release() {
	if l.lock.Locked() {
		_ = os.Remove(l.lock.Path()) // one that stays does no harm
		_ = l.lock.Close()
	}
}

// listen is called with the lock: a socket that is there is of a dead process.
func (l *Listener) listen() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return err
	}
	socket.SetUnlinkOnClose(false) // by then it may be another's
	if err := os.Chmod(l.path, 0o600); err != nil {
		return errors.Join(err, socket.Close())
	}
	l.socket = socket
	return nil
}
