package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestOutputHeldOpen: a process out of reach that holds the output open blocks nothing.
func TestOutputHeldOpen(t *testing.T) { // S14
	t.Parallel()
	fifo, r := namedPipe(t)
	out := newScreen()
	hold, _ := namedPipe(t)
	s := shell(`"$0" program daemon "$1" 1; read go <"$2"`, "PAWL_TEST="+fifo)
	s.Args = append(s.Args, program("").Path, fifo, hold)
	s.Stdout, s.Drain = out, 20*time.Millisecond
	p := start(t, s)
	out.wait(t, "ready", 1)
	p.Signal(syscall.SIGTERM)
	if e := wantDone(t, p); !e.Held || e.Signal != syscall.SIGTERM {
		t.Errorf("ended with %+v, want the output to be held open", e)
	}
	wantAlive(t, r)
	if n, err := Sweep(t.Context(), "PAWL_TEST="+fifo); n < 1 || err != nil { // its parent may be about to end
		t.Errorf("swept %d, %v", n, err)
	}
	wantDead(t, r)
}

// TestMarked: a daemon that has left the group, its parents dead and the output in
// its hands, dies with the program.
func TestMarked(t *testing.T) { // S14
	t.Parallel()
	fifo, r := namedPipe(t)
	out := newScreen()
	s := shell(`"$0" program daemon "$1" 1; read go <"$2"`)
	hold, _ := namedPipe(t)
	s.Args = append(s.Args, program("").Path, fifo, hold)
	s.Stdout, s.Mark, s.Drain = out, "PAWL_TEST="+fifo, patience
	p := start(t, s)
	out.wait(t, "ready", 1)
	p.Signal(syscall.SIGTERM)
	if e := wantDone(t, p); e.Held || e.Signal != syscall.SIGTERM {
		t.Errorf("ended with %+v", e)
	}
	wantDead(t, r)
}

// TestStopFindsDescendants: what has left the group and bears no mark is killed as long
// as its parents show whose it is.
func TestStopFindsDescendants(t *testing.T) { // S14
	t.Parallel()
	fifo, r := namedPipe(t)
	out := newScreen()
	s := shell(`env -i setsid "$0" program deaf "$1" & wait`)
	s.Args = append(s.Args, program("").Path, fifo)
	s.Stdout, s.Mark = out, "PAWL_TEST="+fifo
	p := start(t, s)
	out.wait(t, "ready", 1)
	p.Stop(t.Context(), syscall.SIGTERM, patience)
	wantDead(t, r)
}

// TestOwns: members of the group and bearers of the mark are the program's.
func TestOwns(t *testing.T) { // S14
	t.Parallel()
	fifo, _ := namedPipe(t)
	out := newScreen()
	s := shell(`"$0" program daemon "$1" 1; echo pid $$; sleep 1000 & echo pid $!; wait`)
	s.Args = append(s.Args, program("").Path, fifo)
	s.Stdout, s.Mark = out, "PAWL_TEST="+fifo
	p := start(t, s)
	out.wait(t, "ready", 1)
	out.wait(t, "pid", 2)
	for line := range strings.Lines(out.String()) {
		var pid int
		if _, err := fmt.Sscanf(line, "pid %d", &pid); err == nil && !p.Owns(pid) {
			t.Errorf("%d is not its own", pid)
		}
	}
	daemons := 0 // one that stays, and perhaps its parent, which is about to end
	for pid := range pids() {
		if !hasMark(pid, []byte(s.Mark)) {
			continue
		}
		if in, _ := statOf(pid); in.group != p.PID() && p.Owns(pid) {
			daemons++
		}
	}
	if daemons < 1 {
		t.Error("it owns no daemon")
	}
	if p.Owns(os.Getpid()) {
		t.Error("this process is its own")
	}
}

// TestSweep: when a supervisor is killed, its program dies at once, limits or not;
// what the program has left behind is found by its mark, and no other's is.
func TestSweep(t *testing.T) { // S14
	t.Parallel()
	var fifos [4]string
	var ends [4]*os.File
	for i := range fifos {
		fifos[i], ends[i] = namedPipe(t)
	}
	mark := "PAWL_TEST=" + fifos[0]
	other := program("deaf", fifos[3])
	out := newScreen()
	other.Mark, other.Stdout = mark[:len(mark)-1], out
	start(t, other)
	out.wait(t, "ready", 1)

	spec := program("host", append([]string{mark + ":web:1"}, fifos[:3]...)...)
	c := exec.Command(spec.Path, spec.Args[1:]...)
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	for range 3 {
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Fatalf("printed %q, %v", line, err)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	wantDead(t, ends[0])
	wantAlive(t, ends[1])
	wantAlive(t, ends[2])
	if n, err := Sweep(t.Context(), mark+":"); n < 2 || err != nil { // the daemon's parent may be about to end
		t.Errorf("swept %d, %v; want 2", n, err)
	}
	wantDead(t, ends[1])
	wantDead(t, ends[2])
	wantAlive(t, ends[3])
	if n, err := Sweep(t.Context(), mark+":"); n != 0 || err != nil {
		t.Errorf("a second sweep: %d, %v", n, err)
	}
	for _, bad := range []string{"", "NAME", "NAME=", "=x"} {
		if _, err := Sweep(t.Context(), bad); err == nil {
			t.Errorf("mark %q was taken", bad)
		}
	}
}

// reaper is a sub-reaper whose programs leave orphans: args are the named pipes of a
// marked and an unmarked daemon.
func reaper(args []string) {
	stop, err := BecomeSubreaper()
	if err != nil {
		panic(err)
	}
	defer stop()
	own := exec.Command("/bin/sh", "-c", "exit 7") // in this process's group
	if err := own.Start(); err != nil {
		panic(err)
	}
	s := shell(`for i in 1 2 3 4 5; do (setsid true &); done; "$0" program daemon "$1" 1; env -i "$0" program daemon "$2" 1; read go <"$3"`)
	s.Args = append(s.Args, program("").Path, args[0], args[1], args[2])
	s.Mark, s.Stdout, s.Drain = "PAWL_TEST="+args[0], os.Stdout, time.Millisecond
	p, err := Start(s)
	if err != nil {
		panic(err)
	}
	<-p.Done()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reaped := false
	pollUntil(ctx.Done(), func() bool {
		reaped = reaped || zombies() == 1 // own
		return reaped
	})
	fmt.Println("done", p.Exit().Code, reaped, own.Wait())
	n, err := KillOrphans(ctx)
	fmt.Println("orphans", n > 0, err)
}

func zombies() (n int) {
	for s := range stats() {
		if s.parent == os.Getpid() && s.state == 'Z' {
			n++
		}
	}
	return n
}

// TestSubreaper: orphans are reaped, children of others are not, and those without a
// mark die at the end.
func TestSubreaper(t *testing.T) { // S14
	t.Parallel()
	marked, first := namedPipe(t)
	bare, second := namedPipe(t)
	goOn := t.TempDir() + "/go"
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	out := newScreen()
	s := program("reaper", marked, bare, goOn)
	s.Stdout = out
	p := start(t, s)
	out.wait(t, "ready", 2)
	if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	wantDone(t, p)
	wantDead(t, first)
	wantDead(t, second)
	if want := "done 0 true exit status 7\norphans true <nil>\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("printed %q, want %q at the end", out, want)
	}
}

// familyThatEnds is a sub-reaper with an orphan that ends, and leaves a child, right after
// KillOrphans has read /proc. It prints how many it has killed, and whether the child lives.
func familyThatEnds([]string) {
	if err := setSubreaper(1); err != nil {
		panic(err)
	}
	c := exec.Command("/bin/sh", "-c", "sleep 1000 & echo $!; wait")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := c.Start(); err != nil {
		panic(err)
	}
	var child int
	if _, err := fmt.Fscan(out, &child); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var once sync.Once
	treeWalk.walk = func(groups map[int]bool) processTree {
		tree := readTree(groups)
		once.Do(func() {
			_ = c.Process.Kill()
			pollUntil(ctx.Done(), func() bool { s, _ := statOf(c.Process.Pid); return s.state == 'Z' })
		})
		return tree
	}
	n, err := KillOrphans(ctx)
	s, ok := statOf(child)
	fmt.Println("killed", n, err, "lives", ok && s.runs())
	_ = syscall.Kill(child, syscall.SIGKILL)
}

// TestAnOrphanThatEndsLeavesNothing: a child that is left to the sub-reaper while it looks
// for orphans is killed, too.
func TestAnOrphanThatEndsLeavesNothing(t *testing.T) { // S14
	t.Parallel()
	out := newScreen()
	s := program("ending")
	s.Stdout = out
	wantDone(t, start(t, s))
	if want := "killed 1 <nil> lives false\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

// TestLimits: they hold for the program's first instruction, as another user too.
func TestLimits(t *testing.T) { // S14
	t.Parallel()
	n := func(n uint64) *uint64 { return &n }
	nice := 7
	limits := Limits{OpenFiles: n(33), Processes: n(4444), AddressSpace: n(1 << 33), FileSize: n(1 << 20), CoreSize: n(0),
		CPUTime: 1500 * time.Millisecond, Nice: &nice}
	users := []string{""}
	if os.Geteuid() == 0 {
		users = append(users, "65534")
	}
	for _, user := range users {
		out := newScreen()
		s := Spec{Path: "/bin/cat", Args: []string{"cat", "/proc/self/limits", "/proc/self/stat"}, Env: []string{}, Stdout: out, User: user, Limits: limits}
		if user != "" {
			s.Group = user
		}
		if e := wantDone(t, start(t, s)); e.Code != 0 {
			t.Errorf("as %q ended with %+v", user, e)
		}
		text := out.String()
		for _, want := range []string{"Max open files 33 33", "Max processes 4444 4444", "Max address space 8589934592 8589934592",
			"Max file size 1048576 1048576", "Max core file size 0 0", "Max cpu time 2 3"} {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
				t.Errorf("as %q: no %q in %s", user, want, text)
			}
		}
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) < 17 || fields[16] != "7" {
			t.Errorf("as %q: want nice 7 in %q", user, fields)
		}
	}
}

// TestLimitsRefused: limits beyond those of this process are refused, and nothing runs.
func TestLimitsRefused(t *testing.T) { // S14
	t.Parallel()
	dir := t.TempDir()
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	most := ^uint64(0) - 1 // the kernel always refuses it
	s := shell("echo >ran")
	s.Dir, s.Limits.OpenFiles = dir, &most
	_, err := Start(s)
	if err == nil || !strings.Contains(err.Error(), "start /bin/sh: limit open files to 18446744073709551614: ") || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("it ran")
	}
	s.Path = "/missing"
	if _, err := Start(s); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestUser: a program runs as who it is to run as, or not at all.
func TestUser(t *testing.T) { // S14
	t.Parallel()
	out := newScreen()
	s := shell(`echo $(id -u) $(id -g) $(id -G)`)
	s.Stdout, s.User, s.Group = out, "65534", "12345"
	p, err := Start(s)
	if os.Geteuid() != 0 {
		if err == nil || err.Error() != "user, group: only root can start a program as another user or group" {
			t.Errorf("got %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, p)
	if got := out.String(); !strings.HasPrefix(got, "65534 12345 ") {
		t.Errorf("ran as %q", got)
	}
	a, err := Lookup("root", "")
	if err != nil || a.UID != 0 || a.Name != "root" || a.Home == "" || len(a.Groups) == 0 {
		t.Errorf("root is %+v, %v", a, err)
	}
}

// TestOutlivesThreads: the end of other threads of this process does not kill a program.
func TestOutlivesThreads(t *testing.T) { // S14
	t.Parallel()
	goOn := t.TempDir() + "/go"
	if err := syscall.Mkfifo(goOn, 0o600); err != nil {
		t.Fatal(err)
	}
	files := uint64(64)
	for _, limits := range []Limits{{}, {OpenFiles: &files}} {
		out := newScreen()
		s := shell(`echo ready; read x <"$0"`)
		s.Args, s.Stdout, s.Limits = append(s.Args, goOn), out, limits
		p := start(t, s)
		out.wait(t, "ready", 1)
		endThreads(32)
		if err := os.WriteFile(goOn, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		if e := wantDone(t, p); e.Code != 0 || e.Signal != 0 {
			t.Errorf("ended with %+v", e)
		}
	}
}

// endThreads makes n threads at once and ends them all.
func endThreads(n int) {
	var all, ended sync.WaitGroup
	all.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()
}

// TestNoLeaks: nothing of this process is left of programs that have ended, of those
// that did not start, or of a program's log and socket. It runs by itself.
func TestNoLeaks(t *testing.T) { // S14
	round := func() {
		dir, heard := shortDir(t), make(chan struct{})
		l := OpenLog(LogConfig{Path: dir + "/log", MaxSize: 100, MaxFiles: 2})
		n, err := ListenNotify(NotifyConfig{Path: dir + "/s", OnNotice: func(Notice) { heard <- struct{}{} }})
		if err != nil {
			t.Fatal(err)
		}
		s := shell("echo a; sleep 1000 & exit 1")
		s.Stdout, s.Stderr, s.Mark = l, l, "PAWL_TEST="+dir
		wantDone(t, start(t, s))
		say := program("say", "READY=1", "STATUS=with a file beside it")
		say.Env = append(say.Env, "NOTIFY_SOCKET="+dir+"/s")
		wantDone(t, start(t, say))
		<-heard
		<-heard
		s.Path = "/missing"
		if _, err := Start(s); err == nil {
			t.Error("it was started")
		}
		l.Close()
		n.Close()
	}
	round()
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	for range 3 {
		round()
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d were before", now, files)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pollUntil(ctx.Done(), func() bool { return runtime.NumGoroutine() <= goroutines })
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines run, %d did before", now, goroutines)
	}
}
