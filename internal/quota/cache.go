package quota

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// fresh is how long limits set by operators are cached.
const fresh = time.Second

// A Cache has the limits, and the pauses of queues, of all workspaces, so that claims need not read them. Its own process
// sees a change at once, the others within a second. It is safe for concurrent use.
type Cache struct {
	source Source

	mu    sync.Mutex // held while they are read, since all callers wait for the same read
	until time.Time
	now   atomic.Pointer[Limits] // nil: read again
}

// NewCache returns a cache of the limits in a store. The first use reads them.
func NewCache(s Source) *Cache { return &Cache{source: s} }

// Get returns the cached limits, read again if they are old.
func (c *Cache) Get(ctx context.Context) (*Limits, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, now := c.now.Load(), time.Now()
	if was != nil && !now.After(c.until) {
		return was, nil
	}
	q := &Limits{slots: make(map[pawl.WorkflowName]int), paused: make(map[pawl.QueueName]rowkey.QueuePause)}
	err := Each(ctx, c.source, "", func(s *pawl.Quota) error {
		q.slots[pawl.WorkflowName{Workspace: s.Workspace, Name: s.Name}] = s.Slots
		return nil
	})
	if err != nil {
		return nil, err
	}
	pauses, err := c.source.Pauses(ctx, store.PauseFilter{Lasting: true})
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		q.paused[pawl.QueueName{Workspace: p.Workspace, Name: p.Queue}] = p.Key()
	}
	if was != nil && maps.Equal(was.slots, q.slots) && maps.Equal(was.paused, q.paused) {
		q = was
	}
	c.until = now.Add(fresh)
	c.now.Store(q)
	return q, nil
}

// Forget makes the next use read the limits again.
func (c *Cache) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Store(nil)
}

// Changed reports whether this process has replaced or dropped the limits since q was
// cached. A commit decided by limits checks this: it may have waited since it was prepared,
// and steps that it starts under older limits would not be counted.
func (c *Cache) Changed(q *Limits) bool { return c.now.Load() != q }
