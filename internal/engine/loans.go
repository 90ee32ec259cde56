package engine

import (
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/store"
)

// A worker whose process has found nothing in the queue lends free slots to processes that submit
// (lender.go). There they are offers like those of workers of the same process (borrower.go): a
// job is claimed in the commit that makes it. A message has it begin. Only stores that pass
// messages have loans: elsewhere hints do not say from whom they are.

// Times and sizes of loans.
const (
	firstLoan   = 4                      // slots of the first loan to a process, at least
	loanLasts   = 500 * time.Millisecond // at the borrower, from the last message of the lender on
	lenderWaits = time.Second            // for word of the borrower, before the lender takes back what it has lent
	renewAfter  = 200 * time.Millisecond // a loan that is used is renewed then, if not sooner
	recallGrace = 30 * time.Millisecond  // for the borrower to return what is recalled
	loanMemory  = time.Minute            // how long a loan that is over is remembered
	maxRoutes   = 256                    // of a worker that lends
	maxTold     = 4000                   // bytes of the inputs and texts of a job that is begun by a message
)

const (
	askedWithin = time.Second            // hints of a process that are so close make it a borrower,
	askedOften  = 2                      // if there are so many of them
	demandSpan  = 100 * time.Millisecond // what a process leaves in the queue meanwhile is the size of its first loan
	maxAskers   = 64                     // processes to which slots are lent at once
)

// An asker is a process that leaves work in the queue and takes messages.
type asker struct {
	place uint32 // from which on workers lend
	last  time.Time
	hints int       // in a row
	since time.Time // when it began to leave
	steps int       // so many in the queue
	need  int       // in the demandSpan before that
}

// askers are the processes to which slots may be lent.
type askers struct {
	mu  sync.Mutex
	all map[string]*asker
}

// asked records that a process has left steps in the queue that lent slots could have taken or, with
// none, that it uses what was lent.
func (a *askers) asked(from string, steps int) {
	if from == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	k := a.all[from]
	if k == nil || now.Sub(k.last) > askedWithin {
		if k = a.add(from, now); k == nil {
			return
		}
	}
	k.last = now
	if steps > 0 {
		k.hints++
	}
	if now.Sub(k.since) > demandSpan {
		k.need, k.steps, k.since = k.steps, 0, now
	}
	k.steps += steps
}

// add adds an asker, unless there are too many. It requires the lock.
func (a *askers) add(from string, now time.Time) *asker {
	for handle, old := range a.all {
		if now.Sub(old.last) > askedWithin {
			delete(a.all, handle)
		}
	}
	if len(a.all) >= maxAskers {
		return nil
	}
	if a.all == nil {
		a.all = make(map[string]*asker)
	}
	place, _ := strconv.ParseUint(from, 36, 64) // handles are random
	k := &asker{since: now, place: uint32(place)}
	a.all[from] = k
	return k
}

// forget forgets a process that has returned what it was lent.
func (a *askers) forget(from string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, from)
}

// A demand is of a process to which slots may be lent.
type demand struct {
	by    string
	place uint32
	slots int
}

// list returns the processes to which slots may be lent now, and how many each needs.
func (a *askers) list() (list []demand) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return nil
	}
	now := time.Now()
	for handle, k := range a.all {
		if k.hints >= askedOften && now.Sub(k.last) <= askedWithin {
			list = append(list, demand{handle, k.place, max(k.need, k.steps, firstLoan)})
		}
	}
	return list
}

// message handles a message about slots.
func (e *Engine) message(m *store.Message) {
	switch m.Kind {
	case store.MessageLend:
		e.offers.borrow(m)
	case store.MessageRecall:
		e.offers.returnLoan(m)
	case store.MessageTake, store.MessageEnd:
		if o := e.offers.of(m.Worker); o != nil {
			e.taken(o, m)
		}
	}
}
