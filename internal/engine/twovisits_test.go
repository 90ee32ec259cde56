package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestNoSlotIsOfferedBesideAScan: while one visit of a worker scans the queue, another one that
// has found nothing offers no slots: what entered the queue has rung the bell, but the scan has
// silenced it, and may leave some (T3).
func TestNoSlotIsOfferedBesideAScan(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	addLane(e)
	w := newOffering(t, e)
	entered, open := make(chan struct{}), make(chan struct{})
	s.beforeCommit(func(q *store.Query) bool { return len(q.Claims) > 0 }, func() {
		close(entered)
		<-open
	})
	var scan sync.WaitGroup
	scan.Go(func() { w.visit(t, link.Exchange{Free: 1}) })
	<-entered
	w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
	w.visit(t, link.Exchange{Free: 1})
	w.offer.Add(1)
	if n := w.offer.Reserved(); n != 0 {
		t.Errorf("%d slots are offered while a scan is under way", n)
	}
	close(open)
	scan.Wait()
	if n := w.offer.Reserved(); n != 1 {
		t.Errorf("%d slots are offered; want that of the scan, which was the last to end", n)
	}
	e.submitOne(t)
	if n := len(w.handed()); n != 1 {
		t.Errorf("%d jobs came; want 1", n)
	}
	if _, err := e.Exchange(context.Background(), link.Exchange{Worker: w.self}); err != nil {
		t.Error(err)
	}
}

// TestASecondScanIsExpectedToEnd: a worker is on a visit until all its visits have ended.
func TestASecondScanIsExpectedToEnd(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	x := &link.Exchange{Worker: w.self, Free: 1}
	first, second := e.offers.visit(x), e.offers.visit(x)
	first()
	if w.offer.visits != 1 || w.offer.scans != 1 {
		t.Errorf("%d visits, %d scans; want 1 and 1", w.offer.visits, w.offer.scans)
	}
	second()
	if w.offer.visits != 0 || w.offer.scans != 0 {
		t.Errorf("%d visits, %d scans; want none", w.offer.visits, w.offer.scans)
	}
}
