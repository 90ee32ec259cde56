//go:build unix && !linux

package runner

import "syscall"

func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end of the program and kills what is left of its group. In
// between, another group could get its number if nothing of it was left.
func (p *process) reap() {
	_ = p.cmd.Wait() // ProcessState tells
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// killStrays cannot tell the processes of an attempt here.
func killStrays(string) {}
