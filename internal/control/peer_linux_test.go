package control

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Another user is refused even where the folder is open to all.
func TestStranger(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	l, _ := serve(t, dir, &fake{})
	must(t, os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711), os.Chmod(l.Path(), 0o777))
	const nobody = 65534
	want, answer := " 200 ", make(chan string, 1)
	if os.Geteuid() == 0 {
		want = " 403 "
	}
	go func() {
		runtime.LockOSThread()                                                // the thread ends with the goroutine, and so does what it became
		_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody) // only root may: others stay what they are
		answer <- dialled(l.Path())
	}()
	if got := <-answer; !strings.Contains(got, want) {
		t.Errorf("got %q, want%s", got, want)
	}
}

// dialled asks from this very thread.
func dialled(path string) string {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err.Error()
	}
	_, _ = unix.Write(fd, []byte("GET /v1/services HTTP/1.0\r\n\r\n"))
	b := make([]byte, 1<<10)
	n, _ := unix.Read(fd, b)
	return string(b[:max(n, 0)])
}
