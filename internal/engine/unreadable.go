package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// maxUnreadable bounds the unreadable rows that a claim skips at the head of a worker's
// queues. Behind more of them nothing is found.
const maxUnreadable = 1000

// unreadableSteps counts the rows at the head of queues that cannot be claimed here:
// damaged rows, and steps whose definition is missing, damaged or of a newer version. They
// stay in the queue, since another process may be able to read them, and each claim asks
// for that many more rows. A claim that meets more of them than the previous one searches
// further at once.
type unreadableSteps struct {
	faults store.Faults

	mu   sync.Mutex
	rows map[rowkey.Worker]int // that the last claim of a worker met
}

// limit returns how many rows a claim has to request to get as many as it has free slots.
func (s *unreadableSteps) limit(worker rowkey.Worker, free int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return free + min(2*s.rows[worker], maxUnreadable)
}

// met records how many a claim has met, and reports whether there may be more behind them. A
// claim that skipped rows, which another claim of the worker may have locked, forgets none.
func (s *unreadableSteps) met(worker rowkey.Worker, n int, skipped bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if skipped {
		n = max(n, s.rows[worker])
	}
	more = n > s.rows[worker] && s.rows[worker] < maxUnreadable
	if n == 0 {
		delete(s.rows, worker)
		return false
	}
	if s.rows == nil {
		s.rows = make(map[rowkey.Worker]int)
	}
	s.rows[worker] = n
	return more
}

// decision returns the decision of a step, or of a pending job. It returns nil if that
// cannot be claimed here; it then stays in its queue, which is logged once. It also returns
// nil if the definition must be read first; the whole claim is then made again.
func (c *claim) decision(t *tx, k pawl.StepKey) *decide.Decision {
	if c.last != nil && c.lastJob == k.Job {
		return c.last
	}
	j := t.job(k.Job)
	if j != nil && c.broken[j.Definition] {
		c.unreadableSteps++
		return nil
	}
	d, err := c.e.decision(t, k.Job, decide.Answers{})
	var n *need
	switch {
	case err == nil:
		c.last, c.lastJob = d, k.Job
		return d
	case errors.As(err, &n):
		c.needs = append(c.needs, n.definitions...)
		return nil
	}
	if c.unreadableSteps++; j != nil {
		c.broken[j.Definition] = true
	}
	if c.e.unreadableSteps.faults.New(fmt.Sprint(k, err)) {
		c.e.log.Error("a step or a pending job cannot be claimed, and is passed over", "key", k.String(), "error", err)
	}
	return nil
}
