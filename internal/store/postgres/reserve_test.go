package postgres

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// TestReservationsAreGrantedInOrder: nobody who comes later is let in before one who
// waits for the same job, and one who gives up is in nobody's way (T10).
func TestReservationsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	var c rowCache
	granted := func(w *reservation) bool {
		if w == nil {
			return true
		}
		select {
		case <-w.granted:
			return true
		default:
			return false
		}
	}
	if !granted(c.enqueue([]rowkey.Job{1, 2, 2})) {
		t.Fatal("nobody is in the way")
	}
	wide, narrow, beside := c.enqueue([]rowkey.Job{2, 3}), c.enqueue([]rowkey.Job{3}), c.enqueue([]rowkey.Job{4})
	if granted(wide) || granted(narrow) || !granted(beside) {
		t.Errorf("granted: %v, %v, %v; want only the one who wants nothing of the others'", granted(wide), granted(narrow), granted(beside))
	}
	c.release([]rowkey.Job{1, 2, 2})
	if !granted(wide) || granted(narrow) {
		t.Errorf("granted: %v, %v; want the first of the two", granted(wide), granted(narrow))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.reserve(ended, []rowkey.Job{2}); err != context.Canceled {
		t.Errorf("a context that has ended: %v", err)
	}
	c.release([]rowkey.Job{2, 3})
	if !granted(narrow) {
		t.Error("nobody is in the way any more")
	}
	c.release([]rowkey.Job{3})
	c.release([]rowkey.Job{4})
	if len(c.busy)+len(c.waiting) > 0 {
		t.Errorf("busy are %v, and %d wait", c.busy, len(c.waiting))
	}
}
