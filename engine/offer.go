package engine

import (
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// An Offer is the free slots of a worker of this process that has found nothing
// to claim. A job that is submitted to this engine goes to it in the commit that
// makes the job: every row of its tables is passed, and nobody is overtaken, since
// nobody waits.
type Offer struct {
	worker *pawl.Worker
	offers *offers
	bell   *bell
	work   *bell

	mu    sync.Mutex
	slots int // that may be taken
	taken int // by commits under way
	given []Assignment
}

// offers are those of the workers of this process.
type offers struct {
	mu   sync.Mutex
	list []*Offer
	busy map[int64]bool // workers that have had a task
}

// watch asks for a worker that is to take a step. Its first task changes its state;
// with all others it has to stay as it is, and commits need not wait for each other.
func (s *offers) watch(q *store.Query, worker int64) {
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
		s.busy = make(map[int64]bool)
	}
	s.busy[w.Key()] = slices.ContainsFunc(s.list, func(o *Offer) bool { return o.worker.Key() == w.Key() })
}

// Offer registers a worker of this process, with no slots. The caller withdraws
// the offer when the worker has ended.
func (e *Engine) Offer(w *pawl.Worker) *Offer {
	o := &Offer{worker: w, offers: &e.offers, bell: newBell(), work: newBell()}
	e.offers.mu.Lock()
	defer e.offers.mu.Unlock()
	e.offers.list = append(e.offers.list, o)
	return o
}

// Withdraw ends the offer. What commits under way have taken is given all the same.
func (o *Offer) Withdraw() {
	o.Close()
	o.offers.mu.Lock()
	defer o.offers.mu.Unlock()
	o.offers.list = slices.DeleteFunc(o.offers.list, func(x *Offer) bool { return x == o })
	delete(o.offers.busy, o.worker.Key())
}

// Open offers slots, until Close.
func (o *Offer) Open(slots int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots = slots
}

// Close lets nothing more be taken, and answers how many slots were: those given
// and not yet fetched with Given, and those that commits under way may give.
func (o *Offer) Close() (reserved int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots = 0
	return o.taken + len(o.given)
}

// Work answers the worker's own bell for what there may be to claim.
func (o *Offer) Work() <-chan struct{} { return o.work.c }

// Bell rings when something was given, or a slot that was taken came back.
func (o *Offer) Bell() <-chan struct{} { return o.bell.c }

// Given answers what the worker now owns.
func (o *Offer) Given() []Assignment {
	o.mu.Lock()
	defer o.mu.Unlock()
	given := o.given
	o.given = nil
	return given
}

func (o *Offer) take() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == 0 {
		return false
	}
	o.slots--
	o.taken++
	return true
}

// give hands over what was committed, or takes the slot back.
func (o *Offer) give(a *Assignment) {
	o.mu.Lock()
	o.taken--
	if a != nil {
		o.given = append(o.given, *a)
	}
	o.mu.Unlock()
	o.bell.ring()
}

// ring rings the bells of all workers.
func (s *offers) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		o.work.ring()
	}
}

// find answers an offer with a slot for the route, or nil. Offers take turns.
func (s *offers) find(route int64) *Offer {
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

func (o *Offer) open() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots > 0
}

// A gift is a step that was claimed for an offer, in a transaction that is not
// committed yet.
type gift struct {
	to   *Offer
	what Assignment
}

// settle hands over what was claimed for offers, or takes it back.
func (t *tx) settle(gifts []gift, committed bool) {
	for i := range gifts {
		if committed {
			gifts[i].to.give(&gifts[i].what)
		} else {
			gifts[i].to.give(nil)
		}
	}
}

// handOver starts a job that this transaction has made, and claims its first
// steps for the offer while it has slots. The worker must be in sight.
func (e *Engine) handOver(t *tx, o *Offer, j *pawl.Job, def *workflow.Definition) error {
	w := t.worker(o.worker.Key())
	if w == nil || lifecycle.Worker.Ended(w.State) || w.State == lifecycle.WorkerPaused || !o.take() {
		return nil
	}
	reserved := true // the first slot is taken before the job is started
	defer func() {
		if reserved {
			o.give(nil)
		}
	}()
	d := &workflow.Decision{Definition: def, Board: board{e: e, t: t, key: j.Key()}, Now: t.now, Jitter: e.cfg.Jitter}
	facts := e.jobs.put(j, def)
	before, given := len(t.enqueued), len(t.gifts)
	if err := d.Start(workflow.Note{}); err != nil {
		return err
	}
	for _, k := range t.enqueued[before:] {
		s := t.step(k)
		if s.State != lifecycle.StepEnqueued || !slices.Contains(w.Routes, s.Route) {
			continue
		}
		if !reserved && !o.take() {
			break
		}
		reserved = true
		if err := d.Claim(s, w); err != nil {
			return err
		}
		reserved = false
		t.gifts = append(t.gifts, gift{to: o, what: assignment(s, facts, def)})
	}
	if len(t.gifts) == given {
		return nil // its first step waits for something else
	}
	return t.startTask(w)
}

// startTask notes that a worker has its first task.
func (t *tx) startTask(w *pawl.Worker) error {
	if w.State != lifecycle.WorkerIdle {
		return nil
	}
	return t.moveWorker(w, lifecycle.WorkerStartTask, workflow.Note{Actor: w.ID.Public(pawl.WorkerPrefix)})
}

// offerFor answers the offer that a job of the definition could go to.
func (s *submit) offerFor(q *store.Query) {
	if s.offer = nil; !s.direct {
		return
	}
	j := &pawl.Job{Workspace: s.sub.Workspace, Private: s.private()}
	if s.def.Concurrency > 0 {
		return
	}
	if s.offer = s.e.offers.find(firstRoute(s.def, j)); s.offer != nil {
		s.e.offers.watch(q, s.offer.worker.Key())
	}
}
