package sqlite

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
)

// A socket that a dead process has left is removed by the first hint.
func TestStaleSocket(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	w := newWakeups("/some/file", slog.New(slog.DiscardHandler))
	if err := private(w.dir); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(w.dir, "1-dead")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: stale, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close() // a closed datagram socket leaves its file, as death does
	if _, err := os.Lstat(stale); err != nil {
		t.Fatalf("the socket is not there to begin with: %v", err)
	}
	w.wake([]store.Topic{store.TopicWork})
	w.close()
	if _, err := os.Lstat(stale); err == nil {
		t.Error("the stale socket is still there")
	}
}

// The folder for sockets goes with the last that listens.
func TestSocketFolderGoes(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	w := newWakeups("/some/file", slog.New(slog.DiscardHandler))
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
	w := newWakeups("/some/file", slog.New(slog.DiscardHandler))
	if len(w.dir) > maxSocketPath-30 {
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
