package process

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// say sends each of args as a message to $NOTIFY_SOCKET, as sd_notify(3) does, with a
// file beside it.
func say(args []string) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		panic(err)
	}
	to := &syscall.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}
	for _, text := range args {
		if err := syscall.Sendmsg(fd, []byte(text), syscall.UnixRights(0), to, 0); err != nil {
			panic(err)
		}
	}
}

// shortDir returns a folder whose name leaves room for that of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, c NotifyConfig) (*Notify, <-chan Notice) {
	t.Helper()
	got := make(chan Notice, 100) // more than any test sends
	c.OnNotice = func(n Notice) { got <- n }
	n, err := ListenNotify(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n, got
}

func next(t *testing.T, got <-chan Notice) Notice {
	t.Helper()
	select {
	case n := <-got:
		return n
	case <-time.After(patience):
		t.Fatal("nothing was heard")
		return Notice{}
	}
}

// TestNotify: a program says how it is, and what cannot be understood is passed over.
func TestNotify(t *testing.T) { // S14
	t.Parallel()
	path := shortDir(t) + "/notify"
	n, got := listen(t, NotifyConfig{Path: path})
	s := program("say", "READY=1\nMAINPID=77\nSTATUS=up\tand \x1b[1mwell\nX_OTHER=1", "", "READY=0\nREADY", "WATCHDOG=1", strings.Repeat("x", 4090)+"\nREADY=1",
		"STATUS="+strings.Repeat("y", 2000), "STATUS=\nSTOPPING=1")
	s.Env = append(s.Env, "NOTIFY_SOCKET="+path)
	if e := wantDone(t, start(t, s)); e.Code != 0 {
		t.Fatal(e)
	}
	if first := next(t, got); !first.Ready || first.Watchdog || first.Stopping || *first.Status != "up and  [1mwell" {
		t.Errorf("heard %+v", first)
	}
	if second := next(t, got); second != (Notice{Watchdog: true}) {
		t.Errorf("heard %+v", second)
	}
	if third := next(t, got); *third.Status != strings.Repeat("y", maxStatus) {
		t.Errorf("heard a status of %d bytes", len(*third.Status))
	}
	if last := next(t, got); !last.Stopping || *last.Status != "" {
		t.Errorf("heard %+v", last)
	}
	n.Close()
	n.Close()
	wantNoFile(t, path)
}

// TestNotifySenders: strangers of the same user are not heard.
func TestNotifySenders(t *testing.T) { // S14
	t.Parallel()
	path := shortDir(t) + "/notify"
	var own *Process
	started := make(chan struct{})
	_, got := listen(t, NotifyConfig{Path: path, Accept: func(pid int) bool {
		<-started
		return own.Owns(pid)
	}})
	out := newScreen()
	s := shell(`"$0" program say STATUS=mine; echo ready; read x <"$1"`, "NOTIFY_SOCKET="+path)
	hold, _ := namedPipe(t)
	s.Args, s.Stdout = append(s.Args, program("").Path, hold), out
	own = start(t, s)
	out.wait(t, "ready", 1)
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil { // this process is a stranger, and lives
		t.Fatal(err)
	}
	again := program("say", "STATUS=gone") // who has ended cannot be told
	again.Env = append(again.Env, "NOTIFY_SOCKET="+path)
	wantDone(t, start(t, again))
	close(started)
	if n := next(t, got); n.Ready || *n.Status != "mine" {
		t.Errorf("heard %+v", n)
	}
	if n := next(t, got); n.Ready || *n.Status != "gone" {
		t.Errorf("heard a stranger: %+v", n)
	}
}

// TestNotifyUser: a program of another user is heard, a third user's is not.
func TestNotifyUser(t *testing.T) { // S14
	t.Parallel()
	if os.Geteuid() != 0 {
		return // the test cannot be another user
	}
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := dir + "/notify"
	_, got := listen(t, NotifyConfig{Path: path, User: &Account{UID: 65534, GID: 65534}})
	self, err := os.ReadFile(program("").Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/say", self, 0o755); err != nil { // where others may run it
		t.Fatal(err)
	}
	for _, user := range []string{"12345", "65534"} {
		s := program("say", "STATUS="+user)
		s.Path, s.Args[0] = dir+"/say", dir+"/say"
		s.User, s.Group = user, user
		s.Env = append(s.Env, "NOTIFY_SOCKET="+path)
		e := wantDone(t, start(t, s))
		if want := user == "65534"; (e.Code == 0) != want {
			t.Errorf("%s ended with %+v", user, e)
		}
	}
	if n := next(t, got); *n.Status != "65534" {
		t.Errorf("heard %s", *n.Status)
	}
}

// TestNotifyPath: a path that is too long is refused in words, what a killed process
// left there is removed, and what is not a socket is not.
func TestNotifyPath(t *testing.T) { // S14
	t.Parallel()
	dir := shortDir(t)
	long := filepath.Join(dir, strings.Repeat("x", 120))
	if _, err := ListenNotify(NotifyConfig{Path: long}); err == nil || !strings.Contains(err.Error(), "bytes, at most 10") {
		t.Errorf("got %v", err)
	}
	first, _ := listen(t, NotifyConfig{Path: dir + "/s"})
	_ = first.conn.Close()
	_, got := listen(t, NotifyConfig{Path: dir + "/s"})
	s := program("say", "READY=1")
	s.Env = append(s.Env, "NOTIFY_SOCKET="+dir+"/s")
	wantDone(t, start(t, s))
	next(t, got)
	if err := os.WriteFile(dir+"/file", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenNotify(NotifyConfig{Path: dir + "/file"}); err == nil {
		t.Error("a file was taken for a socket")
	}
	wantFile(t, dir+"/file", "x")
}

// TestNotifyPython: a client that others have written.
func TestNotifyPython(t *testing.T) { // S14
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		return // TestNotify has the same conversation
	}
	path := shortDir(t) + "/notify"
	_, got := listen(t, NotifyConfig{Path: path})
	s := Spec{Path: python, Args: []string{"python3", "-c", `import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect(os.environ["NOTIFY_SOCKET"])
s.sendall(b"READY=1\nSTATUS=from elsewhere")`}, Env: []string{"NOTIFY_SOCKET=" + path}}
	wantDone(t, start(t, s))
	if n := next(t, got); !n.Ready || *n.Status != "from elsewhere" {
		t.Errorf("heard %+v", n)
	}
}
