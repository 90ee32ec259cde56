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

// programs are the children of this process that package process has started. It is
// one for the whole process, as the kernel's table of its children is.
var programs register

// A register tells children that are waited for from orphans that were handed to
// this process.
type register struct {
	mu      sync.RWMutex // held for writing, no child is being started
	started sync.Map     // the pid of each that was not waited for
}

func (r *register) start(cmd *exec.Cmd) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	err := cmd.Start()
	if err == nil {
		r.started.Store(cmd.Process.Pid, true)
	}
	return err
}

// wait reaps a child that has ended, or is about to.
func (r *register) wait(cmd *exec.Cmd) error {
	defer r.started.Delete(cmd.Process.Pid)
	return cmd.Wait()
}

// orphans reaps the orphans that have ended, has those killed that have not if kill
// is set, and answers the pids of these. As children they keep their numbers until
// they are reaped here.
func (r *register) orphans(kill bool) (living []int) {
	self, group := os.Getpid(), syscall.Getpgrp()
	children := kin.ask(group).children[self]
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, child := range children {
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
	return living
}

// orphan looks again at a child that a walk has found: it may have been a program
// that was just being started, or has been reaped since and its number given away. It
// needs mu.
func (r *register) orphan(child stat, self, group int) (stat, bool) {
	if _, ours := r.started.Load(child.pid); ours || child.group == group {
		return stat{}, false
	}
	s, ok := statOf(child.pid)
	return s, ok && s.born == child.born && s.parent == self && s.group != group
}

// BecomeSubreaper makes this process the parent of what its descendants orphan, and
// reaps orphans that end, until stop is called. It takes a child for an orphan if
// Start has not started it and it is in another process group than this process:
// what else this process starts itself has to stay in its group, as it does by
// default. Elsewhere than on Linux it does nothing: orphans are init's.
func BecomeSubreaper() (stop func(), err error) {
	if err := setSubreaper(1); err != nil {
		return nil, err
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for reapNext(over, died) {
			programs.orphans(false)
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(died)
		close(over)
		<-done
		_ = setSubreaper(0)
	}), nil
}

// reapNext waits for the death of a child, and a moment longer, as many may die at
// once. It answers false when it is over.
func reapNext(over <-chan struct{}, died <-chan os.Signal) bool {
	select {
	case <-over:
		return false
	case <-died:
	}
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-over:
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

// KillOrphans kills what was handed to this process as its subreaper, marked or not,
// and what that hands on in turn, and waits until all are gone. It answers how many
// there were, and an error if some are left when ctx ends. It is for the end of the
// process, when no program runs any more.
func KillOrphans(ctx context.Context) (int, error) {
	killed := map[int]bool{}
	left := 0
	until(ctx.Done(), func() bool {
		living := programs.orphans(true)
		for _, pid := range living {
			killed[pid] = true
		}
		left = len(living)
		return left == 0
	})
	if left > 0 {
		return len(killed), fmt.Errorf("%d orphans are left: %w", left, ctx.Err())
	}
	return len(killed), nil
}
