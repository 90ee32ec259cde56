package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
)

// A behind is a store whose transactions tell a time a little behind that of its looks,
// as they do that tell it from an earlier one.
type behind struct{ store.Store }

func (s behind) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		f.Now -= (100 * time.Millisecond).Microseconds()
		return decide(f)
	})
}

// TestDeadlinesAreAppliedAtOnce: a deadline that a look has found is applied, though the
// transaction that applies it is a little behind, and does not wait for the next poll.
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
