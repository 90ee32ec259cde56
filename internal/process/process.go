package process

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	defaultDrain    = time.Second
	killTimeout     = 5 * time.Second        // for killed processes to end
	maxPollInterval = 100 * time.Millisecond // for processes whose end cannot be waited for
)

// A Spec describes a program to start.
type Spec struct {
	Path   string   // of the program; see Find
	Args   []string // including its own name; empty: Path alone
	Dir    string
	Env    []string
	User   string // name or number; empty: this process's
	Group  string // likewise; empty: the user's
	Limits Limits

	// Mark, NAME=VALUE, is added to Env. When the program ends, every process that bears
	// it is killed, so it must be unique to the program. Empty: processes that have left
	// the group and lost their parents are not found.
	Mark string

	Cgroup *Cgroup // that the program is started in; nil: this process's

	// Stdin is passed to the program, and not closed here. nil: /dev/null. A terminal
	// stops a program that reads it, since the program is in a process group of its own.
	Stdin *os.File
	Files []*os.File // that the program gets as 3 and up; they are not closed here

	Stdout, Stderr io.Writer     // of the program; each is written by one goroutine, and its errors are ignored; nil: discarded
	Drain          time.Duration // how long output is read after the end if another process holds it open; 0: 1s
}

// Limits are the resource limits of each process of the program; nil: those of this
// process. Start refuses those that the system cannot set (outside Linux, all of them).
type Limits struct {
	OpenFiles, Processes, AddressSpace, FileSize, CoreSize *uint64
	CPUTime                                                time.Duration // 0: none; rounded up to seconds
	Nice                                                   *int
}

// A Process is a program that was started.
type Process struct {
	cmd   *exec.Cmd
	pipes *pipes
	spec  Spec
	ended chan struct{}
	done  chan struct{}
	exit  Exit // valid when done is closed

	mu        sync.Mutex    // guards what follows
	reaped    bool          // the pid may be another process's by now
	stopped   bool          // a Stop has begun: once the program has ended, the rest of the group has until graceOver
	killed    bool          // graceOver is closed
	graceOver chan struct{} // closed when the grace of a Stop is over
	strays    []stray       // processes that had left the group when a Stop began
}

// An Exit is how a program ended.
type Exit struct {
	Code   int            // -1 if a signal ended it
	Signal syscall.Signal // 0 if it exited
	At     time.Time
	Held   bool // a process out of reach still held the output open; its further output is lost
}

// Start starts a program. The error of a missing program, a missing folder or a
// denied permission wraps fs.ErrNotExist or fs.ErrPermission.
func Start(s Spec) (*Process, error) {
	p := &Process{spec: s, ended: make(chan struct{}), done: make(chan struct{}), graceOver: make(chan struct{})}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	var err error
	if p.pipes, err = openPipes(s.Stdout, s.Stderr); err != nil {
		return nil, &fault{"make pipes for " + s.Path + ": " + err.Error(), err}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.pipes.stdout.writer(), p.pipes.stderr.writer()
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		<-p.done
		return nil, startFault(s, err)
	}
	return p, nil
}

// prepare builds the command.
func (p *Process) prepare() error {
	s := p.spec
	p.cmd = &exec.Cmd{Path: s.Path, Args: s.Args, Dir: s.Dir, Env: s.Env, SysProcAttr: groupAttr(s.Limits.traced())}
	if len(s.Args) == 0 {
		p.cmd.Args = []string{s.Path}
	}
	if s.Env == nil {
		p.cmd.Env = []string{} // nil would mean this process's
	}
	if s.Mark != "" {
		p.cmd.Env = append(slices.Clip(p.cmd.Env), s.Mark)
	}
	p.cmd.ExtraFiles = s.Files
	if s.Stdin != nil { // a nil *os.File is not a nil io.Reader
		p.cmd.Stdin = s.Stdin
	}
	credential, err := credentialOf(s.User, s.Group)
	p.cmd.SysProcAttr.Credential = credential
	s.Cgroup.setStartAttr(p.cmd.SysProcAttr)
	return err
}

// run starts the program and waits for its end. The kernel kills a program that has a
// parent-death signal when the thread that started it ends. Programs with limits have a
// thread of their own: only that may trace the program, and setNice makes it unusable for
// anything else, so it is never unlocked and ends with this goroutine. All others share
// one thread.
func (p *Process) run(started chan<- error) {
	defer close(p.done)
	var err error
	if p.spec.Limits.any() {
		runtime.LockOSThread()
		err = p.launch()
	} else {
		starters.do(func() { err = p.launch() })
		defer starters.done()
	}
	p.pipes.started()
	started <- err
	if err != nil {
		p.pipes.finish(0)
		return
	}
	p.reap()
	p.exit = exitOf(p.cmd.ProcessState.Sys().(syscall.WaitStatus))
	close(p.ended)
	p.killStrays()
	p.exit.Held = !p.pipes.finish(p.drain())
}

// launch starts the program, and sets its limits before its first instruction.
func (p *Process) launch() error {
	l := p.spec.Limits
	if err := l.setNice(); err != nil {
		return err
	}
	if err := children.start(p.cmd); err != nil || !l.traced() {
		return err
	}
	err := l.apply(p.cmd)
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = children.wait(p.cmd)
	}
	return err
}

// killStrays kills what has left the group, and waits until all killed processes are
// gone. Those that the kernel cannot end within killTimeout are left.
func (p *Process) killStrays() {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	killAll(ctx, p.strays) // no longer changed: the program is reaped
	if p.spec.Mark != "" {
		killExactMark(ctx, p.spec.Mark)
	}
	awaitGroupGone(ctx, p.PID())
}

func (p *Process) drain() time.Duration {
	if p.spec.Drain == 0 {
		return defaultDrain
	}
	return p.spec.Drain
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal(), At: time.Now()}
	}
	return Exit{Code: status.ExitStatus(), At: time.Now()}
}

// PID returns the pid of the program, which is its process group's too.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the program has ended and the rest of its group is killed. Done
// follows.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Done is closed when the program has ended, everything that it left running is killed,
// and its output is written.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the program ended. It is valid once Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal to the whole group, unless it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(s)
}

// signal is called with mu held.
func (p *Process) signal(s syscall.Signal) {
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // fails only if all have ended
	}
}

// Stop sends a signal to the group, and SIGKILL to what is left of it after the grace or
// when ctx ends, whichever comes first. It returns when Done is closed. If the program
// ends before its children, they have the rest of the grace. Stopped processes (SIGSTOP)
// are continued, so that they can handle the signal. Of several concurrent Stops the
// shortest grace counts, and all report whether SIGKILL was needed.
func (p *Process) Stop(ctx context.Context, s syscall.Signal, grace time.Duration) (killed bool) {
	p.requestStop(s)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.kill()
	case <-ctx.Done():
		p.kill()
	}
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// requestStop sends the signal of a Stop. Before that it finds the processes that have
// left the group, while their parents live. It does so without mu, since a walk over /proc
// takes time; the pid of the group is safe as long as the program is not reaped.
func (p *Process) requestStop(s syscall.Signal) {
	var strays []stray
	if p.stopsFirst() {
		strays = findStrays(p.PID())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.stopped {
		release(strays)
	} else {
		p.strays, p.stopped = strays, true
	}
	p.signal(s)
	p.signal(syscall.SIGCONT)
}

// stopsFirst reports whether this is the first Stop.
func (p *Process) stopsFirst() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reaped && !p.stopped
}

// kill ends the grace of all Stops.
func (p *Process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped || p.killed {
		return
	}
	p.killed = true
	close(p.graceOver)
	p.signal(syscall.SIGKILL)
}

// awaitGroup waits, if the program is being stopped, until the rest of the group has ended
// or its grace is over. The program has ended and is not reaped.
func (p *Process) awaitGroup() {
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if !stopped {
		return
	}
	pollUntil(p.graceOver, func() bool { return !groupLives(p.PID()) })
}

// pollUntil calls f at growing intervals until it returns true or stop is closed.
func pollUntil(stop <-chan struct{}, f func() bool) {
	for pause := time.Millisecond; !f(); pause = min(2*pause, maxPollInterval) {
		timer := time.NewTimer(pause)
		select {
		case <-stop:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
