package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A heldVisit is a visit whose commit waits until it is released.
type heldVisit struct {
	w    *offering
	open chan struct{}
	done sync.WaitGroup
	got  []link.Assignment
}

func (w *offering) hold(t *testing.T, s *interposed, x link.Exchange) *heldVisit {
	t.Helper()
	v := &heldVisit{w: w, open: make(chan struct{})}
	var once sync.Once
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		if len(q.Workers)+len(q.Watched) > 0 {
			once.Do(func() { <-v.open })
		}
		return s.Store.Do(ctx, q, decide)
	}
	v.done.Go(func() { v.got = w.visit(t, x) })
	synctest.Wait()
	return v
}

func (v *heldVisit) letGo() []link.Assignment {
	close(v.open)
	v.done.Wait()
	return v.got
}

// waitingWorker returns a worker that runs a step in its one slot, and an engine with
// two lanes.
func waitingWorker(t *testing.T) (*offering, *interposed) {
	t.Helper()
	e, s := interposedEngine(t)
	addLane(e)
	return newOffering(t, e), s
}

// addLane gives an engine one more lane.
func addLane(e *Engine) {
	e.committer.mu.Lock()
	defer e.committer.mu.Unlock()
	e.committer.free++
}

// TestASubmissionWaitsForAVisit: a job submitted during the visit of a worker that has no
// free slot gets the slot that the visit frees (T3).
func TestASubmissionWaitsForAVisit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := waitingWorker(t)
		v := w.hold(t, s, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1, SkipQueue: true})
		var all sync.WaitGroup
		all.Go(func() { w.e.submitOne(t) })
		time.Sleep(admissionLimit / 2)
		v.letGo()
		all.Wait()
		if n, reserved := len(w.handed()), w.offer.Reserved(); n != 1 || reserved != 0 {
			t.Errorf("%d jobs came, %d slots are reserved; want 1 and none", n, reserved)
		}
	})
}

// TestWhatIsInTheQueueGoesFirst: a waiting submission takes no slot before the steps that
// entered the queue earlier. It takes the first slot after them, in the commit that finds
// the queue empty: one commit for both (T3).
func TestWhatIsInTheQueueGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := waitingWorker(t)
		before := w.e.submitOne(t)
		v := w.hold(t, s, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1})
		var after pawl.ID
		var all sync.WaitGroup
		all.Go(func() { after = w.e.submitOne(t) })
		time.Sleep(minIdle)
		got := v.letGo()
		if len(got) != 1 || got[0].Step.Job != before.JobKey() || len(w.handed()) != 0 {
			t.Fatalf("claimed %v, and %v came; want the job that was in the queue", got, w.handed())
		}
		w.visit(t, link.Exchange{Reports: []link.Report{success(got[0], "1")}, Free: 1})
		all.Wait()
		if handed := w.handed(); len(handed) != 1 || handed[0].Step.Job != after.JobKey() {
			t.Errorf("%v came; want the job that waited", handed)
		}
	})
}

// TestASubmissionWaitsNotForLong: a hanging visit delays a submission only briefly, and a
// worker with long steps does not delay it at all (T3).
func TestASubmissionWaitsNotForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, s := waitingWorker(t)
		begun := time.Now()
		w.e.submitOne(t)
		if d := time.Since(begun); d != 0 {
			t.Errorf("a submission waited %v for a worker that runs its steps", d)
		}
		v := w.hold(t, s, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1})
		begun = time.Now()
		w.e.submitOne(t)
		if d := time.Since(begun); d < admissionLimit || d > 2*admissionLimit {
			t.Errorf("a submission waited %v for a visit that hangs; want %v", d, admissionLimit)
		}
		got := v.letGo()
		for i := range 2 {
			if len(got) != 1 || len(w.handed()) != 0 {
				t.Fatalf("visit %d: claimed %v, and %v came; want one of the two that are in the queue", i, got, w.handed())
			}
			got = w.visit(t, link.Exchange{Reports: []link.Report{success(got[0], "1")}, Free: 1})
		}
	})
}

// TestWhoIsAdmitted: submissions are admitted while there are slots for them, in order, and
// all of them when no more slots are expected.
func TestWhoIsAdmitted(t *testing.T) { // T3
	t.Parallel()
	const route = 7
	type world struct {
		slots, waiting, freed int // offered, in the queue, of a visit in the same commit
		away                  bool
		passed                int
	}
	for _, tt := range []struct {
		name   string
		world  world
		groups []int
		want   int
	}{
		{"slots for all", world{slots: 3}, []int{1, 2}, 2},
		{"slots for the first", world{slots: 2}, []int{1, 2, 1}, 1},
		{"slots of the same commit", world{freed: 3}, []int{1, 2}, 2},
		{"what is in the queue goes first", world{slots: 3, waiting: 3}, []int{1}, 0},
		{"more than all slots", world{slots: 10}, []int{50, 1}, 1},
		{"a long queue", world{waiting: 11}, []int{1, 1}, 2},
		{"a queue of others", world{waiting: -1}, []int{5, 5}, 2},
		{"no worker comes soon", world{away: true}, []int{5, 5}, 2},
		{"passed over often enough", world{passed: maxPassed}, []int{5}, 1},
	} {
		e := new(Engine)
		worker := &pawl.Worker{Capacity: 10, Routes: []rowkey.Route{route}}
		e.offers.list = []*Slots{{worker: worker, slots: tt.world.slots, visits: map[bool]int{false: 1}[tt.world.away]}}
		e.offers.waiting = tt.world.waiting
		batch := []*group{{cmds: []command{&claim{worker: worker, free: tt.world.freed}}}}
		var later []*group
		for _, n := range tt.groups {
			g := &group{cmds: make([]command, n), came: time.Now(), passed: tt.world.passed}
			g.cmds[0] = &submit{route: route, sub: new(pawl.Submission)}
			later = append(later, g)
		}
		if got := e.admit(later, batch); got != tt.want {
			t.Errorf("%s: %d submissions go; want %d", tt.name, got, tt.want)
		}
	}
}

// TestWaitingHoldsUpNobodyElse: a submission that gains nothing by waiting, or that the
// queue puts first, does not wait for a waiting submission, and overtakes none (T3).
func TestWaitingHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, handler string
		priority      int
	}{
		{"a job of other workers", "elsewhere", 0},
		{"an urgent job", "nobody", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := waitingWorker(t)
			v := w.hold(t, s, link.Exchange{Reports: []link.Report{success(w.first, "1")}, Free: 1})
			begun := time.Now()
			var all sync.WaitGroup
			all.Go(func() { w.e.submitOne(t) })
			synctest.Wait()
			def, err := workflow.Parse("test.yaml", []byte("name: one\nsteps: [{id: a, handler: "+tt.handler+"}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Priority: tt.priority}); err != nil {
				t.Fatal(err)
			}
			all.Wait()
			if d := time.Since(begun); d != 0 {
				t.Errorf("%s: it and the one before waited %v", tt.name, d)
			}
			v.letGo()
		})
	}
}

// TestASubmissionIsBegunInItsOrder: of jobs that are submitted together, the first are
// handed over to any worker with slots, and the rest are enqueued (T3).
func TestASubmissionIsBegunInItsOrder(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	a, b := newOffering(t, e), newOffering(t, e)
	a.visit(t, link.Exchange{Free: 1}) // b has claimed what it was woken for
	b.offer.Add(3)
	def, err := workflow.Parse("test.yaml", []byte("name: one\nsteps: [{id: a, handler: nobody}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	answers, err := e.Submit(t.Context(), slices.Repeat([]pawl.Submission{{Definition: def.Canonical(), Actor: "test"}}, 6)...)
	if err != nil {
		t.Fatal(err)
	}
	given := make(map[rowkey.Job]bool)
	for _, x := range slices.Concat(a.handed(), b.handed()) {
		given[x.Step.Job] = true
	}
	for i, answer := range answers {
		if want := i < 4; given[answer.ID.JobKey()] != want {
			t.Errorf("job %d: handed over: %v; want %v", i, !want, want)
		}
	}
	if n := a.offer.Reserved() + b.offer.Reserved(); n != 0 {
		t.Errorf("%d slots are reserved, though jobs wait", n)
	}
}

// TestAReportOnWhatIsOutdated: a report first decided on a job as it was before a move is
// decided again on the current job, and applied (K5, T13).
func TestAReportOnWhatIsOutdated(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	w, a := e.claimOne(t)
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		outdated := errors.New("outdated")
		err := s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			f.Jobs[a.Step.Job].Definition++
			if _, err := decide(f); err != nil {
				return nil, err
			}
			return nil, outdated
		})
		if !errors.Is(err, outdated) {
			t.Error(err)
		}
		return s.Store.Do(ctx, q, decide)
	}
	if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(a, "1")}}); err != nil {
		t.Fatal(err)
	}
	if j, err := e.store.Job(t.Context(), a.Step.Job); err != nil || j.State != lifecycle.JobCompleted {
		t.Errorf("the job is %v, %v; want the outcome applied, and the job ended", j, err)
	}
}
