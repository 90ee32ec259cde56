package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// children are the children of this process that this package has started. There is one
// table per process, as in the kernel.
var children childTable

// A childTable distinguishes children that are waited for from orphans that were
// reparented to this process.
type childTable struct {
	mu      sync.RWMutex // while locked for writing, no child is being started
	started sync.Map     // the pid of each child that was not waited for
}

func (r *childTable) start(cmd *exec.Cmd) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	err := cmd.Start()
	if err == nil {
		r.started.Store(cmd.Process.Pid, true)
	}
	return err
}

// wait reaps a child that has ended or is about to.
func (r *childTable) wait(cmd *exec.Cmd) error {
	defer r.started.Delete(cmd.Process.Pid)
	return cmd.Wait()
}

// orphans reaps the orphans that have ended, kills the others if kill is set, and returns
// the pids of these. Being children, they keep their pids until they are reaped here. It
// reports whether it met any orphan: one that ended during the walk may have left children
// to this process that the walk saw as its own.
func (r *childTable) orphans(kill bool) (living []int, met bool) {
	self, group := os.Getpid(), syscall.Getpgrp()
	kids := treeWalk.request(group).children[self]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, child := range kids {
		if r.known(child, group) {
			continue
		}
		met = true
		s, ok := r.orphan(child, self, group)
		switch {
		case !ok:
		case s.state == 'Z':
			_, _ = syscall.Wait4(s.pid, nil, syscall.WNOHANG, nil)
		default:
			living = append(living, s.pid)
			if kill {
				_ = syscall.Kill(s.pid, syscall.SIGKILL)
			}
		}
	}
	return living, met
}

// known reports whether a child was started on purpose, so that it is no orphan. It is
// called with mu held.
func (r *childTable) known(child stat, group int) bool {
	_, ours := r.started.Load(child.pid)
	return ours || child.group == group
}

// orphan checks again an orphan that a walk has found: it may have been a program that was
// just being started, or has been reaped since and its pid reused. It is called with mu
// held.
func (r *childTable) orphan(child stat, self, group int) (stat, bool) {
	s, ok := statOf(child.pid)
	return s, ok && s.born == child.born && s.parent == self && s.group != group
}

// BecomeSubreaper makes this process the parent of orphaned descendants, and reaps those
// that end until stop is called. It takes a child for an orphan if Start has not started
// it and it is in another process group than this process: other children that this
// process starts have to stay in its group, as they do by default. Outside Linux it does
// nothing.
func BecomeSubreaper() (stop func(), err error) {
	if err := setSubreaper(1); err != nil {
		return nil, err
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for reapNext(quit, died) {
			children.orphans(false)
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(died)
		close(quit)
		<-done
		_ = setSubreaper(0)
	}), nil
}

// reapNext waits for the death of a child, and a moment longer, since many may die at
// once. It returns false once stop is closed.
func reapNext(stop <-chan struct{}, died <-chan os.Signal) bool {
	select {
	case <-stop:
		return false
	case <-died:
	}
	timer := time.NewTimer(maxPollInterval)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}

func setSubreaper(on uintptr) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	return nil
}

// KillOrphans kills what was reparented to this process as a subreaper, marked or not, and
// what that leaves in turn, and waits until all have ended. It returns how many there
// were, and an error if some still exist when ctx ends. It is for the end of the process,
// when no program runs any more.
func KillOrphans(ctx context.Context) (int, error) {
	killed := map[int]bool{}
	left, quiet := 0, 0
	pollUntil(ctx.Done(), func() bool {
		living, met := children.orphans(true)
		for _, pid := range living {
			killed[pid] = true
		}
		left, quiet = len(living), quiet+1
		if met {
			quiet = 0
		}
		return quiet == 2 // a parent may end, and leave a child, while one walk is made
	})
	if left > 0 {
		return len(killed), fmt.Errorf("%d orphans are left: %w", left, ctx.Err())
	}
	return len(killed), nil
}
