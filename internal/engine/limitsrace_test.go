package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// beforeCommit calls f before the next commit for which is returns true.
func (s *interposed) beforeCommit(is func(*store.Query) bool, f func()) {
	var done atomic.Bool // f may commit, too
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		if is(q) && done.CompareAndSwap(false, true) {
			f()
		}
		return s.Store.Do(ctx, q, decide)
	}
}

// TestALimitHoldsForWhatWasPrepared: a commit prepared before a limit was set, and made
// after it, begins nothing beyond the limit: neither a worker's visit, nor a submission
// that may be handed over, nor a job that is started because slots are free.
func TestALimitHoldsForWhatWasPrepared(t *testing.T) { // J7
	t.Parallel()
	set := func(t *testing.T, e *Engine, name string) {
		if err := e.SetQuotas(t.Context(), []pawl.Quota{{Name: name}}, pawl.Change{Actor: "test"}); err != nil {
			t.Error(err)
		}
	}
	t.Run("a visit", func(t *testing.T) {
		w, s := waitingWorker(t)
		w.e.submitOne(t)
		s.beforeCommit(func(q *store.Query) bool { return len(q.Claims) > 0 }, func() { set(t, w.e, "queue/default") })
		if got := w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1}); len(got) != 0 {
			t.Errorf("%d steps were claimed from a queue of no slots", len(got))
		}
		if !w.offer.Rung() {
			t.Error("the worker does not look again")
		}
	})
	t.Run("a visit that takes what it makes ready", func(t *testing.T) {
		w, s := waitingWorker(t)
		def, err := workflow.Parse("two.yaml", []byte("name: two\nsteps: [{id: a, handler: nobody}, {id: b, needs: [a], handler: nobody}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if a, err := w.e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()}); err != nil || a[0].Err != nil {
			t.Fatal(a, err)
		}
		got := w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1})
		s.beforeCommit(func(q *store.Query) bool { return len(q.Jobs) > 0 }, func() { set(t, w.e, "queue/default") })
		if got = w.visit(t, link.Exchange{Reports: []link.Report{success(got[0], "1")}, Free: 1, SkipQueue: true}); len(got) != 0 {
			t.Errorf("%d steps were claimed in a queue of no slots", len(got))
		}
		if !w.offer.Rung() {
			t.Error("the worker does not look for the step that was left in the queue")
		}
	})
	t.Run("a submission", func(t *testing.T) {
		w, s := waitingWorker(t)
		w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1})
		s.beforeCommit(func(q *store.Query) bool { return len(q.Workers)+len(q.Watched) > 0 }, func() {
			set(t, w.e, "queue/default")
			w.visit(t, link.Exchange{Free: 1}) // finds nothing, and offers the slot
		})
		id := w.e.submitOne(t)
		if got := w.handed(); len(got) != 0 {
			t.Errorf("%d steps of job %d were handed over in a queue of no slots", len(got), id.JobKey())
		}
	})
	t.Run("a job that is started", func(t *testing.T) {
		e, s := interposedEngine(t)
		addLane(e)
		def, err := workflow.Parse("nap.yaml", []byte("name: nap\nsteps: [{id: a, sleep: 1h}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()})
		if err != nil || a[0].Err != nil {
			t.Fatal(a, err)
		}
		s.beforeCommit(func(q *store.Query) bool { return len(q.Jobs) > 0 }, func() { set(t, e, "depth/0") })
		if _, err := e.evaluator.startJob(t.Context(), a[0].ID.JobKey()); err != nil {
			t.Fatal(err)
		}
		if j, err := e.store.Job(t.Context(), a[0].ID.JobKey()); err != nil || j.State != lifecycle.JobPending {
			t.Errorf("the job is %v, %v; want it pending, as there is no slot for it", j.State, err)
		}
	})
}
