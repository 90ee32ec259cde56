package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds what a test waits for if it fails; none waits so long if it
// does not.
const patience = 30 * time.Second

// The test binary stands in for programs: "program NAME ARG...".
var programsOfTests = map[string]func(args []string){
	"deaf":   deaf,
	"daemon": daemon,
	"ending": familyThatEnds,
	"host":   host,
	"reaper": reaper,
	"say":    say,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "program" {
		programsOfTests[os.Args[2]](os.Args[3:])
		return
	}
	goleak.VerifyTestMain(m)
}

// program returns what one of programsOfTests is started from.
func program(name string, args ...string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Path: self, Args: append([]string{self, "program", name}, args...), Env: os.Environ()}
}

// shell returns what a script is started from.
func shell(script string, env ...string) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: append(os.Environ(), env...)}
}

// deaf holds a named pipe open, says ready and stays, whatever SIGTERM says.
func deaf(args []string) {
	f, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close() // keeps it from being collected
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	fmt.Println("ready")
	select {}
}

// daemon leaves a deaf process in a session of its own, without a parent of ours:
// args[0] is its named pipe, args[1] how many more times to fork.
func daemon(args []string) {
	next := program("deaf", args[0])
	if args[1] != "0" {
		next = program("daemon", args[0], "0")
	}
	c := exec.Command(next.Path, next.Args[1:]...)
	c.Stdout = os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
}

// host runs deaf processes in a program with a mark, args[0], and a limit, until it
// is killed: the program, a child of it, and a daemon. The rest are their named pipes.
func host(args []string) {
	files := uint64(64)
	self := program("").Path
	s := shell(`"$0" program deaf "$2" & "$0" program daemon "$3" 1; exec "$0" program deaf "$1"`)
	s.Args = append(s.Args, self, args[1], args[2], args[3])
	s.Mark, s.Stdout, s.Limits = args[0], os.Stdout, Limits{OpenFiles: &files}
	p, err := Start(s)
	if err != nil {
		panic(err)
	}
	<-p.Done()
}

// A screen keeps what a program prints.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// wait waits until text was printed n times.
func (s *screen) wait(t *testing.T, text string, n int) {
	t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		found, changed := strings.Count(s.text.String(), text), s.changed
		s.mu.Unlock()
		if found >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("printed %q, want %q %d times", s, text, n)
		}
	}
}

// start starts a program and stops it at the end of the test.
func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(context.Background(), syscall.SIGKILL, 0) })
	return p
}

func wantDone(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("it is not done")
	}
	e := p.Exit()
	if e.At.IsZero() {
		t.Error("it is not known when it ended")
	}
	return e
}

// namedPipe makes a named pipe and opens it for reading. Its end is read when
// the last process that writes it has died.
func namedPipe(t *testing.T) (path string, r *os.File) {
	t.Helper()
	path = t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return path, r
}

// wantDead waits until no process holds the named pipe open for writing.
func wantDead(t *testing.T, r *os.File) {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(r); err != nil {
		t.Fatalf("a process is still alive: %v", err)
	}
}

// wantAlive checks that a process holds it open.
func wantAlive(t *testing.T, r *os.File) {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(time.Millisecond))
	if n, err := r.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Fatalf("read %d bytes, %v; want a process to be alive", n, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
