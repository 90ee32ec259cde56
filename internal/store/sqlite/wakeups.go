package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/private"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	// gather is how long hints are delayed, so that they are sent together.
	gather = time.Millisecond
	// sendLimit bounds how long a peer that does not read can delay the sender. Its hint is
	// lost; it has unread ones.
	sendLimit = time.Millisecond
	// leftAfter is how long nothing has changed in a folder, or in a lock file, that nobody uses any
	// more: far longer than a process takes from making a socket to listening on it.
	leftAfter = 10 * time.Minute
	// maxSocketPath is the longest path of a socket that every system allows.
	maxSocketPath = 100
)

// codes are the topics in a datagram, one byte each.
var codes = func() map[store.Topic]byte {
	all := make(map[store.Topic]byte)
	for i, t := range store.Topics {
		if t != store.TopicSchema { // each process reads the version of the file
			all[t] = 'a' + byte(i)
		}
	}
	return all
}()

// wakeups carry hints between the processes of one user on one file. Each listening process
// has a datagram socket in a folder whose path all of them derive from the file's, and that no
// other user may enter. Processes of other users poll. The zero value, which a database in
// memory has, reaches no process.
type wakeups struct {
	dir     string
	program int // the version of the schema that the program is made for
	log     *slog.Logger

	mu      sync.Mutex
	own     map[string]*net.UnixConn // sockets of this handle, by path
	pending map[store.Topic]bool
	closed  bool
	senders sync.WaitGroup // of hints, and who sweeps
}

func newWakeups(path string, program int, log *slog.Logger) *wakeups {
	sum := sha256.Sum256([]byte(path))
	name := folderPrefix() + hex.EncodeToString(sum[:folderHash])
	dir := filepath.Join(runtimeDir(), name)
	if len(dir)+len("/4194304-v1000-0123456789abcdef") > maxSocketPath {
		dir = filepath.Join("/tmp", name)
	}
	return &wakeups{dir: dir, program: program, log: log, own: map[string]*net.UnixConn{}, pending: map[store.Topic]bool{}}
}

// folderHash is how many bytes of the hash of a file's path are in the name of its folder.
const folderHash = 8

// folderPrefix begins the names of this user's folders.
func folderPrefix() string { return fmt.Sprintf("pawl-%d-", os.Geteuid()) }

// isFolder reports whether a name is that of a folder of this user.
func isFolder(name string) bool {
	hash, is := strings.CutPrefix(name, folderPrefix())
	sum, err := hex.DecodeString(hash)
	return is && err == nil && len(sum) == folderHash
}

func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// Wake sends the topics to the other processes, a millisecond later and together with the
// topics woken until then, and without the steps: commits follow each other anyway.
func (db *DB) Wake(_ int, topics ...store.Topic) { db.wakeups.wake(topics) }

// Ask does nothing: on a file no process takes messages.
func (db *DB) Ask(int) {}

// Send does nothing.
func (db *DB) Send(string, *store.Message) {}

func (w *wakeups) wake(topics []store.Topic) {
	if w.dir == "" || len(topics) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if len(w.pending) == 0 {
		w.senders.Add(1)
		time.AfterFunc(gather, w.send)
	}
	for _, t := range topics {
		w.pending[t] = true
	}
}

// send sends the collected hints to every socket in the folder but its own.
func (w *wakeups) send() {
	defer w.senders.Done()
	w.mu.Lock()
	var hint []byte
	for t := range w.pending {
		if c, ok := codes[t]; ok {
			hint = append(hint, c)
		}
	}
	clear(w.pending)
	own := make(map[string]bool, len(w.own))
	for path := range w.own {
		own[path] = true
	}
	w.mu.Unlock()

	for _, path := range w.sockets() {
		if !own[path] {
			deliver(path, hint) // a process that cannot be reached polls
		}
	}
}

// sockets returns the sockets of this user in the folder, or none if another user may have put
// something there.
func (w *wakeups) sockets() (paths []string) {
	if private.Check(w.dir) != nil {
		return nil // usually no process has ever listened
	}
	files, err := os.ReadDir(w.dir)
	if err != nil {
		return nil
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && info.Mode().Type() == fs.ModeSocket && private.Own(info) {
			paths = append(paths, filepath.Join(w.dir, f.Name()))
		}
	}
	return paths
}

// deliver sends a hint to one socket.
func deliver(path string, hint []byte) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(sendLimit))
	_, err = c.Write(hint)
	return err
}

// clean removes those of the sockets that dead processes have left, which no process has bound. It stops
// once the handle is closed.
func (w *wakeups) clean(sockets []string) {
	for _, path := range sockets {
		if w.over() {
			return
		}
		if errors.Is(deliver(path, nil), syscall.ECONNREFUSED) {
			os.Remove(path)
		}
	}
}

// over reports whether the handle is closed.
func (w *wakeups) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// sweep removes what dead processes have left for other files: their sockets, and the folders that
// are empty then. A folder in which a process has just made a socket has changed since leftAfter;
// one that goes while a process is about to make a socket in it is made again by listen.
func (w *wakeups) sweep() {
	runtime := filepath.Dir(w.dir)
	entries, _ := os.ReadDir(runtime) // fewer or none if it cannot be read: another process sweeps, too
	for _, e := range entries {
		if w.over() {
			return
		}
		if isFolder(e.Name()) {
			w.retire(filepath.Join(runtime, e.Name()))
		}
	}
}

// retire removes a folder in which nothing has changed since leftAfter, unless a process listens in it.
func (w *wakeups) retire(dir string) {
	left := (&wakeups{dir: dir}).sockets() // before the time of the change, so that none is newer than that
	if info, err := os.Lstat(dir); err != nil || time.Since(info.ModTime()) < leftAfter || private.Check(dir) != nil {
		return
	}
	w.clean(left)
	os.Remove(dir) // fails while others listen
}

// Listen calls f with each topic that another process woke, one call at a time, until the
// database is closed or ctx ends, in which case it returns nil.
func (db *DB) Listen(ctx context.Context, f func(store.Hint)) error {
	if db.wakeups.dir == "" {
		return db.wakeups.idle(ctx)
	}
	c, err := db.wakeups.listen()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer db.wakeups.forget(c)
	buffer := make([]byte, 64)
	for {
		n, err := c.Read(buffer)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen for hints: %w", err)
		}
		for _, code := range buffer[:n] {
			if t, ok := topicOf(code); ok {
				f(store.Hint{Topic: t})
			}
		}
	}
}

// Hears reports whether hints of other processes reach this one. If there are no others, there
// is nothing to miss.
func (db *DB) Hears() bool {
	w := db.wakeups
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dir == "" || len(w.own) > 0
}

func topicOf(code byte) (store.Topic, bool) {
	for t, c := range codes {
		if c == code {
			return t, true
		}
	}
	return "", false
}

// idle waits where hints cannot be received.
func (w *wakeups) idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// listen opens a socket of its own. The last process that leaves removes the folder, which may
// happen just before the socket is created.
func (w *wakeups) listen() (*net.UnixConn, error) {
	c, err := w.bind()
	for try := 0; try < 10 && errors.Is(err, fs.ErrNotExist); try++ {
		c, err = w.bind()
	}
	if err != nil {
		return nil, fmt.Errorf("listen for hints: %w", err)
	}
	return c, nil
}

func (w *wakeups) bind() (*net.UnixConn, error) {
	if err := private.Make(w.dir); err != nil {
		return nil, err
	}
	w.clean(w.sockets())
	path := filepath.Join(w.dir, fmt.Sprintf("%d-v%d-%s", os.Getpid(), w.program, rand.Text()[:16]))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	w.own[path] = c
	w.senders.Go(w.sweep)
	return c, nil
}

func (w *wakeups) forget(c *net.UnixConn) {
	path := c.LocalAddr().String()
	c.Close()
	os.Remove(path)
	os.Remove(w.dir) // fails while others listen
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.own, path)
}

// close sends the pending hints and stops listening.
func (w *wakeups) close() {
	w.mu.Lock()
	w.closed = true
	for _, c := range w.own {
		c.Close()
	}
	w.mu.Unlock()
	w.senders.Wait()
}
