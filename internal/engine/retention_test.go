package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

const twoSteps = "name: two\nsteps:\n  - {id: a, command: [x]}\n  - {id: b, needs: [a], command: [x]}\n"

// canceledOnce returns n jobs that were submitted 40 days ago, and canceled.
func canceledOnce(t *testing.T, s store.Store, n int) []pawl.ID {
	t.Helper()
	p := &process{t: t, store: s, engine: engine.New(engine.Config{Store: s, Passive: true, Clock: func() time.Time { return time.Now().AddDate(0, 0, -40) }})}
	defer p.engine.Close()
	var ids []pawl.ID
	for range n {
		id := p.submit(define(t, twoSteps), "")
		if _, err := p.engine.Cancel(t.Context(), id, note("enough")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

const month = 30 * 24 * time.Hour

func sound(t *testing.T, s store.Store) (removed int64) {
	t.Helper()
	verify(t, s)
	anchors, err := s.Anchors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := audit.VerifyAnchors(anchors); f != nil {
		t.Error(f)
	}
	for _, a := range anchors {
		removed += a.Count
	}
	return removed
}

// An engine with a retention removes what ended long ago, and nothing else; one
// without keeps it (K6).
func TestRetention(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		old := canceledOnce(t, s, 3)
		db.sql("update job set updated_at = 1")
		p := start(t, s, setup{})
		young := p.submit(define(t, twoSteps), "")
		if _, err := p.engine.Cancel(t.Context(), young, note("enough")); err != nil {
			t.Fatal(err)
		}
		if v := p.job(old[2]); len(v.Steps) != 2 {
			t.Fatalf("steps %v", v.Steps)
		}
		remover := engine.New(engine.Config{Store: s, Retention: month, Silence: time.Hour, Jitter: func() float64 { return 0 }})
		defer remover.Close()
		until(t, "the old jobs are gone", func() bool {
			jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{Workspace: "default"})
			return err == nil && len(jobs) == 1
		})
		if _, err := p.engine.Job(t.Context(), old[0]); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("a removed job: %v", err)
		}
		if n := sound(t, s); n != 3 {
			t.Errorf("%d jobs anchored, want 3", n)
		}
		p.job(young)
	})
}

// clumsy is a store in which every other one of the first retention steps fails,
// alternately before and after it was done.
type clumsy struct {
	store.Store
	calls int
}

func (c *clumsy) Retain(ctx context.Context, p *store.Policy, from store.Place) (store.Removed, error) {
	c.calls++
	switch {
	case c.calls > 30:
	case c.calls%4 == 1:
		return store.Removed{}, storetest.ErrInjected
	case c.calls%4 == 3:
		_, err := c.Store.Retain(ctx, p, from)
		return store.Removed{}, errors.Join(err, storetest.ErrInjected)
	}
	return c.Store.Retain(ctx, p, from)
}

// A pruning that fails between any two steps leaves whole jobs and sound anchors, and the
// next one continues (K6).
func TestAPruningThatFails(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		canceledOnce(t, s, 4)
		db.sql("update job set updated_at = 1")
		e := engine.New(engine.Config{Store: &clumsy{Store: s}, Passive: true})
		defer e.Close()
		for try := 0; ; try++ {
			_, err := e.Prune(t.Context(), month, pawl.Change{Actor: "test"}, func(pawl.Pruning) { sound(t, s) })
			sound(t, s)
			if err == nil {
				break
			}
			if !errors.Is(err, storetest.ErrInjected) || try > 100 {
				t.Fatal(err)
			}
		}
		if n := sound(t, s); n != 4 {
			t.Errorf("%d jobs anchored, want each of 4 once", n)
		}
	})
}

func TestPruneRefusesAYoungAge(t *testing.T) {
	t.Parallel()
	e := engine.New(engine.Config{Store: (&database{t: t, kind: "memory", where: ":memory:"}).open(), Passive: true})
	defer e.Close()
	if _, err := e.Prune(t.Context(), time.Minute, pawl.Change{}, func(pawl.Pruning) {}); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("%v, want an error of kind Invalid", err)
	}
}

// hasty is a store that removes everything before the next transaction that
// locks a job.
type hasty struct {
	store.Store
	before int64
}

func (h *hasty) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	for from := (store.Place{}); len(q.Jobs) > 0; {
		r, err := h.Retain(ctx, &store.Policy{Before: h.before}, from)
		if err != nil {
			return err
		}
		if from = r.Next; r.Done {
			break
		}
	}
	return h.Store.Do(ctx, q, decide)
}

// A job that is removed while it is about to be retried is not continued (J2, K6).
func TestRetryOfAJobThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		id := canceledOnce(t, s, 1)[0]
		db.sql("update job set updated_at = 1")
		e := engine.New(engine.Config{Store: &hasty{s, pawl.Micros(time.Now().Add(-month))}, Passive: true})
		defer e.Close()
		if _, err := e.RetryJob(t.Context(), id, pawl.Retry{}, pawl.Change{Actor: "test"}); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%v, want an error of kind NotFound", err)
		}
		jobs, err := s.Jobs(t.Context(), store.JobFilter{})
		if err != nil || len(jobs) != 0 {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
		sound(t, s)
	})
}
