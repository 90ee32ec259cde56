package engine

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	// unstoredAfter is for how long commits have to fail until the engine counts as one that stores nothing.
	unstoredAfter = 5 * time.Second

	// unstoredFor is for how long the last failure counts: without another attempt nobody knows.
	unstoredFor = 30 * time.Second
)

// An unstored notes since when each commit has failed because the database takes none, as with a full disk,
// though it may well be read.
type unstored struct {
	log     *slog.Logger
	failing atomic.Bool

	mu          sync.Mutex
	since, last time.Time // of the failures; zero: the last commit succeeded
	said        bool
}

// note notes the outcome of a commit. One that others were in the way of says nothing of the database.
func (u *unstored) note(err error) {
	var busy *store.BusyError
	switch {
	case errors.As(err, &busy):
	case err == nil && u.failing.Load():
		u.succeeded()
	case pawl.KindOf(err) == pawl.Unavailable && err != nil:
		u.failed(err)
	}
}

func (u *unstored) succeeded() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said {
		u.log.Warn("commits succeed again", "after", time.Since(u.since).Round(time.Millisecond).String())
	}
	u.since, u.last, u.said = time.Time{}, time.Time{}, false
	u.failing.Store(false)
}

func (u *unstored) failed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.since.IsZero() || now.Sub(u.last) > unstoredFor {
		u.since = now
	}
	u.last = now
	u.failing.Store(true)
	if !u.said && now.Sub(u.since) >= unstoredAfter {
		u.said = true
		u.log.Warn("nothing can be stored: each commit fails", "error", err, "since", now.Sub(u.since).Round(time.Second).String())
	}
}

// Unstored returns since when each commit has failed because the database takes none, or zero if that is no
// longer than five seconds, or if for thirty seconds none was tried. Commits are tried as long as anything is
// left to do.
func (e *Engine) Unstored() time.Time {
	u := &e.committer.unstored
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since.IsZero() || u.last.Sub(u.since) < unstoredAfter || time.Since(u.last) > unstoredFor {
		return time.Time{}
	}
	return u.since
}
