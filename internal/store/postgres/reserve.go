package postgres

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A reservation is a transaction's wait for jobs.
type reservation struct {
	jobs    []rowkey.Job
	granted chan struct{} // closed when they are reserved
}

// reserve waits until no transaction of this handle uses the jobs: two at once would only
// outdate each other. They run in the order of their calls.
func (c *rowCache) reserve(ctx context.Context, jobs []rowkey.Job) error {
	w := c.enqueue(jobs)
	if w == nil {
		return nil
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		c.leave(w)
		return ctx.Err()
	}
}

// enqueue returns nil if no other transaction has or awaits the jobs.
func (c *rowCache) enqueue(jobs []rowkey.Job) *reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == nil {
		c.busy = make(map[rowkey.Job]bool)
	}
	if len(c.waiting) == 0 && !c.anyBusy(jobs) {
		c.occupy(jobs)
		return nil
	}
	w := &reservation{jobs: jobs, granted: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	c.admit()
	return w
}

func (c *rowCache) anyBusy(jobs []rowkey.Job) bool {
	return slices.ContainsFunc(jobs, func(j rowkey.Job) bool { return c.busy[j] })
}

func (c *rowCache) occupy(jobs []rowkey.Job) {
	for _, j := range jobs {
		c.busy[j] = true
	}
}

// admit grants reservations of jobs that are neither busy nor wanted by an earlier
// reservation. The lock is held.
func (c *rowCache) admit() {
	wanted := make(map[rowkey.Job]bool)
	c.waiting = slices.DeleteFunc(c.waiting, func(w *reservation) bool {
		if c.anyBusy(w.jobs) || slices.ContainsFunc(w.jobs, func(j rowkey.Job) bool { return wanted[j] }) {
			for _, j := range w.jobs {
				wanted[j] = true
			}
			return false
		}
		c.occupy(w.jobs)
		close(w.granted)
		return true
	})
}

// leave gives up waiting, or releases what was granted at the last moment.
func (c *rowCache) leave(w *reservation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		c.admit()
		return
	}
	c.vacate(w.jobs)
}

func (c *rowCache) release(jobs []rowkey.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vacate(jobs)
}

func (c *rowCache) vacate(jobs []rowkey.Job) {
	for _, j := range jobs {
		delete(c.busy, j)
	}
	if len(c.waiting) > 0 {
		c.admit()
	}
}
