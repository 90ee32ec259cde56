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
	w.poll, w.looked = w.poll || poll, time.Now()
}

// visitAll visits for as long as there is a reason to. It reports whether a draining
// worker has finished.
func (w *Worker) visitAll(draining bool) (over bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	for w.mend(); w.due(draining); w.mend() {
		assigned := w.visit(draining)
		w.collect() // before one of these can have ended
		for i := range assigned {
			w.run(&assigned[i])
		}
		w.linger(len(assigned))
		w.glance()
	}
	return draining && w.offer.Reserved()+w.busy() == 0 // in this order: a reserved slot may become a running step
}

// glance looks at what the loop waits for beside visits: with brief steps, visits may follow on
// each other for as long as there is work, and then the loop does not get to it.
func (w *Worker) glance() {
	select {
	case n := <-w.news:
		w.heed(n)
	default:
	}
	if now := time.Now(); now.Sub(w.looked) >= w.config.Poll {
		w.poll = w.poll || !w.link.Hears()
		w.looked = now
	}
}

// linger waits for the steps that a visit has begun, if steps are brief: they then share the next
// visit. Otherwise some of them would miss it and share one with those that it begins, and so
// on: there would be two groups of steps, each of which waits for the commit of the other.
func (w *Worker) linger(begun int) {
	if begun == 0 || begun > maxLingered || !w.pace.brief() || w.busy() < 2 { // one that runs alone reports by itself
		return
	}
	limit := time.NewTimer(w.pace.visit())
	defer limit.Stop()
	for range begun {
		select {
		case r := <-w.results:
			w.outbox = append(w.outbox, w.finished(r))
		case <-limit.C:
			w.pace.misjudged()
			return
		}
	}
}

// mend handles the error of the last visit, if there is one.
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

// backOff waits before the next attempt to report, or drops the reports.
func (w *Worker) backOff(err error) {
	w.warnOfDatabase(err)
	if w.givesUp() {
		w.log.Error("the worker stops while the database is unavailable; steps that it could not report will run again", "reports", len(w.outbox))
		w.outbox, w.poll = nil, false
		return
	}
	w.rest()
}

// due collects what there is to do, and reports whether there is anything. If not, it
// lends the free slots.
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

// unreserved returns the slots that the visitor may use. It closes the offer of a
// worker that polls the queue, so that no queued step is overtaken, and that of a
// worker that takes nothing.
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

// Of every queueEvery slots one is for the step that has waited longest in the queue,
// before what the worker's own reports make ready: begun jobs should continue, but a
// wide job must not hold up all others.
const queueEvery = 4

// visit reports, and claims what the reports make ready and, if it polls, what waits in
// the queue. It sets trouble if the worker has ended, or if the reports have to be sent
// again. If a visit that does not poll leaves something, its commit rings the bell.
func (w *Worker) visit(draining bool) []link.Assignment {
	now, looks := link.Portion(w.outbox), w.poll
	free := max(w.unreserved(draining)-len(w.outbox[now:]), 0) // reports that are held back keep their slots
	if !looks {                                                // what the reports make ready needs about as many slots
		share := min(free, now)
		w.offer.Add(free - share)
		free = share
	}
	w.mu.Lock()
	self := w.self
	w.mu.Unlock()
	began := time.Now()
	assigned, err := w.link.Exchange(context.Background(), link.Exchange{Worker: self, Reports: w.outbox[:now], Free: free, SkipQueue: !looks, Queued: w.owed / queueEvery})
	if err == nil && now+free > 0 { // otherwise it was none
		w.pace.visited(time.Since(began))
	}
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

// rest pauses a worker whose database is unreachable.
func (w *Worker) rest() {
	t := time.NewTimer(200 * time.Millisecond)
	defer t.Stop()
	<-t.C
}
