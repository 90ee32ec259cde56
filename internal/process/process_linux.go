package process

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr has the program killed when this process dies. One that is traced
// stops before its first instruction.
func groupAttr(traced bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: traced}
}

// reap waits for the end of the program, kills what is left of its group and only
// then reaps it: until then no other group can have its number.
func (p *Process) reap() {
	pid := p.PID()
	awaitEnd(pid)
	p.linger()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = programs.wait(p.cmd) // ProcessState tells
	p.reaped = true
}

// vanish waits until nothing of a killed group runs any more, or ctx ends. A group
// that is gone costs one call; its number, if it is another's by then, gets no signal.
func vanish(ctx context.Context, pid int) {
	until(ctx.Done(), func() bool {
		return syscall.Kill(-pid, 0) == syscall.ESRCH || !groupLives(pid)
	})
}

// awaitEnd waits for the end of a child without reaping it, and without a thread:
// with a thousand programs those would be a thousand. Before Linux 5.10 there is no
// other way.
func awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		_, _ = await(pid, unix.WEXITED)
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	ended := false
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Read(func(uintptr) bool {
			ended = hasEnded(pid)
			return ended
		})
	}
	if !ended {
		_, _ = await(pid, unix.WEXITED)
	}
}

// hasEnded reports whether a child that is not reaped has ended.
func hasEnded(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// await waits until a child has come so far, without reaping it, and answers how.
func await(pid, options int) (code int32, err error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return info.Code, err
		}
	}
}
