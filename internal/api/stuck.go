package api

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

const (
	stuckKept = 5 * time.Second // that one list is shown
	maxScopes = 1000            // of which lists are kept
)

// stuckLists keeps which jobs are stuck, for a moment: to find out, up to 1,000 jobs are asked
// why they do not move, and every open dashboard reads the overview every few seconds. Callers
// who see the same workspaces share a list.
type stuckLists struct {
	now func() time.Time

	mu     sync.Mutex
	scopes map[string]*stuckList
}

type stuckList struct {
	busy chan struct{} // full while the list is made, so that others wait for it
	at   time.Time
	jobs []pawl.StuckJob
}

// of returns the list that find makes, or one that it has made in the last stuckKept.
func (l *stuckLists) of(ctx context.Context, workspace string, find func() ([]pawl.StuckJob, error)) ([]pawl.StuckJob, error) {
	list := l.list(scope(ctx, workspace))
	select {
	case list.busy <- struct{}{}:
		defer func() { <-list.busy }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now := l.now(); list.at.IsZero() || now.Sub(list.at) >= stuckKept {
		jobs, err := find()
		if err != nil {
			return nil, err
		}
		list.jobs, list.at = jobs, now
	}
	return list.jobs, nil
}

func (l *stuckLists) list(scope string) *stuckList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scopes[scope] == nil {
		if l.scopes == nil || len(l.scopes) >= maxScopes {
			l.scopes = map[string]*stuckList{}
		}
		l.scopes[scope] = &stuckList{busy: make(chan struct{}, 1)}
	}
	return l.scopes[scope]
}

// scope names what the caller sees of a workspace, "" being all that it may see.
func scope(ctx context.Context, workspace string) string {
	who := access.Of(ctx)
	if who.Everywhere() {
		return "all\x00" + workspace
	}
	return "some\x00" + workspace + "\x00" + strings.Join(who.Workspaces, "\x00")
}
