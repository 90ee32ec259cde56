package process

import (
	"context"
	"os"
	"slices"
	"syscall"
)

// Owns reports whether a process belongs to the program: it is in its group, or bears
// its mark. One that has ended, so that this is unknown, counts as the program's.
func (p *Process) Owns(pid int) bool {
	s, ok := statOf(pid)
	if !ok || s.group == p.PID() || s.state == 'Z' {
		return true
	}
	return p.spec.Mark != "" && hasMark(pid, []byte(p.spec.Mark+"\x00"))
}

// groupLives reports whether a process of the group runs.
func groupLives(group int) bool {
	return slices.ContainsFunc(treeWalk.request(group).members[group], stat.runs)
}

// A stray is a process of a program that has left its group, with a handle (pidfd), so that
// its pid cannot be taken for another process's.
type stray struct {
	*os.Process
	was stat
}

// findStrays returns the descendants of a group that have left it, as far as their parents
// still live. Before Linux 5.3 there are no handles, and the result is empty.
func findStrays(group int) []stray {
	f := treeWalk.request(group)
	queue := slices.Clone(f.members[group])
	var found []stray
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		for _, child := range f.children[s.pid] {
			if child.group == group {
				continue // it is in the queue already
			}
			queue = append(queue, child)
			if p := openHandle(child); p != nil {
				found = append(found, stray{p, child})
			}
		}
	}
	return found
}

// openHandle returns a handle on the process that s describes, or nil if the pid is
// another process's by now.
func openHandle(s stat) *os.Process {
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

// killAll kills strays, waits until they have ended, or ctx has, and releases their handles.
func killAll(ctx context.Context, all []stray) {
	for _, p := range all {
		_ = p.Signal(syscall.SIGKILL)
	}
	pollUntil(ctx.Done(), func() bool {
		return !slices.ContainsFunc(all, func(p stray) bool { return p.was.stillRuns() })
	})
	release(all)
}

// release releases the handles of strays.
func release(all []stray) {
	for _, p := range all {
		_ = p.Release()
	}
}
