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

// An About identifies a host.
type About struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"` // "supervisor" or "server"
	PID       int       `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	File      string    `json:"file,omitempty"`  // that its services come from
	State     string    `json:"state,omitempty"` // the folder of its logs and its journal
}

// checkInterval is how often the listener checks that the socket still exists: cleaners
// of temporary folders remove it, and so does the end of the login session that the
// folder belongs to.
const checkInterval = time.Minute

// sweepers is how often a name that seems taken is tried, a millisecond apart: a process that sweeps holds
// the lock of a dead one for a moment, and longer if it gets no processor.
const sweepers = 200

// A Listener is the socket of a host, and the lock on its name.
type Listener struct {
	about         About
	path          string
	lock          *flock.Flock
	socket        *net.UnixListener
	checkInterval time.Duration
}

// Listen creates the socket of the host in dir; Close removes it. Name and Role must be
// set; the process is this one. A name that another process holds is a *TakenError. The
// socket of a dead process is replaced, and those of other dead processes in dir are removed.
func Listen(dir string, about About) (*Listener, error) {
	about.PID, about.StartedAt = os.Getpid(), time.Now()
	path, err := socketOf(dir, about.Name)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	l := &Listener{about: about, path: path, checkInterval: checkInterval}
	if err := l.hold(); err != nil {
		return nil, err
	}
	if err := l.listen(); err != nil {
		l.release()
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the socket cannot be made", Err: err}
	}
	sweep(filepath.Dir(path))
	return l, nil
}

// Path returns the path of the socket.
func (l *Listener) Path() string { return l.path }

// Close removes the socket and releases the name. It may be called more than once.
func (l *Listener) Close() error {
	err := l.socket.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	if l.lock.Locked() {
		_ = os.Remove(l.path) // if that fails, the next Listen replaces it
	}
	l.release()
	return err
}

// recreate creates the socket again if it was removed, and returns it, or nil. If the lock
// was removed too, it is taken again, unless another process holds it.
func (l *Listener) recreate() (*net.UnixListener, error) {
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
	_ = l.socket.Close() // no client can reach it
	err := l.listen()
	return l.socket, err
}

// own reports whether the file of a held lock still exists.
func own(lock *flock.Flock) bool {
	mine, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(mine, there)
}

// hold locks the name, until this process ends at the latest, and writes into the lock who
// holds it.
func (l *Listener) hold() error {
	file := lockOf(l.path)
	lock, err := take(file)
	for try := 0; try < sweepers && lock == nil && err == nil; try++ {
		time.Sleep(time.Millisecond)
		lock, err = take(file)
	}
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

// A TakenError is returned by Listen for a name that another process holds. It is of kind
// Conflict.
type TakenError struct {
	Role, Name string
	PID        int // of the holder; 0: not known
}

func (e *TakenError) Error() string { return e.Unwrap().Error() }

func (e *TakenError) Unwrap() error {
	err := pawl.Errorf(pawl.Conflict, "%s %s already runs", e.Role, e.Name)
	if e.PID != 0 {
		err.Message += fmt.Sprintf(", pid %d", e.PID)
	}
	return err
}

// taken is the error for a name that another process holds.
func taken(file string, wanted About) error {
	if holder, ok := holderOf(file); ok {
		return &TakenError{holder.Role, holder.Name, holder.PID}
	}
	return &TakenError{wanted.Role, wanted.Name, 0}
}

// lockOf returns the path of the lock that belongs to a socket.
func lockOf(socket string) string { return strings.TrimSuffix(socket, socketEnding) + lockEnding }

// holderOf returns the holder of a lock, or the last one, from its file.
func holderOf(lock string) (holder About, ok bool) {
	note, err := os.ReadFile(lock)
	ok = err == nil && json.Unmarshal(note, &holder) == nil && holder.PID != 0
	return holder, ok
}

// take locks a file, or returns nil if another process holds it. A holder removes its file
// before it releases the lock, so a lock counts only if its file still exists.
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
		discard(l.lock)
	}
}

// listen is called with the lock held: a socket that exists belongs to a dead process.
func (l *Listener) listen() error {
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.path, Net: "unix"})
	if err != nil {
		return err
	}
	socket.SetUnlinkOnClose(false) // it may belong to another process by then
	if err := os.Chmod(l.path, 0o600); err != nil {
		return errors.Join(err, socket.Close())
	}
	l.socket = socket
	return nil
}
