package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
)

// A heldScan is a scan of the queue that waits before or after its transaction.
type heldScan struct {
	open chan struct{}
	done sync.WaitGroup
}

// holdScan begins a scan and returns while it is held.
func (w *offering) holdScan(t *testing.T, s *interposed, after bool) *heldScan {
	t.Helper()
	h, entered, first := &heldScan{open: make(chan struct{})}, make(chan struct{}), new(atomic.Bool)
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		holds := len(q.Claims) > 0 && first.CompareAndSwap(false, true)
		hold := func(now bool) {
			if holds && now {
				close(entered)
				<-h.open
			}
		}
		hold(!after)
		err := s.Store.Do(ctx, q, decide)
		hold(after)
		return err
	}
	h.done.Go(func() { w.visit(t, link.Exchange{Free: 1}) })
	<-entered
	return h
}

func (h *heldScan) letGo() {
	close(h.open)
	h.done.Wait()
}

// offers checks how many slots are offered.
func (w *offering) offers(t *testing.T, want int, why string) {
	t.Helper()
	if n := w.offer.Reserved(); n != want {
		t.Errorf("%d slots are offered; want %d: %s", n, want, why)
	}
}

// TestNoSlotIsOfferedBesideAScan: while a scan is under way, a visit that does not scan the queue
// offers no slots: what entered the queue has rung the bell, but the scan has cleared that, and
// may leave some (T3).
func TestNoSlotIsOfferedBesideAScan(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	addLane(e)
	w := newOffering(t, e)
	w.offer.Add(1)
	scan := w.holdScan(t, s, false)
	w.offers(t, 0, "a scan has begun")
	w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
	w.offer.Add(1)
	w.offers(t, 0, "a scan is under way")
	w.visit(t, link.Exchange{Free: 1})
	w.offers(t, 1, "the newest scan has found nothing")
	scan.letGo()
	w.offers(t, 2, "so has the other")
	e.submitOne(t)
	if n := len(w.handed()); n != 1 {
		t.Errorf("%d jobs came; want 1", n)
	}
}

// TestNoSlotIsOfferedAfterAFullScan: a visit that does not scan the queue began beside a scan
// that filled all its slots. Its slots are not for submissions, since more waits (T3).
func TestNoSlotIsOfferedAfterAFullScan(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	addLane(e)
	w := newOffering(t, e)
	for range 3 {
		e.submitOne(t)
	}
	entered, open := make(chan struct{}), make(chan struct{})
	s.beforeCommit(func(q *store.Query) bool { return len(q.Steps) > 0 }, func() {
		close(entered)
		<-open
	})
	var skips sync.WaitGroup
	skips.Go(func() {
		w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
	})
	<-entered
	if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 1 {
		t.Fatalf("the scan claimed %d", len(got))
	}
	close(open)
	skips.Wait()
	w.offers(t, 0, "two jobs wait")
	w.offer.Add(1)
	w.offers(t, 0, "two jobs wait")
	e.submitOne(t)
	if n := len(w.handed()); n != 0 {
		t.Errorf("%d jobs overtook the two that wait", n)
	}
}

// TestAnOlderScanOffersNothing: a scan that found an empty queue ends after a newer one that
// filled all its slots (T3).
func TestAnOlderScanOffersNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // submissions wait for the visit
		w, s := waitingWorker(t)
		older := w.holdScan(t, s, true)
		for range 3 {
			w.e.submitOne(t)
		}
		if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 1 {
			t.Fatalf("the newer scan claimed %d", len(got))
		}
		older.letGo()
		w.offers(t, 0, "two jobs wait")
		w.offer.Add(1)
		w.offers(t, 0, "two jobs wait")
	})
}

// TestASecondVisitIsExpectedToEnd: a worker is on a visit until all its visits have ended.
func TestASecondVisitIsExpectedToEnd(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	x := &link.Exchange{Worker: w.self, Free: 1}
	first, second := e.offers.visit(x), e.offers.visit(x)
	first()
	if w.offer.visits != 1 {
		t.Errorf("%d visits; want 1", w.offer.visits)
	}
	second()
	if w.offer.visits != 0 {
		t.Errorf("%d visits; want none", w.offer.visits)
	}
}

// TestAScanThatSkippedRowsForgetsNone of the unreadable rows that another scan of the worker has
// met, and may have locked.
func TestAScanThatSkippedRowsForgetsNone(t *testing.T) {
	t.Parallel()
	var s unreadableSteps
	s.met(1, 20, false)
	if s.met(1, 0, true) || s.limit(1, 5) != 45 {
		t.Errorf("the next claim requests %d rows; want 45", s.limit(1, 5))
	}
	if s.met(1, 0, false) || s.limit(1, 5) != 5 {
		t.Errorf("the next claim requests %d rows; want 5", s.limit(1, 5))
	}
}
