package process

import (
	"os"
	"slices"
	"syscall"
)

// Owns tells whether a process is of the program: in its group, or with its mark. Of
// one that has ended it may not be known, and then it counts as the program's.
func (p *Process) Owns(pid int) bool {
	s, ok := statOf(pid)
	if !ok || s.group == p.PID() || s.state == 'Z' {
		return true
	}
	return p.spec.Mark != "" && carries(pid, []byte(p.spec.Mark+"\x00"))
}

// groupLives reports whether a process of the group runs.
func groupLives(group int) bool {
	return slices.ContainsFunc(kin.ask(group).members[group], stat.runs)
}

// away answers the descendants of a group that have left it, as long as parents tell.
// Each is held so that its number cannot be taken for another's; on a kernel that
// cannot do that (before 5.3) there are none.
func away(group int) []*os.Process {
	f := kin.ask(group)
	queue := slices.Clone(f.members[group])
	var found []*os.Process
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, child := range f.children[s.pid] {
			if child.group == group {
				continue // it is in the queue by itself
			}
			queue = append(queue, child)
			if p := hold(child); p != nil {
				found = append(found, p)
			}
		}
	}
	return found
}

// hold takes hold of a process, unless it is another one by now.
func hold(s stat) *os.Process {
	p, err := os.FindProcess(s.pid)
	if err != nil {
		return nil
	}
	now, ok := statOf(s.pid)
	if ok && now.born == s.born && p.WithHandle(func(uintptr) {}) == nil {
		return p
	}
	_ = p.Release()
	return nil
}

// killHeld kills the processes and lets go of them.
func killHeld(all []*os.Process) {
	for _, p := range all {
		_ = p.Signal(syscall.SIGKILL)
	}
	release(all)
}

// release lets go of processes.
func release(all []*os.Process) {
	for _, p := range all {
		_ = p.Release()
	}
}
