//go:build unix && !linux

package process

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// programs are started and waited for as they are: nobody else reaps here.
var programs register

type register struct{}

func (register) start(cmd *exec.Cmd) error { return cmd.Start() }
func (register) wait(cmd *exec.Cmd) error  { return cmd.Wait() }

// A starter has no use for a thread: nobody is killed when one ends.
type starter struct{}

var starters starter

func (starter) do(f func()) { f() }
func (starter) done()       {}

func groupAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end of the program and kills what is left of its group. In
// between, another group could get its number if nothing of it was left.
func (p *Process) reap() {
	_ = programs.wait(p.cmd) // ProcessState tells
	p.linger()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
}

func vanish(ctx context.Context, pid int) {
	until(ctx.Done(), func() bool { return !groupLives(pid) })
}

func groupLives(pid int) bool { return syscall.Kill(-pid, 0) != syscall.ESRCH }

// Owns tells whether a process is of the program: in its group. Of one that has ended
// it is not known, and then it counts as the program's.
func (p *Process) Owns(pid int) bool {
	group, err := syscall.Getpgid(pid)
	return err != nil || group == p.PID()
}

// Who has left a group is not known here.
func away(int) []*os.Process { return nil }
func killHeld([]*os.Process) {}
func release([]*os.Process)  {}

// Processes cannot be told by their environment here.
func killMarked(context.Context, string) (int, error) { return 0, nil }
func killBearers(context.Context, string)             {}

// BecomeSubreaper does nothing here: orphans are init's.
func BecomeSubreaper() (stop func(), err error) { return func() {}, nil }

// KillOrphans knows of none here.
func KillOrphans(context.Context) (int, error) { return 0, nil }
