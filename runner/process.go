package runner

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A process is a running program that leads a process group of its own.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended and its group was killed

	mu     sync.Mutex // guards reaped
	reaped bool       // the number of the group may be another's by now
}

// startProcess starts cmd, whose files have to be *os.File.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go p.live(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// live starts the program and waits for its end, all on one thread: the kernel
// kills a program that was started with a parent-death signal when the thread
// that started it ends, and no other goroutine can end a thread that this one
// is locked to.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.reap()
	close(p.ended)
}

// signal sends s to the whole group, unless it has ended.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // fails only if all have ended
	}
}

// wait waits for the end. If ctx ends first it sends SIGTERM, and after grace
// SIGKILL, and answers true.
func (p *process) wait(ctx context.Context, grace time.Duration, log *Log) (stopped bool) {
	select {
	case <-p.ended:
		return false
	case <-ctx.Done():
	}
	if p.hasEnded() {
		return false
	}
	log.Notef("%v: sending SIGTERM", context.Cause(ctx))
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		log.Notef("still running %v after SIGTERM: sending SIGKILL", grace)
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	return true
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
