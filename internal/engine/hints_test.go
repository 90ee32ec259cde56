package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// connecting is a store that keeps in which order it was to prepare for hints and to commit.
type connecting struct {
	store.Store
	mu    sync.Mutex
	calls []string
}

func (c *connecting) Wake(_ int, topics ...store.Topic) {
	if len(topics) == 0 {
		c.called("prepare")
	}
}

func (c *connecting) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	c.called("commit")
	return c.Store.Do(ctx, q, decide)
}

func (c *connecting) called(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, what)
}

// take returns the calls up to now, and forgets them.
func (c *connecting) take() (calls []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, c.calls = c.calls, nil
	return calls
}

// TestHintsArePreparedBeforeTheFirstCommit: the hint of a process's first submission does not wait
// for a connection that is opened after the commit; and later ones prepare nothing.
func TestHintsArePreparedBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	s := &connecting{Store: db}
	e := New(Config{Store: s, Passive: true, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	s.take()
	for range 3 {
		e.submitOne(t)
	}
	if calls := s.take(); len(calls) < 4 || calls[0] != "prepare" || slices.Contains(calls[1:], "prepare") {
		t.Errorf("%q, want prepare before the first of three commits, and not again", calls)
	}
}
