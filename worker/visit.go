package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/link"
)

func (w *Worker) askToPoll(poll bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.poll = w.poll || poll
}

// visitAll visits for as long as there is a reason to. It reports whether a worker that
// drains is over.
func (w *Worker) visitAll(draining bool) (over bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	for w.mend(); w.due(draining); w.mend() {
		assigned := w.visit(draining)
		for i := range assigned {
			w.run(&assigned[i])
		}
	}
	return draining && w.offer.Reserved()+w.busy() == 0 // in this order: what is reserved may be handed over
}

// mend deals with why the last visit has failed, if it has.
func (w *Worker) mend() {
	err := w.trouble
	w.trouble = nil
	switch {
	case errors.Is(err, link.ErrWorkerEnded):
		w.ended()
	case err != nil:
		w.backOff(err)
	}
}

// backOff waits before what could not be reported is reported again, or gives it up.
func (w *Worker) backOff(err error) {
	w.warnOfDatabase(err)
	if w.givesUp() {
		w.log.Error("the worker stops while the database is away; what it had to report will be run again", "reports", len(w.outbox))
		w.outbox, w.poll = nil, false
		return
	}
	w.rest()
}

// due collects what there is to do, and reports whether that is anything. If not, what
// is free is offered.
func (w *Worker) due(draining bool) bool {
	w.collect()
	w.poll = w.offer.Hear() || w.poll
	free := w.unreserved(draining)
	if len(w.outbox) > 0 || w.poll && free > 0 {
		return true
	}
	w.offer.Add(free)
	return false
}

// unreserved returns the slots that are the visitor's to use. It closes the offer of a
// worker that goes to the queue, so that nobody is overtaken, or takes nothing.
func (w *Worker) unreserved(draining bool) int {
	if w.poll || draining || w.free() == 0 {
		w.offer.Close()
	}
	return w.offer.Unreserved(w.slots)
}

// collect adds what has finished to the outbox.
func (w *Worker) collect() {
	for {
		select {
		case r := <-w.results:
			w.outbox = append(w.outbox, w.finished(r))
		default:
			return
		}
	}
}

// queueEvery is of how many slots one is for who has waited longest in the queue,
// before what the worker's own reports make ready: what has begun is to go on, and a
// wide job must not hold up all others.
const queueEvery = 4

// visit reports, and claims: what the reports make ready, and if it is to poll
// what waits in the queue. The trouble it may meet is that the worker has ended, or that
// the reports have to be sent again. Of what a visit leaves that does not look, its
// commit rings.
func (w *Worker) visit(draining bool) []link.Assignment {
	now, looks := link.Portion(w.outbox), w.poll
	free := max(w.unreserved(draining)-len(w.outbox[now:]), 0) // what is held back keeps its slot
	if !looks {                                                // what the reports make ready needs about as many slots
		share := min(free, now)
		w.offer.Add(free - share)
		free = share
	}
	w.mu.Lock()
	self := w.self
	w.mu.Unlock()
	assigned, err := w.link.Exchange(context.Background(), link.Exchange{Worker: self, Reports: w.outbox[:now], Free: free, SkipQueue: !looks, Queued: w.owed / queueEvery})
	w.poll = looks && len(assigned) == free
	again := link.Retryable(err)
	if errors.Is(err, link.ErrWorkerEnded) {
		w.late = append(w.late, claimsOf(w.outbox[:now])...)
	}
	if !again {
		w.outbox = slices.Delete(w.outbox, 0, now)
	}
	if again || errors.Is(err, link.ErrWorkerEnded) {
		w.poll, w.trouble = true, err
		return nil
	}
	if err != nil {
		w.log.Error("a report was not accepted", "error", err)
	}
	if looks {
		w.owed %= queueEvery
	}
	w.owed += len(assigned)
	return assigned
}

// givesUp reports whether the worker is to stop at once.
func (w *Worker) givesUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hurried
}

// rest keeps a worker whose database is away from asking too often.
func (w *Worker) rest() {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	<-t.C
}
