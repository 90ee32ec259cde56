package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestExit: the exit says how a program ended, and its output is complete.
func TestExit(t *testing.T) { // S14
	t.Parallel()
	for _, tt := range []struct {
		name, script string
		code         int
		signal       syscall.Signal
		out, err     string
	}{
		{"success", "exit 0", 0, 0, "", ""},
		{"at once", "", 0, 0, "", ""},
		{"failure", "exit 3", 3, 0, "", ""},
		{"signal", "kill -KILL $$", -1, syscall.SIGKILL, "", ""},
		{"output", "echo $0 $A; echo b >&2; printf end", 0, 0, "sh a\nend", "b\n"},
		{"closed output", "exec >&- 2>&-; exit 4", 4, 0, "", ""},
		{"no input", "read x || echo none", 0, 0, "none\n", ""},
		{"a group of its own", `set -- $(cat /proc/self/stat); test "$5" = $$ || test ! -e /proc && echo own`, 0, 0, "own\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := newScreen(), newScreen()
			s := shell(tt.script, "A=a")
			s.Stdout, s.Stderr = out, err
			e := wantDone(t, start(t, s))
			if e.Code != tt.code || e.Signal != tt.signal || e.Held {
				t.Errorf("ended with %+v, want code %d, signal %d", e, tt.code, tt.signal)
			}
			if out.String() != tt.out || err.String() != tt.err {
				t.Errorf("printed %q and %q, want %q and %q", out, err, tt.out, tt.err)
			}
		})
	}
}

// TestStartErrors: what is missing or forbidden is named.
func TestStartErrors(t *testing.T) { // S14
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"plain": "x", "nointerpreter": "#!" + dir + "/none\n", "noprogram": "x"} {
		mode := fs.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		if err := os.WriteFile(dir+"/"+name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		spec Spec
		want string
		is   error
	}{
		{Spec{Path: dir + "/missing"}, "start DIR/missing: it does not exist", fs.ErrNotExist},
		{Spec{Path: dir + "/nointerpreter"}, "start DIR/nointerpreter: the interpreter that it asks for does not exist", fs.ErrNotExist},
		{Spec{Path: dir + "/noprogram"}, "start DIR/noprogram: it is neither a program nor does it begin with #!", syscall.ENOEXEC},
		{Spec{Path: dir + "/plain"}, "start DIR/plain: permission denied, to execute it or to enter its folder", fs.ErrPermission},
		{Spec{Path: "/bin/sh", Dir: dir + "/missing"}, `start /bin/sh: the folder "DIR/missing" does not exist`, fs.ErrNotExist},
		{Spec{Path: "/bin/sh", Dir: dir + "/plain"}, `start /bin/sh: "DIR/plain" is not a folder`, syscall.ENOTDIR},
		{Spec{Path: "/bin/sh", Args: []string{"sh", strings.Repeat("x", 1<<20)}}, "start /bin/sh: its arguments and env are longer than the system allows", syscall.E2BIG},
		{Spec{Path: "/bin/sh", User: "no such user"}, `user: "no such user" is neither the name nor the number of a user`, fs.ErrNotExist},
		{Spec{Path: "/bin/sh", User: "4000000001"}, "user: no account has the number 4000000001; set group, too", fs.ErrNotExist},
		{Spec{Path: "/bin/sh", Group: "no such group"}, `group: "no such group" is neither the name nor the number of a group`, fs.ErrNotExist},
	} {
		tt.spec.Stdout = newScreen()
		_, err := Start(tt.spec)
		if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestFind: programs are found as the program itself would find them.
func TestFind(t *testing.T) { // S14
	t.Parallel()
	if path, err := Find("sh", "/", "relative:/nonexistent:/bin"); path != "/bin/sh" || err != nil {
		t.Errorf("found %q, %v", path, err)
	}
	if path, err := Find("./sh", "/bin", ""); path != "/bin/sh" || err != nil {
		t.Errorf("found %q, %v", path, err)
	}
	if _, err := Find("sh", "/", "/nonexistent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Find("/bin", "/", ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// TestStop: the signal first, SIGKILL for what does not listen.
func TestStop(t *testing.T) { // S14
	t.Parallel()
	const slow = `(trap 'echo cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait`
	for _, tt := range []struct {
		name   string
		spec   func(fifo string) Spec
		grace  time.Duration
		freeze bool
		killed bool
		signal syscall.Signal
		out    string
	}{
		{"it listens", func(string) Spec { return shell("echo ready; exec sleep 1000") }, patience, false, false, syscall.SIGTERM, "ready\n"},
		{"it is deaf", func(f string) Spec { return program("deaf", f) }, 20 * time.Millisecond, false, true, syscall.SIGKILL, "ready\n"},
		{"its child is slow", func(string) Spec { return shell(slow) }, patience, false, false, syscall.SIGTERM, "ready\ncleaned\n"},
		{"its child is deaf", func(f string) Spec {
			s := shell(`"$0" program deaf "$1" & wait`)
			s.Args = append(s.Args, program("").Path, f)
			return s
		}, 100 * time.Millisecond, false, true, syscall.SIGTERM, "ready\n"},
		{"it is frozen", func(string) Spec { return shell("echo ready; exec sleep 1000") }, patience, true, false, syscall.SIGTERM, "ready\n"},
		{"it is frozen and deaf", func(f string) Spec { return program("deaf", f) }, 20 * time.Millisecond, true, true, syscall.SIGKILL, "ready\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fifo, r := namedPipe(t)
			out := newScreen()
			s := tt.spec(fifo)
			s.Stdout = out
			p := start(t, s)
			out.wait(t, "ready", 1)
			if tt.freeze {
				p.Signal(syscall.SIGSTOP)
			}
			killed := p.Stop(context.Background(), syscall.SIGTERM, tt.grace)
			e := wantDone(t, p)
			if killed != tt.killed || e.Signal != tt.signal || out.String() != tt.out {
				t.Errorf("killed %v, %+v, printed %q; want %v, %v, %q", killed, e, out, tt.killed, tt.signal, tt.out)
			}
			wantDead(t, r)
			if again := p.Stop(context.Background(), syscall.SIGTERM, 0); again != killed {
				t.Errorf("a second stop answered %v", again)
			}
			p.Signal(syscall.SIGKILL) // nobody
		})
	}
}

// TestStopForced: the end of the context ends the grace; the least patient of two stops
// counts, and both return the same.
func TestStopForced(t *testing.T) { // S14
	t.Parallel()
	fifo, r := namedPipe(t)
	out := newScreen()
	s := program("deaf", fifo)
	s.Stdout = out
	p := start(t, s)
	out.wait(t, "ready", 1)
	ctx, force := context.WithCancel(context.Background())
	var stops sync.WaitGroup
	for _, ctx := range []context.Context{ctx, context.Background()} {
		stops.Go(func() {
			if !p.Stop(ctx, syscall.SIGTERM, patience) {
				t.Error("it was not killed")
			}
		})
	}
	force()
	stops.Wait()
	wantDead(t, r)
}

// TestStopRacesWithExit: a stop at whatever moment of a short life ends.
func TestStopRacesWithExit(t *testing.T) { // S14
	t.Parallel()
	for i := range 20 {
		p := start(t, shell("sleep 0.00$N", fmt.Sprintf("N=%d", i%10)))
		p.Stop(context.Background(), syscall.SIGTERM, patience)
		wantDone(t, p)
	}
}

// TestLeavesNothing: what is left of the group dies with the program.
func TestLeavesNothing(t *testing.T) { // S14
	t.Parallel()
	fifo, r := namedPipe(t)
	out := newScreen()
	s := shell(`"$0" program deaf "$1" & read go <"$2"`)
	gate := t.TempDir() + "/gate"
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Args = append(s.Args, program("").Path, fifo, gate)
	s.Stdout, s.Drain = out, patience
	p := start(t, s)
	out.wait(t, "ready", 1)
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if e := wantDone(t, p); e.Code != 0 || e.Held {
		t.Errorf("ended with %+v", e)
	}
	wantDead(t, r)
}

// TestSlowWriter: a slow writer gets all output, also when the program has long ended.
func TestSlowWriter(t *testing.T) { // S14
	t.Parallel()
	const size = 64 << 10 // what a pipe holds
	w := &gate{open: make(chan struct{})}
	s := shell(fmt.Sprintf("head -c %d /dev/zero", size))
	s.Stdout, s.Drain = w, time.Nanosecond
	p := start(t, s)
	<-p.Ended()
	close(w.open)
	if e := wantDone(t, p); w.bytes != size || e.Held {
		t.Errorf("got %d bytes and %+v, want %d", w.bytes, e, size)
	}
}

// A gate takes nothing until it is open.
type gate struct {
	open  chan struct{}
	bytes int
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.bytes += len(p)
	return len(p), nil
}
