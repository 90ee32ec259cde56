package process

import (
	"bytes"
	"context"
	"iter"
	"os"
	"slices"
	"syscall"
)

// killMarked kills every process whose environment has an entry that begins with mark, and
// waits until they have ended, or ctx has.
func killMarked(ctx context.Context, mark string) (int, error) {
	return killMatching(ctx, []byte(mark), pids)
}

// killExactMark kills those that have exactly this entry. Concurrent calls share walks
// over /proc.
func killExactMark(ctx context.Context, mark string) {
	_, _ = killMatching(ctx, []byte(mark+"\x00"), func() iter.Seq[int] { return slices.Values(markWalk.request(mark)[mark]) })
}

// killMatching kills the candidates that bear mark. It repeats that until it finds none,
// since one may have forked meanwhile, and until all that it has killed have ended: the
// environment of a process is gone a little before.
func killMatching(ctx context.Context, mark []byte, candidates func() iter.Seq[int]) (int, error) {
	killed := map[int]stat{}
	left := false
	pollUntil(ctx.Done(), func() bool {
		left = false
		for pid := range candidates() {
			var s stat
			bears := func() (ok bool) {
				if ok = hasMark(pid, mark); ok {
					s, _ = statOf(pid)
				}
				return ok
			}
			if pid != os.Getpid() && killIf(pid, bears) {
				left, killed[pid] = true, s
			}
		}
		for _, was := range killed {
			left = left || was.stillRuns()
		}
		return !left
	})
	if left {
		return len(killed), ctx.Err()
	}
	return len(killed), nil
}

// killIf kills a process if right returns true. The process that is killed is the one that
// right has seen (by a pidfd, on Linux 5.3 and later).
func killIf(pid int, right func() bool) bool {
	if !right() { // the usual case, and cheaper than a handle
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	return right() && p.Signal(syscall.SIGKILL) == nil
}

// hasMark reports whether a process was started with an entry in its environment that
// begins with mark. It is false for other users' processes and for dead ones, which cannot
// be read.
func hasMark(pid int, mark []byte) bool {
	env := new(procFile).read(pid, "environ")
	return bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...))
}
