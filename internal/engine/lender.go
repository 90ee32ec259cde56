package engine

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// lent is what a worker of this process has lent to others.
type lent struct {
	slots int              // that are lent and not taken
	to    map[string]*loan // by process: those that are not over
	all   map[uint64]*loan // and those that are over, for a while
}

// A loan is slots that are lent to one process.
type loan struct {
	to       string
	number   uint64
	lent     int         // slots, all in all
	taken    int         // of them, as far as is known
	size     int         // how many are to be free at the borrower
	told     time.Time   // when the last message went to the borrower,
	used     int         // and how many were taken by then
	recalled bool        // the borrower was asked to take nothing more
	over     time.Time   // when what was left became the worker's again; zero: it has not
	ended    bool        // the borrower has said how many it has taken
	timer    *time.Timer // runs out when nothing was heard of it for long
}

func (l *loan) isOver() bool { return !l.over.IsZero() }

// demands returns which processes need slots of a worker. One that has had no task yet lends none:
// the first one changes its state.
func (s *offers) demands(worker rowkey.Worker) []demand {
	list := s.asks.list()
	if len(list) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.busy[worker] {
		return nil
	}
	return list
}

// lendOut lends slots that are offered here. At least half of what is free stays here. It requires
// the lock.
func (o *Slots) lendOut(to []demand) {
	if o.withdrawn || len(o.worker.Routes) > maxRoutes {
		return
	}
	for _, d := range to {
		switch l := o.lent.to[d.by]; {
		case l != nil:
			o.renew(l)
		case o.isLenderOf(&d):
			size := min(d.slots, o.worker.Capacity)
			if n := o.lendable(size); n > 0 {
				o.extend(o.newLoan(d.by), n, size)
			}
		}
	}
}

// isLenderOf reports whether a worker is among those that lend to a process: about twice as many as
// have the slots that it needs. Which they are follows from their places. It requires the lock.
func (o *Slots) isLenderOf(d *demand) bool {
	if o.peers == 0 {
		return false // nobody has said, or they are too many
	}
	first := int(d.place % uint32(o.peers))
	return (o.place-first+o.peers)%o.peers < 2+2*d.slots/o.worker.Capacity
}

// renew lends more slots of a loan of which some were taken since the last time. It requires the
// lock.
func (o *Slots) renew(l *loan) {
	out, soon := l.lent-l.taken, time.Since(l.told) < renewAfter
	if l.recalled || l.taken == l.used || soon && 2*out > l.size {
		return
	}
	size := l.size
	if 2*out <= size {
		size = min(2*size, o.worker.Capacity)
	}
	if n := o.lendable(size - out); n > 0 && !(soon && 4*n <= out) { // few are not worth a message
		o.extend(l, n, size)
	}
}

// lendable returns how many of n slots can be lent. It requires the lock.
func (o *Slots) lendable(n int) int {
	return min(n, o.slots-1, (o.slots+o.lent.slots)/2-o.lent.slots)
}

// extend lends n more slots, of a loan that is to have size of them free. It requires the lock.
func (o *Slots) extend(l *loan, n, size int) {
	o.slots -= n
	o.lent.slots += n
	l.lent, l.size, l.told, l.used = l.lent+n, size, time.Now(), l.taken
	o.tell(l, store.MessageLend)
}

func (o *Slots) tell(l *loan, kind store.MessageKind) {
	o.offers.e.store.Send(l.to, &store.Message{Kind: kind, Worker: o.worker.Key(), Loan: l.number, Count: l.lent, Routes: o.worker.Routes})
}

func (o *Slots) newLoan(to string) *loan {
	l := &loan{to: to, number: rand.Uint64()}
	l.timer = time.AfterFunc(lenderWaits, func() { o.expire(l) })
	if o.lent.to == nil {
		o.lent.to, o.lent.all = make(map[string]*loan), make(map[uint64]*loan)
	}
	o.lent.to[to], o.lent.all[l.number] = l, l
	o.compareWithin(compareEvery)
	return l
}

// forgetLoans forgets loans that have been over for long, and reports whether there are others. It
// requires the lock.
func (o *Slots) forgetLoans() bool {
	for number, l := range o.lent.all {
		if l.isOver() && time.Since(l.over) > loanMemory {
			delete(o.lent.all, number)
		}
	}
	return len(o.lent.all) > 0
}

// takeBack makes what is left of a loan the worker's own. It requires the lock.
func (o *Slots) takeBack(l *loan) {
	if l.isOver() {
		return
	}
	l.over = time.Now()
	o.lent.slots -= l.lent - l.taken
	delete(o.lent.to, l.to)
	o.bell.ring()
}

// expire takes back a loan of which nothing was heard for long. One that is recalled is taken back
// sooner, and then the last word of the borrower may still come.
func (o *Slots) expire(l *loan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waits := l.recalled && !l.isOver()
	switch o.takeBack(l); {
	case l.ended || o.withdrawn:
	case waits:
		l.timer.Reset(lenderWaits)
	default:
		o.mayStray()
	}
}

// Recall implements link.Slots.
func (o *Slots) Recall() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recall()
}

// recall is Recall with the lock. What a borrower that is dead or frozen does not return is taken
// back after a moment.
func (o *Slots) recall() {
	for _, l := range o.lent.to {
		if !l.recalled {
			l.recalled = true
			l.timer.Reset(recallGrace)
			o.tell(l, store.MessageRecall)
		}
	}
}

// compareAll asks for a comparison of each worker that has lent slots: messages may have been lost.
func (s *offers) compareAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.list {
		o.mu.Lock()
		if len(o.lent.all) > 0 {
			o.mayStray()
		}
		o.mu.Unlock()
	}
}

// taken handles a message of a borrower.
func (e *Engine) taken(o *Slots, m *store.Message) {
	begins := o.account(m)
	if begins > 0 {
		e.offers.asks.asked(m.From, 0)
	}
	for i := range m.Taken[:begins] {
		e.beginTaken(o, &m.Taken[i])
	}
	to := e.offers.demands(o.worker.Key())
	o.mu.Lock()
	defer o.mu.Unlock()
	if begins > 0 {
		o.lendOut(slices.DeleteFunc(to, func(d demand) bool { return d.by != m.From }))
	}
}

// account accounts for the slots that a message says were taken, and returns for how many of its
// steps there is one. The others are given back: they come so late that their loan is over, and the
// worker offers no slot in place of those.
func (o *Slots) account(m *store.Message) (begins int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.loanOf(m)
	if l == nil || o.withdrawn {
		return 0
	}
	n := len(m.Taken)
	if l.taken += n; !l.isOver() {
		o.lent.slots -= n
		if !l.recalled {
			l.timer.Reset(lenderWaits)
		}
	} else {
		n = min(n, o.slots)
		o.slots -= n
	}
	o.taken += n
	o.refuse(claimsOf(m.Taken[n:]), "its worker has no slot left")
	if m.Kind == store.MessageEnd {
		o.takeBack(l)
		l.ended = true
		l.timer.Stop()
		if !l.recalled {
			o.offers.asks.forget(l.to)
		}
	}
	return n
}

// loanOf returns the loan of a message, of which as many slots were taken before as the message
// says, or nil if it cannot be about any that is known. What other messages have said that were
// lost, a comparison finds. It requires the lock.
func (o *Slots) loanOf(m *store.Message) *loan {
	l := o.lent.all[m.Loan]
	if l == nil || l.to != m.From || m.Count < l.taken || len(m.Taken) > l.lent-m.Count {
		o.mayStray()
		return nil
	}
	if missed := m.Count - l.taken; missed > 0 {
		l.taken = m.Count
		if !l.isOver() {
			o.lent.slots -= missed
			o.bell.ring()
		}
		o.mayStray()
	}
	return l
}

func claimsOf(taken []store.Taken) (claims []link.Stop) {
	for i := range taken {
		s := taken[i].Step
		claims = append(claims, link.Stop{StepKey: s.StepKey, Claim: s.Claims})
	}
	return claims
}

// beginTaken begins a step for which a slot is taken. Mostly its definition is known.
func (e *Engine) beginTaken(o *Slots, t *store.Taken) {
	if def := e.defs.Known.Of(t.Job.Definition); def != nil {
		a := assignment(t.Step, e.jobs.put(t.Job, def), def)
		o.give(&a)
	} else if !e.background(func(ctx context.Context) { e.beginUnknown(ctx, o, t) }) {
		o.giveBack()
	}
}

// beginUnknown reads the definition of a step before it begins it. If that fails, the step is given
// back.
func (e *Engine) beginUnknown(ctx context.Context, o *Slots, t *store.Taken) {
	ctx, cancel := context.WithTimeout(ctx, lenderWaits)
	defer cancel()
	def, err := e.defs.Get(ctx, t.Job.Definition)
	if err == nil {
		a := assignment(t.Step, e.jobs.put(t.Job, def), def)
		o.give(&a)
		return
	}
	e.log.Warn("the definition of a step that another process has claimed for a worker could not be read; it goes to others", "error", err)
	o.giveBack()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuse(claimsOf([]store.Taken{*t}), "its worker could not read the definition")
}
