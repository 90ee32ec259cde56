package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An offering is a worker that the test operates; it records what is handed to it.
type offering struct {
	e     *Engine
	self  *pawl.Worker
	offer *Slots
	first link.Assignment // claimed from the queue

	mu   sync.Mutex
	runs []link.Assignment
}

func newOffering(t *testing.T, e *Engine) *offering {
	t.Helper()
	w := &offering{e: e}
	w.self, w.first = w.e.claimOne(t)
	w.offer = w.e.LendSlots(w.self, func(a *link.Assignment) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.runs = append(w.runs, *a)
	}).(*Slots)
	t.Cleanup(w.offer.Withdraw)
	return w
}

func (w *offering) visit(t *testing.T, x link.Exchange) []link.Assignment {
	t.Helper()
	x.Worker = w.self
	got, err := w.e.Exchange(context.Background(), x)
	if err != nil {
		t.Error(err)
	}
	return got
}

// handed returns the assignments handed over so far.
func (w *offering) handed() []link.Assignment {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

// TestSlotsThatAVisitLeaves: a worker that has found nothing more in the queue gets the
// jobs submitted from then on, as far as it has slots, and one that has left something
// there gets nothing: no step is overtaken (T3).
func TestSlotsThatAVisitLeaves(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t) // in which the worker is never considered dead
	w := newOffering(t, e)
	w.e.submitOne(t)
	if n := len(w.handed()); n != 0 {
		t.Fatalf("%d jobs came to a worker that offers nothing", n)
	}
	if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 1 {
		t.Fatalf("claimed %d steps; want the one that waits", len(got))
	}
	w.e.submitOne(t)
	if n, reserved := len(w.handed()), w.offer.Reserved(); n != 0 || reserved != 0 {
		t.Errorf("%d jobs came, %d slots are reserved, though the visit had filled all", n, reserved)
	}
	if got := w.visit(t, link.Exchange{Free: 3}); len(got) != 1 || w.offer.Reserved() != 2 {
		t.Fatalf("claimed %d steps, %d slots are offered; want 1 and the 2 that are left", len(got), w.offer.Reserved())
	}
	for range 3 {
		w.e.submitOne(t)
	}
	if n, reserved := len(w.handed()), w.offer.Reserved(); n != 2 || reserved != 0 {
		t.Errorf("%d jobs came, %d slots are reserved; want 2 and none", n, reserved)
	}
	if got := w.visit(t, link.Exchange{Free: 3}); len(got) != 1 {
		t.Errorf("claimed %d steps; want the third job", len(got))
	}
}

// TestASubmissionTakesWhatItsCommitFrees: a job that is submitted while a worker reports
// takes the slot that the report frees, in the same commit (T3).
func TestASubmissionTakesWhatItsCommitFrees(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t) // in which the worker is never considered dead
	w := newOffering(t, e)
	entered, open := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		err := w.e.committer.one(context.Background(), &script{f: func(*tx) error {
			close(entered)
			<-open
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
	<-entered
	all.Go(func() { w.e.submitOne(t) })
	all.Go(func() {
		w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
	})
	for queued, later := 0, 0; queued < 1 || later < 1; {
		w.e.committer.mu.Lock()
		queued, later = len(w.e.committer.queue), len(w.e.committer.later)
		w.e.committer.mu.Unlock()
	}
	before, err := w.e.store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(open)
	all.Wait()
	after, err := w.e.store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Commits - before.Commits; n != 1 {
		t.Errorf("%d commits; want one for the report and the submission", n)
	}
	got := w.handed()
	if len(got) != 1 || w.offer.Reserved() != 0 {
		t.Fatalf("%d jobs came, %d slots are reserved; want 1 and none", len(got), w.offer.Reserved())
	}
	if s := w.e.stepOf(t, got[0].Step.StepKey); s.State != lifecycle.StepInProgress || s.Worker != w.self.Key() {
		t.Errorf("the step is %s, of worker %d", s.State, s.Worker)
	}
}

// TestSlotsOfADecisionThatIsMadeAgain are given once: the facts of a decision may be
// outdated, and it is then made again (K5).
func TestSlotsOfADecisionThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	w := newOffering(t, e)
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		err := s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			if _, err := decide(f); err != nil {
				return nil, err
			}
			return nil, errors.New("outdated")
		})
		if err == nil || err.Error() != "outdated" {
			t.Error(err)
		}
		return s.Store.Do(ctx, q, decide)
	}
	w.visit(t, link.Exchange{Free: 2})
	if n := w.offer.Reserved(); n != 2 {
		t.Fatalf("%d slots are offered; want the 2 of the visit", n)
	}
	e.submitOne(t)
	if n := len(w.handed()); n != 1 {
		t.Errorf("%d jobs came; want 1", n)
	}
	select {
	case <-w.offer.Bell(): // the slot of the first decision came back: the worker scans
	default:
		t.Error("the worker is not told of the slot that came back")
	}
	if n := w.offer.Reserved(); n > 1 {
		t.Errorf("%d slots are reserved; want at most one, of 2 less 1 that is taken", n)
	}
}

// TestWhatIsInTheQueueClosesOffers: from the hint on that something waits, no matter which
// process enqueued it, submissions do not overtake it, even if the worker is on a visit
// that does not scan the queue.
func TestWhatIsInTheQueueClosesOffers(t *testing.T) { // T3
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	w.offer.Add(2)
	e.hint(store.Hint{Topic: store.TopicWork}) // from another process
	e.submitOne(t)
	w.visit(t, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
	w.offer.Add(1)
	if n, reserved := len(w.handed()), w.offer.Reserved(); n != 0 || reserved != 0 {
		t.Errorf("%d jobs came, %d slots are reserved, before the worker has looked at the queue", n, reserved)
	}
	if got := w.visit(t, link.Exchange{Free: 2}); len(got) != 1 || w.offer.Reserved() != 1 {
		t.Errorf("claimed %d steps, %d slots are offered; want the one that waits, and 1 slot", len(got), w.offer.Reserved())
	}
}

// TestABellIsHeardByAScan: a worker woken by the bell has not heard it. Until it scans the
// queue nothing is offered, so that no report made meanwhile overtakes it.
func TestABellIsHeardByAScan(t *testing.T) { // T3
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	e.hint(store.Hint{Topic: store.TopicWork})
	<-w.offer.Work()
	w.offer.Add(1)
	if n := w.offer.Reserved(); n != 0 {
		t.Errorf("%d slots are offered before the bell was heard", n)
	}
	if !w.offer.Rung() {
		t.Error("want the bell heard")
	}
	if w.visit(t, link.Exchange{Free: 1}); w.offer.Rung() {
		t.Error("want the bell heard once")
	}
	w.offer.Close()
	w.offer.Add(1)
	if n := w.offer.Reserved(); n != 1 {
		t.Errorf("%d slots are offered; want 1", n)
	}
}

// TestASlotIsCountedOnce: while a worker counts its free slots, no commit hands over the
// ones it has taken; such a slot would be free and not reserved.
func TestASlotIsCountedOnce(t *testing.T) { // T3
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	w.offer.Add(1)
	if !w.offer.take() {
		t.Fatal("there was no slot to take")
	}
	got := w.offer.Unreserved(func() int {
		free := 1 - len(w.handed())
		if w.offer.mu.TryLock() {
			w.offer.mu.Unlock()
			w.offer.give(new(link.Assignment))
		}
		return free
	})
	if got != 0 {
		t.Errorf("%d slots are free; want none of 1 that is taken", got)
	}
	w.offer.giveBack()
}
