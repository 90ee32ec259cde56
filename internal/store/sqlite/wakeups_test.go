package sqlite

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/private"
	"github.com/pawl-dev/pawl/internal/store"
)

// A socket that a dead process has left stays until the next process listens.
func TestStaleSocket(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	w := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	stale := deadSocket(t, w.dir, "1-dead")
	w.wake([]store.Topic{store.TopicWork})
	w.close()
	if _, err := os.Lstat(stale); err != nil {
		t.Errorf("a hint has removed it: %v", err)
	}
	w = newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	defer w.close()
	if _, err := w.listen(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the next process has left it there")
	}
}

// deadSocket leaves a socket as death does.
func deadSocket(t *testing.T, dir, name string) string {
	t.Helper()
	if err := private.Make(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close() // a closed datagram socket leaves its file
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the socket is not there to begin with: %v", err)
	}
	return path
}

// TestLeftFolders: a process that listens removes the folders that processes on other files have
// left when they were killed, and nothing else.
func TestLeftFolders(t *testing.T) {
	runtime := filepath.Join(shortDir(t), "[a")
	if err := os.Mkdir(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	log := slog.New(slog.DiscardHandler)
	old := func(dir string) string {
		t.Helper()
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-2*leftAfter)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	folder := func(file string) string { return newWakeups(file, 7, log).dir }
	left := deadSocket(t, folder("/left"), "1-dead")
	old(filepath.Dir(left))
	empty := folder("/empty")
	if err := private.Make(empty); err != nil {
		t.Fatal(err)
	}
	old(empty)
	recent := deadSocket(t, folder("/recent"), "1-dead")
	named := deadSocket(t, filepath.Join(runtime, "pawl-data"), "1-dead")
	old(filepath.Dir(named))
	other := deadSocket(t, filepath.Join(runtime, folderPrefix()+"of-another-kind_"), "1-dead")
	old(filepath.Dir(other))
	open := deadSocket(t, folder("/open"), "1-dead")
	if err := os.Chmod(filepath.Dir(open), 0o777); err != nil {
		t.Fatal(err)
	}
	old(filepath.Dir(open))
	file := filepath.Join(folder("/with a file"), "data.csv")
	gone := deadSocket(t, filepath.Dir(file), "1-dead")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old(filepath.Dir(file))
	closed := newWakeups("/closed", 7, log)
	closed.close()
	closed.sweep()
	closed.retire(filepath.Dir(left))
	if _, err := os.Lstat(left); err != nil {
		t.Errorf("a handle that is closed delays that with a sweep: %v", err)
	}
	alive := newWakeups("/alive", 7, log)
	defer alive.close()
	c, err := alive.listen()
	if err != nil {
		t.Fatal(err)
	}
	alive.senders.Wait() // for its sweep, since both would change what the other sees
	old(alive.dir)

	w := newWakeups("/some/file", 7, log)
	if _, err := w.listen(); err != nil {
		t.Fatal(err)
	}
	w.senders.Wait() // for the sweep
	w.close()
	for _, path := range []string{filepath.Dir(left), empty, gone} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	for _, path := range []string{recent, named, other, open, file, c.LocalAddr().String()} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
}

// TestFolderOfSomebodyElse: whoever makes the folder for sockets before the user does,
// or a link in its place, gets no file removed, no hint, and no listener.
func TestFolderOfSomebodyElse(t *testing.T) {
	for name, prepare := range map[string]func(dir, precious string) error{
		"a link to a folder of the user": func(dir, precious string) error { return os.Symlink(precious, dir) },
		"a folder that others may enter": func(dir, _ string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"a folder of another user": func(dir, _ string) error {
			err := os.Mkdir(dir, 0o700)
			if err == nil && os.Geteuid() == 0 {
				return os.Chown(dir, 65534, -1)
			}
			return errors.Join(err, os.Chmod(dir, 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime := shortDir(t)
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			w := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
			precious := filepath.Join(runtime, "precious")
			if err := errors.Join(os.Mkdir(precious, 0o700), prepare(w.dir, precious)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(w.dir, "data.csv")
			if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := w.listen(); err == nil {
				t.Error("it listens there")
			}
			w.wake([]store.Topic{store.TopicWork})
			w.close()
			if _, err := os.Lstat(file); err != nil {
				t.Errorf("a file is gone: %v", err)
			}
		})
	}
}

// TestOnlySocketsAreSpokenTo: what else lies in the folder stays, however it got there.
func TestOnlySocketsAreSpokenTo(t *testing.T) {
	runtime := shortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	w := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	target := deadSocket(t, filepath.Join(runtime, "elsewhere"), "1-dead")
	if err := errors.Join(private.Make(w.dir), os.WriteFile(filepath.Join(w.dir, "file"), nil, 0o600), os.Symlink(target, filepath.Join(w.dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.listen(); err != nil {
		t.Fatal(err)
	}
	w.wake([]store.Topic{store.TopicWork})
	w.close()
	for _, path := range []string{filepath.Join(w.dir, "file"), filepath.Join(w.dir, "link"), target} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
}

// The folder for sockets goes with the last that listens.
func TestSocketFolderGoes(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	w := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	defer w.close()
	a, err := w.listen()
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.listen()
	if err != nil {
		t.Fatal(err)
	}
	w.forget(a)
	if _, err := os.Lstat(w.dir); err != nil {
		t.Errorf("the folder went while one listens: %v", err)
	}
	w.forget(b)
	if _, err := os.Lstat(w.dir); err == nil {
		t.Error("the folder is left")
	}
}

// However deep the folder for sockets lies, their paths are short enough.
func TestSocketPath(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/"+strings.Repeat("deep/", 40))
	w := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	if len(w.dir) > maxSocketPath-36 {
		t.Errorf("folder %s is too long", w.dir)
	}
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestEveryTopicIsHeard: a hint of each topic reaches another process on the file.
func TestEveryTopicIsHeard(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	listener, sender := newWakeups("/some/file", 7, slog.New(slog.DiscardHandler)), newWakeups("/some/file", 7, slog.New(slog.DiscardHandler))
	defer listener.close()
	defer sender.close()
	conn, err := listener.listen()
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range store.Topics {
		if topic == store.TopicSchema {
			continue
		}
		sender.wake([]store.Topic{topic})
		b := make([]byte, 16)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil || n != 1 {
			t.Fatalf("%s: %d bytes, %v; want the hint", topic, n, err)
		}
		if got, known := topicOf(b[0]); !known || got != topic {
			t.Errorf("%s is heard as %s", topic, got)
		}
	}
}
