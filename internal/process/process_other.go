//go:build unix && !linux

package process

import (
	"context"
	"os/exec"
	"syscall"
)

// children are started and reaped directly: nothing else reaps here.
var children childTable

type childTable struct{}

func (childTable) start(cmd *exec.Cmd) error { return cmd.Start() }
func (childTable) wait(cmd *exec.Cmd) error  { return cmd.Wait() }

// A starter needs no thread: there is no parent-death signal here.
type starter struct{}

var starters starter

func (starter) do(f func()) { f() }
func (starter) done()       {}

func groupAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end of the program and kills the rest of its group. In between,
// another group could get its pid if the group is empty.
func (p *Process) reap() {
	_ = children.wait(p.cmd) // the result is in ProcessState
	p.awaitGroup()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
}

func awaitGroupGone(ctx context.Context, pid int) {
	pollUntil(ctx.Done(), func() bool { return !groupLives(pid) })
}

func groupLives(pid int) bool { return syscall.Kill(-pid, 0) != syscall.ESRCH }

// Owns reports whether a process belongs to the program: it is in its group. One that has
// ended counts as the program's.
func (p *Process) Owns(pid int) bool {
	group, err := syscall.Getpgid(pid)
	return err != nil || group == p.PID()
}

// Processes that have left a group are not found here.
type stray struct{}

func findStrays(int) []stray           { return nil }
func killAll(context.Context, []stray) {}
func release([]stray)                  {}

// The environment of other processes is not readable here.
func killMarked(context.Context, string) (int, error) { return 0, nil }
func killExactMark(context.Context, string)           {}

// BecomeSubreaper does nothing here: init reaps orphans.
func BecomeSubreaper() (stop func(), err error) { return func() {}, nil }

// KillOrphans finds none here.
func KillOrphans(context.Context) (int, error) { return 0, nil }
