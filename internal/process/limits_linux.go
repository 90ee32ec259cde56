package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cldTrapped is CLD_TRAPPED: waitid(2) reports it for a traced program that has stopped.
const cldTrapped = 4

// setNice sets the nice value of the calling thread, which a program that it starts
// inherits. The thread must not be used for anything else afterwards.
func (l Limits) setNice() error {
	if l.Nice == nil {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, *l.Nice); err != nil {
		return &fault{fmt.Sprintf("set nice to %d: %v", *l.Nice, reason(err)), err}
	}
	return nil
}

// apply sets the limits of a traced program that has not run yet, and lets it run. It is
// called on the thread that started it.
func (l Limits) apply(cmd *exec.Cmd) error {
	pid := cmd.Process.Pid
	if code, err := await(pid, unix.WEXITED|unix.WSTOPPED); err != nil || code != cldTrapped {
		return nil // it was killed: its exit says so
	}
	if err := withRealIDs(cmd.SysProcAttr.Credential, func() error { return l.set(pid) }); err != nil {
		return err
	}
	if err := unix.PtraceDetach(pid); err != nil && err != unix.ESRCH {
		return fmt.Errorf("let it run: %w", err)
	}
	return nil
}

// withRealIDs calls f with the real user and group of this thread, and of no other, set to
// those of c. The kernel requires that to set the limits of another user's process without
// CAP_SYS_RESOURCE, which root lacks in most containers.
func withRealIDs(c *syscall.Credential, f func() error) error {
	if c == nil {
		return f()
	}
	uid, gid := os.Getuid(), os.Getgid() // of this thread
	if err := setRealIDs(int(c.Uid), int(c.Gid)); err != nil {
		return err
	}
	return errors.Join(f(), setRealIDs(uid, gid))
}

// setRealIDs sets the real user and group of this thread, and leaves the effective ones.
func setRealIDs(uid, gid int) error {
	const same = ^uintptr(0)
	for _, call := range [][2]uintptr{{unix.SYS_SETRESGID, uintptr(gid)}, {unix.SYS_SETRESUID, uintptr(uid)}} {
		if _, _, err := unix.RawSyscall(call[0], call[1], same, same); err != 0 {
			return fmt.Errorf("set the real user and group of a thread: %w", err)
		}
	}
	return nil
}

func (l Limits) set(pid int) error {
	for _, one := range []struct {
		name     string
		resource int
		value    *uint64
	}{
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"address space", unix.RLIMIT_AS, l.AddressSpace},
		{"file size", unix.RLIMIT_FSIZE, l.FileSize},
		{"core size", unix.RLIMIT_CORE, l.CoreSize},
	} {
		if one.value == nil {
			continue
		}
		if err := setLimit(pid, one.resource, *one.value, *one.value); err != nil {
			return &fault{fmt.Sprintf("limit %s to %d: %v", one.name, *one.value, reason(err)), err}
		}
	}
	if l.CPUTime > 0 {
		if err := limitCPU(pid, uint64(math.Ceil(float64(l.CPUTime)/float64(time.Second)))); err != nil {
			return &fault{fmt.Sprintf("limit cpu time to %v: %v", l.CPUTime, reason(err)), err}
		}
	}
	return nil
}

// limitCPU limits the CPU time so that the kernel first sends SIGXCPU, which shows what
// ended the program, and then the SIGKILL of the hard limit.
func limitCPU(pid int, seconds uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_CPU, nil, &old); err != nil {
		return err
	}
	return setLimit(pid, unix.RLIMIT_CPU, seconds, max(seconds, min(old.Max, seconds+1)))
}

func setLimit(pid, resource int, soft, hard uint64) error {
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: soft, Max: hard}, nil)
}

func reason(err error) string {
	if err == syscall.EPERM || err == syscall.EACCES {
		return "this process may not go beyond its own limits"
	}
	return err.Error()
}
