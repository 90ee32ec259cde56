package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A stray is a claim that a worker holds, but of which its process has not heard: the process that
// has committed it died before its message, or the message was lost. A living worker is never
// relieved of a step, so it has to find strays itself. It compares what the database says it holds
// with what it knows, and gives back the rest: those steps are interrupted, at the cost of no
// attempt, and claimed again.
//
// A claim whose message is on its way looks the same. So a stray is one that is unknown in two
// comparisons. From the moment on in which it is given back it is refused: a message that comes all
// the same does not begin it.
const (
	strayAge     = 250 * time.Millisecond // between the two comparisons, at least
	compareEvery = 30 * time.Second       // while there are loans, if nothing else asks: a borrower may die whose commit takes long
)

// strays are what an offer knows of claims that its worker has not heard of.
type strays struct {
	bell     *bell
	asked    bool                    // the next comparison is a first one, whatever the last one has seen
	suspects map[link.Stop]time.Time // what was unknown, and since when
	refused  map[link.Stop]time.Time // when they were given back
	last     time.Time               // when the last comparison ended
	again    *time.Timer             // rings the bell
	due      time.Time               // when it does; zero: it does not
}

// Strays implements link.Slots.
func (o *Slots) Strays() <-chan struct{} { return o.strays.bell.c }

// mayStray notes that the worker may hold claims of which it has not heard. It requires the lock.
func (o *Slots) mayStray() {
	o.strays.asked = true
	o.compareWithin(strayAge - time.Since(o.strays.last))
}

// compareWithin asks for a comparison after a time, unless one comes sooner. It requires the lock.
func (o *Slots) compareWithin(d time.Duration) {
	s, due := &o.strays, time.Now().Add(d)
	switch {
	case o.withdrawn:
	case d <= 0:
		s.bell.ring()
	case s.again == nil:
		s.due, s.again = due, time.AfterFunc(d, s.bell.ring)
	case s.due.IsZero() || due.Before(s.due):
		s.due = due
		s.again.Reset(d)
	}
}

// Compare implements link.Slots.
func (o *Slots) Compare(ctx context.Context, knows func(link.Stop) bool) {
	held := &holding{worker: o.worker.Key()}
	err := o.offers.e.committer.one(ctx, held)
	o.mu.Lock()
	defer o.mu.Unlock()
	s := &o.strays
	if s.last, s.due = time.Now(), (time.Time{}); err != nil {
		o.compareWithin(lenderWaits)
		return
	}
	o.refuse(o.lost(held.claims, knows), "its worker has not heard of the claim")
	if len(s.suspects) > 0 {
		o.compareWithin(strayAge)
	} else if o.forgetLoans() {
		o.compareWithin(compareEvery)
	}
}

// lost returns the strays among the claims, and makes others suspects if nobody was suspected or a
// comparison was asked for. It requires the lock, under which a step that is handed over begins: it
// is either known or still to come.
func (o *Slots) lost(held []link.Stop, knows func(link.Stop) bool) (lost []link.Stop) {
	s, now := &o.strays, time.Now()
	before, first := s.suspects, s.asked || len(s.suspects) == 0
	s.suspects, s.asked = nil, false
	for _, c := range held {
		since, suspected := before[c]
		switch {
		case knows(c) || o.isRefused(c):
			continue
		case suspected && now.Sub(since) >= strayAge:
			lost = append(lost, c)
			continue
		case !suspected && !first:
			continue
		case !suspected:
			since = now
		}
		if s.suspects == nil {
			s.suspects = make(map[link.Stop]time.Time)
		}
		s.suspects[c] = since
	}
	return lost
}

// refuse gives claims back, and lets none of them begin here. It requires the lock.
func (o *Slots) refuse(claims []link.Stop, reason string) {
	if len(claims) == 0 {
		return
	}
	now := time.Now()
	for c, at := range o.strays.refused {
		if now.Sub(at) > 2*loanMemory { // then its loan is forgotten
			delete(o.strays.refused, c)
		}
	}
	if o.strays.refused == nil {
		o.strays.refused = make(map[link.Stop]time.Time)
	}
	for _, c := range claims {
		o.strays.refused[c] = now
	}
	o.offers.e.background(func(ctx context.Context) { o.giveBackClaims(ctx, claims, reason) }) // unless the engine ends, and so does the worker, soon
}

// isRefused reports whether a claim was given back. It requires the lock.
func (o *Slots) isRefused(c link.Stop) bool {
	_, refused := o.strays.refused[c]
	return refused
}

// giveBackClaims interrupts steps that do not run here. One that has been taken from the worker
// meanwhile stays as it is.
func (o *Slots) giveBackClaims(ctx context.Context, claims []link.Stop, reason string) {
	e, by := o.offers.e, o.worker.ID.Public(pawl.WorkerPrefix)
	for claims := range slices.Chunk(claims, link.MaxWeight) {
		cmds := make([]command, len(claims))
		for i, c := range claims {
			cmds[i] = e.newReport(&link.Report{Step: c.StepKey, Claim: c.Claim, Actor: by, By: o.worker.Key(),
				Report: decide.Report{Event: lifecycle.StepInterrupt, Note: decide.Note{Reason: reason}}})
		}
		errs, err := e.committer.do(ctx, cmds...)
		if ctx.Err() != nil {
			return
		}
		var failed []link.Stop
		for i, c := range claims {
			if err != nil || link.Retryable(errs[i]) {
				failed = append(failed, c)
			}
		}
		if len(failed) > 0 {
			e.log.Warn("claims could not be given back; it is tried again", "worker", by, "claims", len(failed), "error", errors.Join(append(errs, err)...))
			o.tryAgain(failed)
		}
	}
}

// tryAgain has a comparison find claims that could not be given back.
func (o *Slots) tryAgain(claims []link.Stop) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range claims {
		delete(o.strays.refused, c)
	}
	o.strays.asked = true
	o.compareWithin(lenderWaits)
}

// holding reads what a worker holds.
type holding struct {
	worker rowkey.Worker
	claims []link.Stop
}

func (h *holding) query(q *store.Query) { q.Held = append(q.Held, h.worker) }

func (h *holding) decide(t *tx) error {
	h.claims = nil
	for _, k := range t.facts.Held[h.worker] {
		h.claims = append(h.claims, link.Stop{StepKey: k, Claim: t.step(k).Claims})
	}
	return nil
}

// background runs f in a goroutine for which Close waits, unless the engine is closed. The context
// ends with the engine.
func (e *Engine) background(f func(context.Context)) bool {
	e.closing.Lock()
	defer e.closing.Unlock()
	if e.life.Err() != nil {
		return false
	}
	e.loops.Go(func() {
		var err error
		defer e.survive(&err)
		f(e.life)
	})
	return true
}
