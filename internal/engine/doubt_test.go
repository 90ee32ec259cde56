package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// TestALookThatPassedOverSomething: a worker with free slots scans again after its claim
// skipped rows that others had locked, and offers no slots until then, since a submission
// would overtake those rows. If nothing was skipped, it rests (T3).
func TestALookThatPassedOverSomething(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	w := newOffering(t, e)
	skipped := true
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			for i := range f.Claims {
				f.Claims[i].Skipped = skipped
			}
			return decide(f)
		})
	}
	if got := w.visit(t, link.Exchange{Free: 2}); len(got) != 0 || w.offer.Reserved() != 0 {
		t.Fatalf("%d steps claimed, %d slots offered beside what is locked; want none", len(got), w.offer.Reserved())
	}
	w.offer.Add(2)
	if n := w.offer.Reserved(); n != 0 {
		t.Fatalf("%d slots are offered beside what is locked", n)
	}
	<-w.offer.Work()
	if !w.offer.Rung() {
		t.Fatal("the bell rang, and is not heard")
	}
	skipped = false
	if got := w.visit(t, link.Exchange{Free: 2}); len(got) != 0 || w.offer.Reserved() != 2 {
		t.Fatalf("%d steps claimed, %d slots offered when nothing is locked; want 0 and 2", len(got), w.offer.Reserved())
	}
	if w.offer.Rung() {
		t.Error("a worker that has found nothing is to look again")
	}
}

// TestALookThatEndedByItsLimit: if a claim starts jobs but can take no steps of them, its
// slots go to the steps behind them: it scans again at once (T3).
func TestALookThatEndedByItsLimit(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	w := newOffering(t, e)
	if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 0 || w.offer.Rung() {
		t.Fatalf("%d steps claimed of an empty queue, or the worker is to look again", len(got))
	}
	w.offer.Close()
	def, err := workflow.Parse("test.yaml", []byte("name: none\nsteps: [{id: a, handler: nobody, if: false}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // jobs without a step for a worker
		if a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test"}); err != nil || a[0].Err != nil {
			t.Fatal(a, err)
		}
	}
	e.offers.look(w.self.Key())
	for left := 3; left > 0; left-- {
		if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 0 || !w.offer.Rung() {
			t.Fatalf("%d steps claimed with %d jobs to begin, or the worker rests", len(got), left)
		}
	}
	if got := w.visit(t, link.Exchange{Free: 1}); len(got) != 0 || w.offer.Rung() {
		t.Errorf("%d steps claimed of an empty queue, or the worker is to look again", len(got))
	}
}

// TestDoubt: the pauses are 5, 10, 20, 40 and 50 ms, and 5 again after a scan that skipped
// nothing; a worker that has ended is not woken.
func TestDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(offers)
		o := &Slots{worker: &pawl.Worker{}, offers: s, bell: newBell(), work: newBell()}
		s.list = append(s.list, o)
		pause := func() time.Duration {
			begun := time.Now()
			s.saw(o.worker.Key(), 0, false, true)
			<-o.Work()
			return time.Since(begun)
		}
		for range 2 {
			for _, want := range []time.Duration{5, 10, 20, 40, 50, 50} {
				if d := pause(); d != want*time.Millisecond {
					t.Errorf("a pause of %v; want %v ms", d, int64(want))
				}
			}
			s.saw(o.worker.Key(), 0, false, false)
		}
		s.saw(o.worker.Key(), 0, false, true)
		o.Withdraw()
		s.saw(o.worker.Key(), 0, false, true) // the worker has ended
		time.Sleep(time.Second)
		select {
		case <-o.Work():
			t.Error("a worker that has gone is woken")
		default:
		}
	})
}
