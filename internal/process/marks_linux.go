package process

import (
	"bytes"
	"context"
	"iter"
	"os"
	"slices"
	"syscall"
)

// killMarked kills every process whose environment has an entry that begins with
// mark, and waits until they are gone, or ctx ends.
func killMarked(ctx context.Context, mark string) (int, error) {
	return killCarriers(ctx, []byte(mark), pids)
}

// killBearers does so with those that have the whole entry, and shares its walks.
func killBearers(ctx context.Context, mark string) {
	_, _ = killCarriers(ctx, []byte(mark+"\x00"), func() iter.Seq[int] { return slices.Values(bearers.ask(mark)[mark]) })
}

// killCarriers kills those among the candidates that carry mark. It looks until it
// finds none, as one may have forked meanwhile.
func killCarriers(ctx context.Context, mark []byte, candidates func() iter.Seq[int]) (int, error) {
	killed := map[int]bool{}
	left := false
	until(ctx.Done(), func() bool {
		left = false
		for pid := range candidates() {
			if pid != os.Getpid() && killIf(pid, func() bool { return carries(pid, mark) }) {
				left, killed[pid] = true, true
			}
		}
		return !left
	})
	if left {
		return len(killed), ctx.Err()
	}
	return len(killed), nil
}

// killIf kills a process if it is the right one. What is killed is the process
// that had the number before it was looked at (a pidfd, on Linux 5.3 and later).
func killIf(pid int, right func() bool) bool {
	if !right() { // mostly; and cheaper than taking hold of it
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return right() && p.Signal(syscall.SIGKILL) == nil
}

// carries tells whether a process was started with such an entry in its
// environment. It cannot be told of other users' processes, nor of the dead.
func carries(pid int, mark []byte) bool {
	env := new(procFile).read(pid, "environ")
	return bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...))
}
