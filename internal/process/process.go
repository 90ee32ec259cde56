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
	defaultDrain  = time.Second
	strayPatience = 5 * time.Second        // for what was killed to be gone
	lookAgain     = 100 * time.Millisecond // at most, at processes whose end nobody tells
)

// A Spec is what a Process is started from.
type Spec struct {
	Path   string   // of the program, found; see Find
	Args   []string // as the program gets them, its own name first; empty: Path
	Dir    string
	Env    []string
	User   string // name or number; empty: this process's
	Group  string // likewise; empty: the user's
	Limits Limits

	// Mark, NAME=VALUE, is added to Env. When the program ends, every process that
	// bears it is killed: it has to be the program's alone. Empty: nobody is looked for.
	Mark string

	Cgroup *Cgroup // that the program is started in; nil: this process's

	// Stdin is the program's own from its start, and not closed here; nil: /dev/null. A terminal
	// stops a program that reads it, which is in a group of its own.
	Stdin *os.File

	Stdout, Stderr io.Writer     // what is printed goes there, from one goroutine each; they never fail for long; nil: it is discarded
	Drain          time.Duration // how long output that somebody holds open is read after the end; default 1s
}

// Limits of each process of the program; nil: those of this process. Start refuses
// those that the system cannot set (elsewhere than on Linux, all of them).
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

	mu      sync.Mutex    // guards what follows
	reaped  bool          // the number of the group may be another's by now
	stopped bool          // once the program has ended, the rest of the group has until hurry
	killed  bool          // hurry is closed
	hurry   chan struct{} // closed when the grace of a Stop is over
	strays  []*os.Process // had left the group when a Stop began
}

// An Exit is how a program ended.
type Exit struct {
	Code   int            // -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
	At     time.Time
	Held   bool // the output was still held open by a process out of reach, and is read no more
}

// Start starts a program. The error of a missing program, a missing folder or a
// denied permission wraps fs.ErrNotExist or fs.ErrPermission.
func Start(s Spec) (*Process, error) {
	p := &Process{spec: s, ended: make(chan struct{}), done: make(chan struct{}), hurry: make(chan struct{})}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	var err error
	if p.pipes, err = openPipes(s.Stdout, s.Stderr); err != nil {
		return nil, &fault{"make pipes for " + s.Path + ": " + err.Error(), err}
	}
	p.cmd.Stdout, p.cmd.Stderr = p.pipes.stdout.writer(), p.pipes.stderr.writer()
	started := make(chan error, 1)
	go p.live(started)
	if err := <-started; err != nil {
		<-p.done
		return nil, startFault(s, err)
	}
	return p, nil
}

// prepare makes the command.
func (p *Process) prepare() error {
	s := p.spec
	p.cmd = &exec.Cmd{Path: s.Path, Args: s.Args, Dir: s.Dir, Env: s.Env, SysProcAttr: groupAttr(s.Limits.traced())}
	if len(s.Args) == 0 {
		p.cmd.Args = []string{s.Path}
	}
	if s.Env == nil {
		p.cmd.Env = []string{} // else it would be this process's
	}
	if s.Mark != "" {
		p.cmd.Env = append(slices.Clip(p.cmd.Env), s.Mark)
	}
	if s.Stdin != nil { // a nil file would be no nil reader
		p.cmd.Stdin = s.Stdin
	}
	credential, err := credentialOf(s.User, s.Group)
	p.cmd.SysProcAttr.Credential = credential
	s.Cgroup.admit(p.cmd.SysProcAttr)
	return err
}

// live starts the program and waits for its end. The kernel kills a program that was
// started with a parent-death signal when the thread that started it ends. Those with
// limits have a thread of their own, since only that may trace the program, and since
// it may not be good for anything else: it is never unlocked, and ends with this
// goroutine. The others share one.
func (p *Process) live(started chan<- error) {
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
	p.clean()
	p.exit.Held = !p.pipes.finish(p.drain())
}

// launch starts the program, and sets its limits before its first instruction.
func (p *Process) launch() error {
	l := p.spec.Limits
	if err := l.inherit(); err != nil {
		return err
	}
	if err := programs.start(p.cmd); err != nil || !l.traced() {
		return err
	}
	err := l.impose(p.cmd)
	if err != nil {
		_ = p.cmd.Process.Kill()
		_ = programs.wait(p.cmd)
	}
	return err
}

// clean sees to it that nothing is left of what was killed. Whatever the kernel
// cannot end within strayPatience is left.
func (p *Process) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), strayPatience)
	defer cancel()
	killHeld(p.strays) // nobody adds to them any more
	if p.spec.Mark != "" {
		killBearers(ctx, p.spec.Mark)
	}
	vanish(ctx, p.PID())
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

// PID is that of the program, and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Ended is closed when the program has ended and what was left of its group is
// killed. Done follows.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Done is closed when the program has ended, all that it left running is killed, and
// what it printed was handed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit answers how the program ended; it is valid when Done is closed.
func (p *Process) Exit() Exit { return p.exit }

// Signal sends a signal to the whole group, unless it has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(s)
}

// signal needs mu.
func (p *Process) signal(s syscall.Signal) {
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // fails only if all have ended
	}
}

// Stop sends a signal to the group, and SIGKILL to what is left of it after the
// grace, or when ctx ends, whichever comes first. It returns when Done is closed.
// If the program ends before its children, they have the rest of the grace. What
// is stopped (SIGSTOP) goes on, so that it can take the signal. Of several Stops
// at once the least patient one counts, and all answer whether SIGKILL was needed.
func (p *Process) Stop(ctx context.Context, s syscall.Signal, grace time.Duration) (killed bool) {
	p.ask(s)
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

// ask sends the signal of a Stop. It looks for those that have left the group before
// that, while their parents live, and without mu, since a walk over /proc takes its
// time: the number of the group is no other's as long as the program is not reaped.
func (p *Process) ask(s syscall.Signal) {
	var strays []*os.Process
	if p.unasked() {
		strays = away(p.PID())
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

// unasked reports whether nothing was asked to stop yet.
func (p *Process) unasked() bool {
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
	close(p.hurry)
	p.signal(syscall.SIGKILL)
}

// linger waits, if the program is being stopped, until the rest of the group has
// ended or its grace is over. The program has ended and is not reaped.
func (p *Process) linger() {
	p.mu.Lock()
	stopped := p.stopped
	p.mu.Unlock()
	if !stopped {
		return
	}
	until(p.hurry, func() bool { return !groupLives(p.PID()) })
}

// until calls f again and again, ever less often, until it answers true or over is
// closed. It is for what nobody tells.
func until(over <-chan struct{}, f func() bool) {
	for pause := time.Millisecond; !f(); pause = min(2*pause, lookAgain) {
		timer := time.NewTimer(pause)
		select {
		case <-over:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
