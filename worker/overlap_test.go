package worker

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A desk is a link with room for two exchanges at a time, to each of which the test replies. Its
// steps end when the test says so.
type desk struct {
	link.Worker
	t        *testing.T
	capacity int
	others   atomic.Bool // other workers live
	calls    chan *call
	ends     chan struct{} // one for each step that ends

	running atomic.Int64
	begun   atomic.Int64
	waits   atomic.Int64 // how often the loop has begun to wait

	mu         sync.Mutex
	registered []*link.Predecessor
	claims     int // the last ord of a step
	reported   map[link.Stop]int
	offered    int // slots that are lent
	adds       int
	rung       bool
	work, bell chan struct{}

	strays   chan struct{}
	compared func(knows func(link.Stop) bool)
	recalls  int
}

// A call is an exchange that waits for its reply.
type call struct {
	link.Exchange
	reply chan reply
}

type reply struct {
	assigned []link.Assignment
	err      error
}

func (d *desk) Exchange(_ context.Context, x link.Exchange) ([]link.Assignment, error) {
	c := &call{x, make(chan reply)}
	d.calls <- c
	r := <-c.reply
	return r.assigned, r.err
}

func (d *desk) Overlap() int                           { return 2 }
func (d *desk) Hears() bool                            { return true }
func (d *desk) Stops() <-chan struct{}                 { return nil }
func (d *desk) Followed(context.Context) (bool, error) { return true, nil }

func (d *desk) Register(_ context.Context, r link.Registration) (*pawl.Worker, func(), error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registered = append(d.registered, r.Before)
	w := r.Worker
	w.ID = pawl.MakeID(time.Now(), uint32(len(d.registered)), 0)
	return &w, func() {}, nil
}

func (d *desk) LendSlots(*pawl.Worker, func(*link.Assignment)) link.Slots { return &lent{d} }

func (d *desk) Beat(context.Context, link.Pulse) (*link.Pulsed, error) {
	return &link.Pulsed{State: lifecycle.WorkerRunning, Alone: !d.others.Load()}, nil
}

func (d *desk) MoveWorker(context.Context, rowkey.Worker, machine.Event, decide.Note) error {
	return nil
}

func (d *desk) WorkerEnd(context.Context, rowkey.Worker) (link.WorkerEnd, error) {
	return link.WorkerEnd{Reason: "it was silent"}, nil
}

// StepInput runs the step.
func (d *desk) StepInput(ctx context.Context, _ *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	d.begun.Add(1)
	if n := d.running.Add(1); int(n) > d.capacity {
		d.t.Errorf("%d steps run at once", n)
	}
	defer d.running.Add(-1)
	select {
	case <-d.ends:
	case <-ctx.Done():
	}
	return nil, &pawl.Failure{Class: "ended"}, nil
}

// lent are the slots of the worker of a desk.
type lent struct{ *desk }

func (s *lent) Add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered, s.adds = s.offered+n, s.adds+1
}
func (s *lent) Close()                   { s.set(func() { s.offered = 0 }) }
func (s *lent) Withdraw()                { s.Close() }
func (s *lent) Work() <-chan struct{}    { return s.work }
func (s *lent) Rung() (rung bool)        { s.set(func() { rung = s.rung }); return rung }
func (s *lent) Reserved() (reserved int) { s.set(func() { reserved = s.offered }); return reserved }

func (s *lent) Recall()                                               { s.set(func() { s.recalls++ }) }
func (s *lent) Strays() <-chan struct{}                               { return s.desk.strays }
func (s *lent) Compare(_ context.Context, knows func(link.Stop) bool) { s.desk.compared(knows) }

// Bell is called each time the loop begins to wait.
func (s *lent) Bell() <-chan struct{} {
	s.waits.Add(1)
	return s.bell
}

func (s *lent) Unreserved(free func() int) (n int) {
	s.set(func() { n = max(free()-s.offered, 0) })
	return n
}

func (d *desk) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// atDesk runs a test with a worker at a desk. Its first exchange is still to come.
func atDesk(t *testing.T, capacity int, test func(*testing.T, *desk, *Worker)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &desk{t: t, capacity: capacity, calls: make(chan *call), ends: make(chan struct{}, 10_000),
			work: make(chan struct{}, 1), bell: make(chan struct{}, 1), strays: make(chan struct{}, 1), reported: make(map[link.Stop]int)}
		w, err := Start(t.Context(), linked{d}, Config{Capacity: capacity, Handlers: map[string]Handler{"h": func(context.Context, *Task) Result { return Result{} }}})
		if err != nil {
			t.Fatal(err)
		}
		test(t, d, w)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		go func() {
			for range d.begun.Load() {
				d.ends <- struct{}{}
			}
			for {
				select {
				case c := <-d.calls:
					d.accept(c)
					c.reply <- reply{}
				case <-w.Over():
					return
				}
			}
		}()
		if err := w.Drain(over); err != nil {
			t.Error(err)
		}
		for c, n := range d.reported {
			if n != 1 {
				t.Errorf("claim %v was accepted %d times", c, n)
			}
		}
	})
}

// next returns the next exchange.
func (d *desk) next() *call {
	d.t.Helper()
	synctest.Wait()
	select {
	case c := <-d.calls:
		return c
	default:
		d.t.Fatal("no exchange begins")
		return nil
	}
}

// none checks that no exchange begins.
func (d *desk) none(why string) {
	d.t.Helper()
	synctest.Wait()
	select {
	case c := <-d.calls:
		d.t.Fatalf("an exchange with %d reports and %d free slots began, though %s", len(c.Reports), c.Free, why)
	default:
	}
}

// accept counts the reports of an exchange as committed.
func (d *desk) accept(c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range c.Reports {
		d.reported[link.Stop{StepKey: r.Step, Claim: r.Claim}]++
	}
}

// assign accepts an exchange and assigns n steps, each of a job of its own or all of one job.
func (d *desk) assign(c *call, n int, job rowkey.Job) {
	d.accept(c)
	c.reply <- reply{assigned: d.steps(n, job)}
}

func (d *desk) steps(n int, job rowkey.Job) (list []link.Assignment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range n {
		d.claims++
		of := job
		if of == 0 {
			of = rowkey.Job(1000 + d.claims)
		}
		list = append(list, link.Assignment{Step: link.Claimed{StepKey: pawl.StepKey{Job: of, Ord: pawl.MakeOrd(1, d.claims)}, Claims: 1}})
	}
	return list
}

// end ends steps.
func (d *desk) end(n int) {
	for range n {
		d.ends <- struct{}{}
	}
	synctest.Wait()
}

// fill lets the worker claim all that it can, and returns when all its slots are in use.
func (d *desk) fill(job rowkey.Job) {
	for d.begun.Load() < int64(d.capacity) {
		c := d.next()
		d.assign(c, c.Free, job)
		synctest.Wait()
	}
}

// both lets all 100 slots of the worker be in use, and two visits begin: with the report of one
// step, and with those of 50.
func (d *desk) both() (a, b *call) {
	d.fill(0)
	d.end(1)
	a = d.next()
	d.end(50)
	return a, d.next()
}

// TestASecondVisitBegins when half of the slots have something to report while the first is under
// way, and not before. Each takes at most half.
func TestASecondVisitBegins(t *testing.T) { // T3
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		first := d.next()
		if first.Free != 50 {
			t.Fatalf("the first exchange asks for %d steps; want 50 of 100, for a second one beside it", first.Free)
		}
		d.assign(first, 50, 0)
		d.fill(0)
		d.end(1)
		a := d.next()
		if len(a.Reports) != 1 || a.Free != 1 {
			t.Fatalf("%d reports, %d free slots", len(a.Reports), a.Free)
		}
		d.end(49)
		d.none("too little has ended for a second one")
		d.end(1)
		b := d.next()
		if len(b.Reports) != 50 || b.Free != 50 {
			t.Fatalf("%d reports, %d free slots beside the first", len(b.Reports), b.Free)
		}
		d.end(49)
		d.none("two are under way")
		d.assign(b, b.Free, 0)
		d.none("too little has ended for a second one")
		d.end(21)
		b = d.next()
		if len(b.Reports) != 50 || b.Free != 50 {
			t.Fatalf("%d reports, %d free slots; want the share of one of two", len(b.Reports), b.Free)
		}
		d.assign(a, a.Free, 0)
		d.none("too little has ended for a second one")
		d.assign(b, b.Free, 0)
		a = d.next()
		if len(a.Reports) != 20 || a.Free != 20 {
			t.Fatalf("%d reports, %d free slots; want what the others left", len(a.Reports), a.Free)
		}
		d.assign(a, a.Free, 0)
	})
}

// TestReportsOfOneJobShareAVisit: what belongs to a job that another visit reports for waits for
// that visit, since its commit would.
func TestReportsOfOneJobShareAVisit(t *testing.T) { // T3
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		const wide = rowkey.Job(7)
		d.fill(wide)
		d.end(1)
		a := d.next()
		d.end(90)
		d.none("all of it belongs to the job of the first")
		d.assign(a, a.Free, 0)
		b := d.next()
		if len(b.Reports) != 90 || b.Free != 90 {
			t.Errorf("%d reports of one job, %d free slots; want all 90 of both", len(b.Reports), b.Free)
		}
		d.assign(b, b.Free, wide)
	})
}

// TestReportsAreSentAgainBesideAnotherVisit: reports that failed are sent again, once each, when
// the other visit has ended.
func TestReportsAreSentAgainBesideAnotherVisit(t *testing.T) { // T10, T5
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		a, b := d.both()
		sent := claimsOf(a.Reports)
		a.reply <- reply{err: &link.CommitError{Err: &pawl.Error{Kind: pawl.Unavailable, Message: "away"}}}
		d.end(50)
		d.none("the other is under way and the database may be away")
		d.assign(b, 50, 0)
		d.none("the worker pauses after the error")
		time.Sleep(200 * time.Millisecond)
		again := d.next()
		if got := claimsOf(again.Reports); len(got) < len(sent) || !slices.Equal(got[:len(sent)], sent) {
			t.Errorf("sent again: %v; want first %v", got, sent)
		}
		d.assign(again, 0, 0)
	})
}

// TestAnEndedWorkerRunsNothingOfItsOtherVisit: when a visit says that the worker has ended, it
// registers anew only after the other visit has ended; what that brings is not run, and is among
// the claims whose losses are taken back.
func TestAnEndedWorkerRunsNothingOfItsOtherVisit(t *testing.T) { // J1, T7
	atDesk(t, 100, func(t *testing.T, d *desk, w *Worker) {
		a, b := d.both()
		begun, old := d.begun.Load(), w.ID()
		a.reply <- reply{err: link.ErrWorkerEnded}
		synctest.Wait()
		if n := d.running.Load(); n != 0 {
			t.Errorf("%d steps of the ended worker run on beside the other visit", n)
		}
		if w.ID() != old {
			t.Fatal("the worker has registered anew while a visit of its old record was under way")
		}
		late := d.steps(50, 0)
		b.reply <- reply{assigned: late}
		synctest.Wait()
		if w.ID() == old {
			t.Fatal("the worker has not registered anew")
		}
		if n := d.begun.Load(); n != begun {
			t.Errorf("%d steps that the old record had claimed were begun", n-begun)
		}
		before := d.registered[1]
		for _, a := range late {
			if !slices.Contains(before.Claims, a.Step) {
				t.Errorf("%v is not among the claims of the predecessor", a.Step.StepKey)
			}
		}
		for _, c := range claimsOf(a.Reports) { // the other commit stands
			if !slices.ContainsFunc(before.Claims, func(x link.Claimed) bool { return x.StepKey == c.StepKey }) {
				t.Errorf("the report of %v, which came too late, is not among the claims of the predecessor", c.StepKey)
			}
		}
	})
}

// TestBothVisitsSayThatTheWorkerHasEnded: it registers anew once.
func TestBothVisitsSayThatTheWorkerHasEnded(t *testing.T) { // J1
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		a, b := d.both()
		a.reply <- reply{err: link.ErrWorkerEnded}
		b.reply <- reply{err: link.ErrWorkerEnded}
		c := d.next() // of the new record
		if n := len(d.registered); n != 2 {
			t.Errorf("registered %d times; want 2", n)
		}
		if len(d.registered[1].Claims) != 100 {
			t.Errorf("the predecessor had %d claims; want 100", len(d.registered[1].Claims))
		}
		d.assign(c, 0, 0)
	})
}

// TestADrainWaitsForBothVisits: a worker that drains runs what its visits bring, and is over when
// all that is reported.
func TestADrainWaitsForBothVisits(t *testing.T) { // T3, J1
	atDesk(t, 100, func(t *testing.T, d *desk, w *Worker) {
		a, b := d.both()
		d.end(49)
		done := make(chan error, 1)
		go func() { done <- w.Drain(context.Background()) }()
		synctest.Wait()
		d.assign(a, 0, 0)
		d.none("the other one is under way")
		select {
		case <-done:
			t.Fatal("the drain has ended before the second visit")
		default:
		}
		d.assign(b, 2, 0)
		c := d.next()
		if len(c.Reports) != 49 || c.Free != 0 {
			t.Errorf("%d reports, and the worker asks for %d steps; want 49, and none while it drains", len(c.Reports), c.Free)
		}
		d.assign(c, 0, 0)
		d.none("two steps run")
		d.end(2)
		for range 2 { // the first may report before the second has ended
			if synctest.Wait(); len(d.reported) < 102 {
				d.assign(d.next(), 0, 0)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestNoSlotIsLentBesideALook: slots are lent when the last visit that looks into the queue has
// ended and found it empty, and never so many that more steps could run than the capacity.
func TestNoSlotIsLentBesideALook(t *testing.T) { // T3, J7
	atDesk(t, 100, func(t *testing.T, d *desk, _ *Worker) {
		a, b := d.both()
		if a.SkipQueue || b.SkipQueue {
			t.Fatal("a visit does not look into a long queue")
		}
		d.assign(a, 0, 0) // the queue is empty
		synctest.Wait()
		if d.adds != 0 {
			t.Fatal("slots are lent while the other visit looks into the queue")
		}
		d.assign(b, 0, 0)
		synctest.Wait()
		if d.offered != 51 {
			t.Fatalf("%d slots are lent; want those of the 51 steps that have ended", d.offered)
		}
		d.end(1)
		c := d.next()
		if !c.SkipQueue || c.Free != 1 {
			t.Errorf("the visit looks into an empty queue, or asks for %d steps", c.Free)
		}
		d.set(func() { d.rung, d.offered = true, 0 })
		d.work <- struct{}{}
		synctest.Wait()
		d.assign(c, 0, 0)
		look := d.next()
		if look.SkipQueue || look.Free != 50 {
			t.Errorf("the next visit does not look into the queue, or asks for %d steps; want 50", look.Free)
		}
		d.set(func() { d.rung = false })
		d.end(3) // too few for a second visit
		d.assign(look, 0, 0)
		last := d.next()
		d.assign(last, 0, 0)
		synctest.Wait()
		if d.offered != 55 {
			t.Errorf("%d slots are lent; want 55", d.offered)
		}
	})
}

// TestAWorkerThatTakesNothingLooksForNothing: without free slots a visit does not count as one that
// has found the queue full.
func TestAWorkerThatTakesNothingLooksForNothing(t *testing.T) { // T3
	atDesk(t, 100, func(t *testing.T, d *desk, w *Worker) {
		d.fill(0)
		w.mu.Lock()
		w.scarce = true
		w.mu.Unlock()
		d.end(1)
		a := d.next()
		if a.Free != 0 || !a.SkipQueue {
			t.Errorf("the visit asks for %d steps; skips the queue: %v; want 0 and true", a.Free, a.SkipQueue)
		}
		d.assign(a, 0, 0)
	})
}

// TestALoneStepWakesTheLoopOnlyForWork: steps that run one after the other report by themselves. A
// loop that was woken during such an exchange sleeps on when it ends, and wakes for the report of
// another step.
func TestALoneStepWakesTheLoopOnlyForWork(t *testing.T) { // T3
	for name, capacity := range map[string]int{"one exchange at a time": 10, "two": 100} {
		t.Run(name, func(t *testing.T) {
			atDesk(t, capacity, func(t *testing.T, d *desk, _ *Worker) {
				d.assign(d.next(), 1, 0)
				d.end(1)
				a := d.next()
				d.bell <- struct{}{}
				synctest.Wait()
				waits := d.waits.Load()
				d.assign(a, 1, 0)
				d.end(1)
				d.assign(d.next(), 2, 0)
				synctest.Wait()
				if n := d.waits.Load() - waits; n != 0 {
					t.Errorf("the loop woke %d times for nothing", n)
				}
				d.end(1)
				c := d.next()
				if len(c.Reports) != 1 {
					t.Errorf("%d reports; want that of the step that ended", len(c.Reports))
				}
				d.assign(c, 0, 0)
			})
		})
	}
}

// A meeting is a store of which two transactions with reports meet before either of them begins.
type meeting struct {
	store.Store
	open    atomic.Bool // they are waited for
	entered chan struct{}
	met     chan struct{}
}

// Beat says that the worker is alone, which only PostgreSQL does by itself.
func (m *meeting) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	said, err := m.Store.Beat(ctx, p)
	if err == nil {
		said.Alone = true
	}
	return said, err
}

func (m *meeting) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if m.open.Load() && len(q.Steps) > 0 {
		m.entered <- struct{}{}
		<-m.met
	}
	return m.Store.Do(ctx, q, decide)
}

// TestTwoCommitsOfAWorkerAreUnderWay at the same time, if its engine has two lanes; each step is
// run once.
func TestTwoCommitsOfAWorkerAreUnderWay(t *testing.T) { // T3, T5
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	m := &meeting{Store: db, entered: make(chan struct{}), met: make(chan struct{})}
	e := engine.New(engine.Config{Store: m, Lanes: 2, Silence: time.Hour})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	const slots = 2 * minShare
	started, ends := make(chan struct{}, 4*slots), make(chan struct{}, 4*slots)
	h := func(context.Context, *Task) Result {
		started <- struct{}{}
		<-ends
		return Result{}
	}
	var runs []pawl.Submission
	def, err := workflow.Parse("one.yaml", []byte("name: one\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 * slots {
		runs = append(runs, pawl.Submission{Definition: def.Canonical()})
	}
	made, err := e.Submit(t.Context(), runs...)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Start(t.Context(), e, Config{Capacity: slots, Handlers: map[string]Handler{"h": h}, Beat: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Drain(context.Background()) })
	for range slots {
		<-started
	}
	m.open.Store(true)
	ends <- struct{}{}
	<-m.entered
	for range slots / 2 {
		ends <- struct{}{}
	}
	select {
	case <-m.entered: // while the other is held
	case <-time.After(time.Minute):
		close(m.met)
		t.Fatal("no second commit begins while the first is under way")
	}
	m.open.Store(false)
	close(m.met)
	for range 4*slots - slots/2 - 1 {
		ends <- struct{}{}
	}
	for _, a := range made {
		if _, err := e.Wait(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if v, err := e.Job(t.Context(), a.ID); err != nil || v.Status != lifecycle.JobCompleted || v.Steps[0].Attempts != 1 {
			t.Errorf("job %s: %s, %v", a.ID.Public(pawl.JobPrefix), v.Status, err)
		}
	}
}

// TestBesideOthers: a worker keeps one exchange under way once a beat says that another worker
// lives, and two again when it is alone (T3).
func TestBesideOthers(t *testing.T) {
	const slots = 2 * minShare
	atDesk(t, slots, func(t *testing.T, d *desk, w *Worker) {
		for _, others := range []bool{true, false} {
			d.others.Store(others)
			time.Sleep(w.config.Beat)
			synctest.Wait()
			if most := w.most(); most != map[bool]int{true: 1, false: 2}[others] {
				t.Errorf("others %v: %d exchanges under way at once", others, most)
			}
		}
		d.assign(d.next(), 0, 0)
	})
}
