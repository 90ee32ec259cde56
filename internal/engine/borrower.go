package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A borrowing is a loan at the borrower: an offer whose worker is of another process.
type borrowing struct {
	e      *Engine
	from   string
	number uint64
	worker rowkey.Worker
	serves []rowkey.Route

	mu    sync.Mutex
	slots int           // that may be taken
	taken int           // by commits under way
	got   int           // all in all
	told  int           // of them, those of which the lender was told that they are taken
	until time.Time     // it lasts
	over  bool          // it takes nothing more
	ended bool          // the lender was told so
	lapse *time.Timer   // ends it
	news  []store.Taken // taken, and still to be reported to the lender
}

func (b *borrowing) key() rowkey.Worker     { return b.worker }
func (b *borrowing) routes() []rowkey.Route { return b.serves }

func (b *borrowing) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slots > 0
}

func (b *borrowing) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slots == 0 || time.Now().After(b.until) {
		return false
	}
	b.slots--
	b.taken++
	return true
}

// giveBack returns a slot that was taken but not used. If the engine is closed, the commit may have
// happened all the same; then the lender is to look.
func (b *borrowing) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken--
	switch {
	case b.e.life.Err() != nil:
		b.told++
	case !b.over:
		b.slots++
	}
	b.sayEnd()
}

// borrow takes slots that another process lends.
func (s *offers) borrow(m *store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.borrowed(m)
	if b == nil || b.number != m.Loan {
		if s.e.life.Err() != nil {
			return
		}
		b = s.newBorrowing(m)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && m.Count > b.got {
		b.slots += m.Count - b.got
		b.got, b.until = m.Count, time.Now().Add(loanLasts)
		b.lapse.Reset(loanLasts)
	}
}

// borrowed returns the newest loan of the worker that a message is about, or nil. It requires the
// lock.
func (s *offers) borrowed(m *store.Message) *borrowing {
	for _, b := range s.loans {
		if b.from == m.From && b.worker == m.Worker {
			return b
		}
	}
	return nil
}

// newBorrowing replaces the loan before, which has ended or ends with its last commit. It requires
// the lock.
func (s *offers) newBorrowing(m *store.Message) *borrowing {
	b := &borrowing{e: s.e, from: m.From, number: m.Loan, worker: m.Worker, serves: m.Routes}
	b.lapse = time.AfterFunc(loanLasts, b.giveUp)
	s.loans = slices.DeleteFunc(s.loans, func(x *borrowing) bool {
		gone := x.from == m.From && x.worker == m.Worker || x.stale()
		if gone {
			delete(s.busy, x.worker)
		}
		return gone
	})
	s.loans = append(s.loans, b)
	if s.busy == nil {
		s.busy = make(map[rowkey.Worker]bool)
	}
	s.busy[m.Worker] = true
	return b
}

// stale reports whether a loan has been over for long.
func (b *borrowing) stale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over && time.Since(b.until) > loanMemory
}

// returnLoan returns a loan that the lender recalls.
func (s *offers) returnLoan(m *store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.borrowed(m); b != nil && b.number == m.Loan {
		b.giveUp()
	}
}

// returnAll returns all loans.
func (s *offers) returnAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.loans {
		b.giveUp()
	}
}

// giveUp returns what is left of a loan.
func (b *borrowing) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots, b.over = 0, true
	b.lapse.Stop()
	b.sayEnd()
}

// sayEnd tells the lender that nothing more is taken, once no commit under way may take anything and
// the lender knows what was. It requires the lock.
func (b *borrowing) sayEnd() {
	if b.over && !b.ended && b.taken == 0 && len(b.news) == 0 {
		b.ended = true
		b.tell(store.MessageEnd)
	}
}

// tell tells the lender what was taken since the last time. It requires the lock.
func (b *borrowing) tell(kind store.MessageKind) {
	b.e.store.Send(b.from, &store.Message{Kind: kind, Worker: b.worker, Loan: b.number, Count: b.told, Taken: b.news})
	b.told += len(b.news)
	b.news = nil
}

// pass hands over the steps that a committed transaction has claimed for offers.
func (e *Engine) pass(t *tx) {
	var told []*borrowing
	for i := range t.handoffs {
		h := &t.handoffs[i]
		switch to := h.to.(type) {
		case *Slots:
			to.give(&h.what)
		case *borrowing:
			to.note(store.Taken{Job: t.job(h.what.Step.Job), Step: t.step(h.what.Step.StepKey)})
			if !slices.Contains(told, to) {
				told = append(told, to)
			}
		}
	}
	for _, b := range told {
		b.tellTaken()
	}
}

// note notes a step that a commit has claimed.
func (b *borrowing) note(t store.Taken) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken--
	b.news = append(b.news, t)
}

func (b *borrowing) tellTaken() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tell(store.MessageTake)
	b.sayEnd()
}
