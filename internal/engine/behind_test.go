package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
)

// A behind is a store whose transactions report a time slightly behind that of its scans,
// as transactions do that take their time from an earlier one.
type behind struct{ store.Store }

func (s behind) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		f.Now -= (100 * time.Millisecond).Microseconds()
		return decide(f)
	})
}

// TestDeadlinesAreAppliedAtOnce: a deadline found by a scan is applied at once, without
// waiting for the next poll, even if the transaction's time is slightly behind.
func TestDeadlinesAreAppliedAtOnce(t *testing.T) { // K8
	t.Parallel()
	db := &database{t: t, kind: "memory", where: ":memory:"}
	e := engine.New(engine.Config{Store: behind{db.open()}, Poll: time.Hour, Silence: time.Hour})
	p := &process{t: t, store: db.open(), engine: e}
	t.Cleanup(p.stop)
	p.wait(p.submit(define(t, `
name: nap
steps:
  - {id: nap, sleep: 20ms}
`), ""))
}
