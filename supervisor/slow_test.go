package supervisor_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/supervisor"
)

// A slowJournal takes its time for each entry, and refuses them while it is broken.
type slowJournal struct {
	supervisor.MemoryJournal
	delay  atomic.Int64 // nanoseconds
	broken atomic.Pointer[error]
	only   string // the entity that is slow; empty: all
}

func (j *slowJournal) Append(ctx context.Context, e audit.Entry) error {
	if j.only == "" || j.only == e.Entity {
		select {
		case <-time.After(time.Duration(j.delay.Load())):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := j.broken.Load(); err != nil {
		return *err
	}
	return j.MemoryJournal.Append(ctx, e)
}
