package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Slots are the free slots of a worker of this process that has found nothing
// to claim. A job that is submitted to this engine goes to it in the commit that
// makes the job: every row of its tables is passed, and nobody is overtaken, since
// nobody waits.
//
// That holds because a slot is offered (Add, lend) only while the worker's bell has not
// rung since its last look at the queue began, and that found all there was, and less than
// it asked for.
// Whatever commit of this process leaves something in the queue rings it, which ends
// what is offered, before the commit is answered; so do the hints of other processes. A
// look hears the bell before it reads: what it may not see rings anew. Who is overtaken
// is so by what is decided between a commit and its ring or its hint, or, should a hint
// be lost, until the worker's next beat.
//
// Each slot is in one hand: offered, taken by a commit under way, running, or the
// loop's, which uses what is not Reserved.
type Slots struct {
	worker *pawl.Worker
	offers *offers
	run    func(*link.Assignment)
	bell   *bell
	work   *bell

	mu           sync.Mutex
	slots        int  // that may be taken
	taken        int  // by commits under way
	rung         bool // the work bell, which the worker has not heard yet
	unsure       bool // its last look passed over what others had locked
	pause        time.Duration
	again        *time.Timer // rings the work bell when that pause is over; nil until the first
	withdrawn    bool
	visiting     bool          // with free slots
	active       time.Time     // when its visit began or ended, or it was given something
	expectedIdle time.Duration // for which it is expected back after that
}

// offers are those of the workers of this process.
type offers struct {
	mu      sync.Mutex
	list    []*Slots
	busy    map[rowkey.Worker]bool // workers that have had a task
	waiting int                    // what this process has left in the queue, as far as it knows; negative: others have, too
}

// watch asks for a worker that is to take a step. Its first task changes its state;
// with all others it has to stay as it is, and commits need not wait for each other.
func (s *offers) watch(q *store.Query, worker rowkey.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[worker] {
		q.Watched = append(q.Watched, worker)
	} else {
		q.Workers = append(q.Workers, worker)
	}
}

// note takes from a committed worker whether it has had a task.
func (s *offers) note(w *pawl.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.State != lifecycle.WorkerRunning || s.busy[w.Key()] {
		return
	}
	if s.busy == nil {
		s.busy = make(map[rowkey.Worker]bool)
	}
	s.busy[w.Key()] = slices.ContainsFunc(s.list, func(o *Slots) bool { return o.worker.Key() == w.Key() })
}

// LendSlots registers a worker of this process, with no slots. What is committed for it
// is handed to run, which must neither block nor use the offer. The caller withdraws
// the offer when the worker has ended.
func (e *Engine) LendSlots(w *pawl.Worker, run func(*link.Assignment)) link.Slots {
	o := &Slots{worker: w, offers: &e.offers, run: run, bell: newBell(), work: newBell()}
	e.offers.mu.Lock()
	defer e.offers.mu.Unlock()
	e.offers.list = append(e.offers.list, o)
	return o
}

// Withdraw ends the offer: nothing is handed over any more. What commits under way
// have taken goes with the worker, and whoever has ended that has it done again.
func (o *Slots) Withdraw() {
	o.mu.Lock()
	o.slots, o.withdrawn = 0, true
	if o.again != nil {
		o.again.Stop()
	}
	o.mu.Unlock()
	o.offers.mu.Lock()
	defer o.offers.mu.Unlock()
	o.offers.list = slices.DeleteFunc(o.offers.list, func(x *Slots) bool { return x == o })
	delete(o.offers.busy, o.worker.Key())
}

// Add offers so many slots more, unless the worker has yet to look at the queue.
func (o *Slots) Add(slots int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.rung && !o.unsure {
		o.slots += slots
	}
}

// Close lets nothing more be taken, until Add.
func (o *Slots) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots = 0
}

// Reserved returns how many slots are not the worker's to use: those that are
// offered, and those that commits under way may use.
func (o *Slots) Reserved() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots + o.taken
}

// Unreserved returns how many of the free slots are the worker's to use. While free
// counts them nothing is handed over, so that each slot is in one hand.
func (o *Slots) Unreserved(free func() int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(free()-o.slots-o.taken, 0)
}

// Work returns the worker's own bell for what there may be to claim. Whoever waits for it
// has not heard it before Hear: until then nothing is offered.
func (o *Slots) Work() <-chan struct{} { return o.work.c }

// Hear reports whether the bell has rung since it was last heard.
func (o *Slots) Hear() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	rung := o.rung
	o.rung = false
	return rung
}

// Bell rings when a slot that was taken came back.
func (o *Slots) Bell() <-chan struct{} { return o.bell.c }

func (o *Slots) take() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == 0 {
		return false
	}
	o.slots--
	o.taken++
	return true
}

// lend takes a slot that the worker's own visit has left in this transaction, unless
// something has come into the queue.
func (o *Slots) lend() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rung || o.unsure {
		return false
	}
	o.taken++
	return true
}

// give hands over what was committed.
func (o *Slots) give(a *link.Assignment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken--
	o.active = time.Now()
	if o.withdrawn {
		o.bell.ring()
	} else {
		o.run(a)
	}
}

// giveBack gives a slot back that was taken for nothing.
func (o *Slots) giveBack() {
	o.mu.Lock()
	o.taken--
	o.mu.Unlock()
	o.bell.ring()
}

// ring rings the bells of all workers: something is in the queue. They offer nothing
// more until they have looked, so that it is not overtaken for as long as a visit takes.
func (s *offers) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		o.ring()
	}
}

func (o *Slots) ring() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots, o.rung = 0, true
	o.work.ring()
}

// find returns an offer with a slot for the route, or nil. Offers take turns.
func (s *offers) find(route rowkey.Route) *Slots {
	if route == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.list {
		if o.open() && slices.Contains(o.worker.Routes, route) {
			copy(s.list[i:], s.list[i+1:])
			s.list[len(s.list)-1] = o
			return o
		}
	}
	return nil
}

func (o *Slots) open() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots > 0
}

// A handoff is a step that was claimed for an offer, in a transaction that is not
// committed yet.
type handoff struct {
	to   *Slots
	what link.Assignment
}

// A spare is slots that a worker's visit has left in this very transaction, which has
// found nothing in the queue for them. What is submitted in the same commit may take
// them, and once it is committed they are offered.
type spare struct {
	of    *Slots
	slots int
}

// spare leaves slots of a worker of this process to what is submitted in the same commit.
func (e *Engine) spare(t *tx, worker rowkey.Worker, slots int) {
	if o := e.offers.of(worker); o != nil && slots > 0 {
		t.spare = append(t.spare, spare{o, slots})
	}
}

// look is for a worker whose next transaction looks at the queue: it sees what its bell
// has rung for until now.
func (s *offers) look(worker rowkey.Worker) {
	if o := s.of(worker); o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rung, o.unsure = false, false
		if o.again != nil {
			o.again.Stop()
		}
	}
}

// Bounds of the pause after a look that has passed over what others had locked: their
// commits are on the way, and some of what they lock they may leave.
const (
	minDoubt = 5 * time.Millisecond
	maxDoubt = 50 * time.Millisecond
)

// saw has a worker that has slots left after a look at the queue look again: at once if
// there was more, in a while if others had it locked. Else it may rest.
func (s *offers) saw(worker rowkey.Worker, more, skipped bool) {
	o := s.of(worker)
	switch {
	case o == nil:
	case more:
		o.ring()
	case skipped:
		o.doubt()
	default:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.pause = 0
	}
}

// doubt rings the work bell after a pause, which is twice as long each time in a row.
// Until then nothing is offered: it would overtake what has been passed over.
func (o *Slots) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots, o.unsure = 0, true
	o.pause = min(max(2*o.pause, minDoubt), maxDoubt)
	switch {
	case o.withdrawn:
	case o.again == nil:
		o.again = time.AfterFunc(o.pause, o.ring)
	default:
		o.again.Reset(o.pause)
	}
}

// of returns the offer of a worker, or nil.
func (s *offers) of(worker rowkey.Worker) *Slots {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.list, func(o *Slots) bool { return o.worker.Key() == worker }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// takeSlot takes a slot of an offer, one that is spare in this transaction if it can.
func (t *tx) takeSlot(o *Slots) bool {
	for i := range t.spare {
		if s := &t.spare[i]; s.of == o && s.slots > 0 && o.lend() {
			s.slots--
			return true
		}
	}
	return o.take()
}

// findSlot takes a slot for the route, of the first offer or else of another one whose
// worker is in sight. It returns nil from the first time on that it finds none: what is
// submitted in one commit is begun in its order.
func (t *tx) findSlot(s *offers, first *Slots, route rowkey.Route) *Slots {
	if route == 0 || slices.Contains(t.full, route) {
		return nil
	}
	if first != nil && t.serves(first, route) && t.takeSlot(first) {
		return first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if o != first && t.serves(o, route) && t.takeSlot(o) {
			return o
		}
	}
	t.full = append(t.full, route)
	return nil
}

// serves reports whether the offer's worker may be given a step of the route.
func (t *tx) serves(o *Slots, route rowkey.Route) bool {
	w := t.workerInSight(o.worker.Key())
	return w != nil && !lifecycle.Worker.Ended(w.State) && w.State != lifecycle.WorkerPaused && slices.Contains(w.Routes, route)
}

// settle hands over what was claimed for offers, or takes it back.
func (t *tx) settle(handoffs []handoff, committed bool) {
	for i := range handoffs {
		if committed {
			handoffs[i].to.give(&handoffs[i].what)
		} else {
			handoffs[i].to.giveBack()
		}
	}
}

// handOver starts a job that this transaction has made, and claims its first
// steps for the offer, of which a slot was taken, while it has more of them.
func (e *Engine) handOver(t *tx, o *Slots, j *pawl.Job, def *workflow.Definition) error {
	w := t.worker(o.worker.Key())
	reserved := true // the slot is nobody's yet
	defer func() {
		if reserved {
			o.giveBack()
		}
	}()
	d := &decide.Decision{Definition: def, JobTx: jobTx{e: e, t: t, key: j.Key()}, Now: t.now, Jitter: e.cfg.Jitter}
	facts := e.jobs.put(j, def)
	before, given := len(t.enqueued), len(t.handoffs)
	if err := d.Start(decide.Note{}); err != nil {
		return err
	}
	for _, k := range t.enqueued[before:] {
		s := t.step(k)
		if s.State != lifecycle.StepEnqueued || !slices.Contains(w.Routes, s.Route) {
			continue
		}
		if !reserved && !t.takeSlot(o) {
			t.full = append(t.full, s.Route)
			break
		}
		reserved = true
		if err := d.Claim(s, w); err != nil {
			return err
		}
		reserved = false
		t.handoffs = append(t.handoffs, handoff{to: o, what: assignment(s, facts, def)})
	}
	if len(t.handoffs) == given {
		return nil // its first step waits for something else
	}
	return t.startTask(w)
}

// startTask notes that a worker has its first task.
func (t *tx) startTask(w *pawl.Worker) error {
	if w.State != lifecycle.WorkerIdle {
		return nil
	}
	return t.moveWorker(w, lifecycle.WorkerStartTask, decide.Note{Actor: w.ID.Public(pawl.WorkerPrefix)})
}

// offerFor finds the offer that a job of the definition could go to.
func (s *submit) offerFor(q *store.Query) {
	if s.offer = s.e.offers.find(s.route); s.offer != nil {
		s.e.offers.watch(q, s.offer.worker.Key())
	}
}
