package process

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr returns the attributes for a new process group that the kernel kills when this
// process dies. A traced program stops before its first instruction.
func groupAttr(traced bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Ptrace: traced}
}

// reap waits for the end of the program, kills the rest of its group, and only then reaps
// it: until then no other group can have its pid.
func (p *Process) reap() {
	pid := p.PID()
	awaitEnd(pid)
	p.awaitGroup()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = children.wait(p.cmd) // the result is in ProcessState
	p.reaped = true
}

// awaitGroupGone waits until no process of a killed group runs, or ctx ends. If the group
// is gone, that costs one system call. Should its pid be another group's by then, that
// gets no signal.
func awaitGroupGone(ctx context.Context, pid int) {
	pollUntil(ctx.Done(), func() bool {
		return syscall.Kill(-pid, 0) == syscall.ESRCH || !groupLives(pid)
	})
}

// awaitEnd waits for the end of a child without reaping it, and without blocking a thread,
// since there may be thousands of children. Before Linux 5.10 it does block one.
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

// await waits for a change of a child without reaping it, and returns its si_code.
func await(pid, options int) (code int32, err error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return info.Code, err
		}
	}
}
