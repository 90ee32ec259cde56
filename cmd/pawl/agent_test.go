package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
)

// A socket that somebody listens on stays, however busy he is; one that a dead process has left is
// replaced; anything else is not touched. Not parallel: the umask is the process's.
func TestListenSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := listenSocket(path); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("of a living process: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if l, err = listenSocket(path); err != nil {
		t.Fatal(err)
	}
	l.Close()

	busy, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(busy)
	if err := syscall.Bind(busy, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(busy, 0); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", path) // fills its queue
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := listenSocket(path); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("of a busy process: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}

	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(file); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("of a file: %v", err)
	}
}
