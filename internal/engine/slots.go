package engine

import (
	"math/bits"
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

// Slots are the free slots of a worker of this process that has found nothing to claim. A
// job submitted to this engine goes to the worker in the commit that makes the job. The job
// still passes through every row of its tables, and it overtakes nothing, since nothing
// waits.
//
// That holds because a slot is offered (Add, lend) only while the worker's bell has not
// rung since its last scan of the queue began, nor is to ring soon (ringAfter), and only if that
// scan found everything there was, and less than it asked for. If scans overlap, that is the
// newest one: the bell may have been cleared for steps that only it sees. Until it has ended,
// nothing but its own commit may offer slots. What an older scan leaves, the newest has seen or
// skipped because it was locked, or the bell has rung for it since.
//
// A commit of this process that leaves something in the queue rings the bell, which ends
// the offer, before the callers of the commit return; hints of other processes ring it too.
// A scan hears the bell before it reads, so that anything it may miss rings the bell again.
// A job can be overtaken only by what is decided between a commit and its ring or hint or,
// if a hint is lost, until the worker's next beat. What other processes take of lent slots
// (loans.go) may overtake it until the worker has heard the hint, and has scanned or recalled
// them.
//
// Each slot is in one place at a time: offered, lent, taken by a commit under way, running, or
// owned by the worker's loop, which uses the slots that are not Reserved.
type Slots struct {
	worker *pawl.Worker
	offers *offers
	run    func(*link.Assignment)
	bell   *bell
	work   *bell

	mu           sync.Mutex
	slots        int  // that may be taken
	taken        int  // by commits under way
	rung         bool // the work bell has rung since the last scan of the queue began
	unsure       bool // it is to scan the queue at due: the last scan skipped rows that others had locked, or others are to look first
	pause        time.Duration
	again        *time.Timer // rings the work bell at due; nil until the first pause
	due          time.Time
	place, peers int       // as the last beat says
	fed          time.Time // when a submission last took a slot
	withdrawn    bool
	scan         int           // the number of the newest scan of the queue
	seen         int           // that of the newest scan that has ended and found all there was
	visits       int           // under way, with free slots
	active       time.Time     // when a visit began or ended, or it was last given something
	expectedIdle time.Duration // time after active within which it is expected back

	lent   lent
	strays strays
}

// offers are the slots offered by the workers of this process.
type offers struct {
	mu      sync.Mutex
	list    []*Slots
	busy    map[rowkey.Worker]bool // workers that have had a task
	loans   []*borrowing           // of workers of other processes
	asks    askers
	e       *Engine
	waiting int // what this process has left in the queue, as far as it knows; negative: other processes have left something too
}

// An offer is free slots of a worker that the commit of a submission may take.
type offer interface {
	key() rowkey.Worker
	routes() []rowkey.Route
	open() bool // as far as is known
	take() bool
	giveBack() // what was taken, without having used it
}

func (o *Slots) key() rowkey.Worker     { return o.worker.Key() }
func (o *Slots) routes() []rowkey.Route { return o.worker.Routes }

// watch adds a worker that is to take a step to the query. The worker's first task changes
// its state; for later tasks the state only has to stay as it is, so commits need not wait
// for each other.
func (s *offers) watch(q *store.Query, worker rowkey.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[worker] {
		q.Watched = append(q.Watched, worker)
	} else {
		q.Workers = append(q.Workers, worker)
	}
}

// note records whether a committed worker has had a task.
func (s *offers) note(w *pawl.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.State != lifecycle.WorkerRunning || s.busy[w.Key()] {
		return
	}
	if s.busy == nil {
		s.busy = make(map[rowkey.Worker]bool)
	}
	if slices.ContainsFunc(s.list, func(o *Slots) bool { return o.worker.Key() == w.Key() }) {
		s.busy[w.Key()] = true
	}
}

// LendSlots registers a worker of this process, with no slots. A step that a commit claims
// for the worker is passed to run, which must neither block nor use the offer. The caller
// withdraws the offer when the worker has ended.
func (e *Engine) LendSlots(w *pawl.Worker, run func(*link.Assignment)) link.Slots {
	o := &Slots{worker: w, offers: &e.offers, run: run, bell: newBell(), work: newBell(), strays: strays{bell: newBell()}}
	e.offers.mu.Lock()
	defer e.offers.mu.Unlock()
	e.offers.list = append(e.offers.list, o)
	return o
}

// Withdraw ends the offer: nothing more is handed over. Steps claimed by commits under way
// stay with the worker, and the release that ends it makes them available again.
func (o *Slots) Withdraw() {
	o.mu.Lock()
	o.slots, o.withdrawn = 0, true
	o.recall()
	if o.strays.again != nil {
		o.strays.again.Stop()
	}
	if o.again != nil {
		o.again.Stop()
	}
	o.mu.Unlock()
	o.offers.mu.Lock()
	defer o.offers.mu.Unlock()
	o.offers.list = slices.DeleteFunc(o.offers.list, func(x *Slots) bool { return x == o })
	delete(o.offers.busy, o.worker.Key())
}

// Add offers that many more slots, unless there may be something in the queue.
func (o *Slots) Add(slots int) { o.add(slots, 0) }

// add is Add in the commit of a scan, or with 0 in any other. What the newest scan leaves is lent
// to other processes even if their hints came meanwhile: the jobs that they leave in the queue are
// mostly as new as those that they would claim.
func (o *Slots) add(slots, scan int) {
	to := o.offers.demands(o.worker.Key())
	o.mu.Lock()
	defer o.mu.Unlock()
	empty := o.empty(scan)
	if empty || len(to) > 0 && scan > 0 && scan == o.scan && !o.withdrawn {
		o.slots += slots
		o.lendOut(to)
	}
	if !empty {
		o.slots = 0
	}
}

// empty reports whether nothing is in the queue, as far as is known: no bell has rung, and the
// newest scan found all there was. The caller is a scan that has just found that, or 0. It
// requires the lock.
func (o *Slots) empty(scan int) bool {
	return !o.rung && !o.unsure && (o.scan == o.seen || o.scan == scan)
}

// Close prevents slots from being taken until Add.
func (o *Slots) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots = 0
}

// Reserved returns how many slots the worker must not use: those that are offered, and
// those that commits under way may use.
func (o *Slots) Reserved() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots + o.taken + o.lent.slots
}

// Unreserved returns how many of the free slots the worker may use. While free counts them
// nothing is handed over, so that no slot is counted twice.
func (o *Slots) Unreserved(free func() int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(free()-o.slots-o.taken-o.lent.slots, 0)
}

// Work returns the worker's bell for work that may be ready to claim. Receiving from it
// does not count as hearing it; until the next scan of the queue begins nothing is offered.
func (o *Slots) Work() <-chan struct{} { return o.work.c }

// Rung reports whether that bell has rung since the last scan of the queue began.
func (o *Slots) Rung() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rung
}

// Bell returns a bell that rings when a slot that was taken is given back.
func (o *Slots) Bell() <-chan struct{} { return o.bell.c }

func (o *Slots) take() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.slots == 0 {
		return false
	}
	o.slots--
	o.taken++
	o.fed = time.Now()
	return true
}

// lend takes a slot that the worker's own visit has left free in this transaction, unless
// something may be in the queue. scan is that of the visit, or 0.
func (o *Slots) lend(scan int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.empty(scan) {
		return false
	}
	o.taken++
	o.fed = time.Now()
	return true
}

// give hands over a committed assignment.
func (o *Slots) give(a *link.Assignment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.taken--
	o.active = time.Now()
	if o.withdrawn || o.isRefused(link.Stop{StepKey: a.Step.StepKey, Claim: a.Step.Claims}) {
		o.bell.ring()
	} else {
		o.run(a)
	}
}

// giveBack returns a slot that was taken but not used.
func (o *Slots) giveBack() {
	o.mu.Lock()
	o.taken--
	o.mu.Unlock()
	o.bell.ring()
}

// ring rings the bells of all workers: something is in the queue. They offer nothing until
// they have scanned it; otherwise it could be overtaken for as long as a visit takes.
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
	o.ringNow()
}

// ringNow is ring with the lock.
func (o *Slots) ringNow() {
	if o.again != nil {
		o.again.Stop()
	}
	o.slots, o.rung = 0, true
	o.work.ring()
}

// find returns an offer with a slot for the route, of a worker of this process if there is any, or nil.
// Offers take turns.
func (s *offers) find(route rowkey.Route) offer {
	if route == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, found := next(s.list, route); found {
		return o
	}
	if b, found := next(s.loans, route); found {
		return b
	}
	return nil
}

// next returns an offer with a slot for the route, and moves it behind the others.
func next[O offer](list []O, route rowkey.Route) (o O, found bool) {
	for i, o := range list {
		if o.open() && slices.Contains(o.routes(), route) {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = o
			return o, true
		}
	}
	return o, false
}

func (o *Slots) open() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots > 0
}

// A handoff is a step that was claimed for an offer, in a transaction that is not committed
// yet.
type handoff struct {
	to   offer
	what link.Assignment
}

// A spare is the slots that a worker's visit leaves free in this transaction, after it has
// found nothing in the queue for them. Submissions in the same commit may take them; after
// the commit they are offered.
type spare struct {
	of    *Slots
	slots int
	scan  int // of the visit, or 0
}

// spare lets submissions in the same commit use slots of a worker of this process.
func (e *Engine) spare(t *tx, c *claim, slots int) {
	if o := e.offers.of(c.worker.Key()); o != nil && slots > 0 {
		t.spare = append(t.spare, spare{o, slots, c.scan})
	}
}

// look marks the work bell as heard for a worker whose next transaction scans the queue:
// that scan sees everything the bell has rung for so far. It ends the offer, and returns the
// number of the scan.
func (s *offers) look(worker rowkey.Worker) (scan int) {
	o := s.of(worker)
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rung, o.unsure, o.slots, o.scan = false, false, 0, o.scan+1
	if o.again != nil {
		o.again.Stop()
	}
	return o.scan
}

// Bounds of the pause after a scan that skipped rows locked by other commits: those commits
// are under way, and may leave some of the rows in the queue.
const (
	minDoubt = 5 * time.Millisecond
	maxDoubt = 50 * time.Millisecond
)

// saw makes a worker with free slots after a scan of the queue scan again: at once if there
// was more, after a pause if others had it locked. Otherwise the worker may rest.
func (s *offers) saw(worker rowkey.Worker, scan int, more, skipped bool) {
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
		o.pause, o.seen = 0, max(o.seen, scan)
	}
}

// doubt rings the work bell after a pause, which doubles each time in a row. Until then
// nothing is offered: it would overtake the skipped rows.
func (o *Slots) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pause = min(max(2*o.pause, minDoubt), maxDoubt)
	o.ringAfter(o.pause)
}

// ringAfter rings the work bell after a pause, unless it is to ring sooner anyway, and offers
// nothing until then. It requires the lock.
func (o *Slots) ringAfter(pause time.Duration) {
	now := time.Now()
	if o.slots = 0; o.withdrawn || o.unsure && now.Before(o.due) && o.due.Before(now.Add(pause)) {
		return
	}
	o.unsure, o.due = true, now.Add(pause)
	if o.again == nil {
		o.again = time.AfterFunc(pause, o.ring)
	} else {
		o.again.Reset(pause)
	}
}

const (
	// headStart is how long the worker that is next leaves a step to the one that is to look
	// first: longer than a claim takes.
	headStart = 3 * time.Millisecond

	// fedFor is how long after a submission of its own process a worker is likely to get another
	// one.
	fedFor = time.Second
)

// placed records the place of a worker among its peers.
func (s *offers) placed(worker rowkey.Worker, place, peers int) {
	if o := s.of(worker); o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.place, o.peers = place, peers
	}
}

// hear rings at once the bells of as many workers as there are steps, and those of the others
// after a pause, unless they scan the queue before: those that look first may be full or dead.
func (s *offers) hear(h store.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		o.hear(h)
	}
	s.asks.asked(h.From, h.Asks)
}

func (o *Slots) hear(h store.Hint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch away := o.turnsAway(h); {
	case away <= 0:
		o.ringNow()
	case !o.rung:
		o.ringAfter(min(time.Duration(bits.Len(uint(away))+1)*headStart/2, 2*headStart))
	}
}

// turnsAway returns how many places the worker is behind those that are to look first, and at
// most 0 if it is one of them. So is a worker that submissions of its own process feed: while it
// waited, these would go through the queue, with a hint that makes the next worker wait. It
// requires the lock.
func (o *Slots) turnsAway(h store.Hint) int {
	if h.Steps == 0 || o.peers == 0 || time.Since(o.fed) < fedFor {
		return 0
	}
	first := int(h.First % uint32(o.peers))
	return (o.place-first+o.peers)%o.peers - h.Steps + 1
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

// takeSlot takes a slot of an offer, preferably one that is spare in this transaction.
func (t *tx) takeSlot(o offer) bool {
	for i := range t.spare {
		if s := &t.spare[i]; offer(s.of) == o && s.slots > 0 && s.of.lend(s.scan) {
			s.slots--
			return true
		}
	}
	return o.take()
}

// findSlot takes a slot for the route, from the first offer or else from another one whose
// worker is in sight; if own, only from workers of this process. Once it has found none it always
// returns nil: the submissions of one commit begin in their order.
func (t *tx) findSlot(s *offers, first offer, route rowkey.Route, own bool) offer {
	if route == 0 || slices.Contains(t.full, route) {
		return nil
	}
	if _, borrowed := first.(*borrowing); first != nil && !(own && borrowed) && t.serves(first, route) && t.takeSlot(first) {
		return first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		if t.serves(o, route) && t.takeSlot(o) {
			return o
		}
	}
	for _, b := range s.loans {
		if !own && t.serves(b, route) && t.takeSlot(b) {
			return b
		}
	}
	t.full = append(t.full, route)
	return nil
}

// serves reports whether the offer's worker may be given a step of the route.
func (t *tx) serves(o offer, route rowkey.Route) bool {
	w := t.workerInSight(o.key())
	return w != nil && !lifecycle.Worker.Ended(w.State) && w.State != lifecycle.WorkerPaused && slices.Contains(w.Routes, route)
}

// settle gives the slots back for which steps were claimed that are not committed.
func (t *tx) settle(handoffs []handoff) {
	for i := range handoffs {
		handoffs[i].to.giveBack()
	}
}

// handOver starts a job that this transaction has made, and claims its first steps for the
// offer, of which one slot is already taken, as long as it has more slots.
func (e *Engine) handOver(t *tx, o offer, j *pawl.Job, def *workflow.Definition) error {
	w := t.worker(o.key())
	reserved := true // the slot is not used yet
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

// startTask records that a worker has its first task.
func (t *tx) startTask(w *pawl.Worker) error {
	if w.State != lifecycle.WorkerIdle {
		return nil
	}
	return t.moveWorker(w, lifecycle.WorkerStartTask, decide.Note{Actor: w.ID.Public(pawl.WorkerPrefix)})
}

// offerFor finds an offer for a job of the definition.
func (s *submit) offerFor(q *store.Query) {
	if s.offer = s.e.offers.find(s.route); s.offer != nil {
		s.e.offers.watch(q, s.offer.key())
	}
}

// isLarge reports whether a job has more than a message to the process of its worker can have.
func isLarge(j *pawl.Job) bool { return len(j.Inputs)+len(j.Metadata)+len(j.Description) > maxTold }
