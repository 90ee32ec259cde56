// Package sleep waits, and stops waiting when a context ends.
package sleep

import (
	"context"
	"time"
)

// For waits for d, and reports whether ctx is still alive then. It returns as soon as ctx
// ends.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
