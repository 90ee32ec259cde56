package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A visit is an exchange with the engine. As many are under way at once as the engine can use
// (link.Worker.Overlap) while no other worker lives: with others, the server has enough to do, and
// smaller transactions only cost more. The first begins as soon as there is something to do,
// another one beside it once its share of steps (see share) has ended and can be reported. The
// turn is held to prepare a visit and to settle it, and by nobody during the exchange.
//
// Each slot is in one place: with a running step, with a report in the outbox, with a visit, or
// lent. Each report is in the outbox or with one visit.
type visit struct {
	link.Exchange
	jobs  map[rowkey.Job]bool // of the reports; nil if there is only one visit at a time
	wants int                 // Worker.wants when it began
	began time.Time
}

// minShare is how many slots each of several exchanges has at least. With fewer, the additional
// transactions cost more than is gained.
const minShare = 50

// Of every queueEvery slots one is for the step that has waited longest in the queue,
// before what the worker's own reports make ready: begun jobs should continue, but a
// wide job must not hold up all others.
const queueEvery = 4

func (w *Worker) askToPoll(poll bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if w.looked = time.Now(); poll {
		w.want()
	}
}

// want notes that there may be something in the queue.
func (w *Worker) want() { w.poll, w.wants = true, w.wants+1 }

// visitAll visits for as long as there is a reason to. It reports whether a draining worker has
// finished, and whether a visit of another goroutine is under way, whose end wakes the loop if
// there is something left to do.
func (w *Worker) visitAll(draining bool) (over, under bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.left = false
	for w.between(); w.due(draining); w.between() {
		w.visitOnce(draining)
	}
	w.left = len(w.visits) > 0
	return draining && !w.left && w.offer.Reserved()+w.busy() == 0, w.left // in this order: a reserved slot may become a running step
}

// visitBeside visits while another visit is under way, whenever enough has ended.
func (w *Worker) visitBeside() {
	for {
		select {
		case <-w.ample:
			w.turn.Lock()
			for w.compareAlone(); w.due(w.draining()); w.compareAlone() {
				w.visitOnce(w.draining())
			}
			if len(w.visits) == 0 {
				w.alert()
			}
			w.turn.Unlock()
		case <-w.life.Done():
			return
		}
	}
}

func (w *Worker) visitOnce(draining bool) {
	assigned := w.visit(draining)
	w.collect() // before one of these can have ended
	for i := range assigned {
		w.run(&assigned[i])
	}
	w.linger(len(assigned))
	w.glance()
}

// glance looks at what the loop waits for beside visits: with brief steps, visits may follow on
// each other for as long as there is work, and then the loop does not get to it.
func (w *Worker) glance() {
	select {
	case n := <-w.news:
		w.heed(n)
	case <-w.offer.Strays():
		w.strays = true
	default:
	}
	if now := time.Now(); now.Sub(w.looked) >= w.config.Poll {
		w.looked = now
		if !w.link.Hears() {
			w.want()
		}
	}
}

// linger waits for the steps that a visit has begun, if steps are brief: they then share the next
// visit. Otherwise some of them would miss it and share one with those that it begins, and so
// on: there would be two groups of steps, each of which waits for the commit of the other.
func (w *Worker) linger(begun int) {
	if begun == 0 || begun > maxLingered || len(w.visits) > 0 || !w.pace.brief() || w.busy() < 2 { // one that runs alone reports by itself
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

// between does what has to be done while no visit is under way.
func (w *Worker) between() {
	w.mend()
	w.compareAlone()
}

// compareAlone compares if that is to be done and no visit is under way.
func (w *Worker) compareAlone() {
	if w.strays && len(w.visits) == 0 {
		w.strays = false
		w.compare()
	}
}

// compareLimit bounds a comparison, since visits wait for it.
const compareLimit = 2 * time.Second

// compare gives back what the worker holds without having heard of it. No visit is under way, so
// that what it has claimed itself runs here, or its report is in the outbox.
func (w *Worker) compare() {
	reported := make(map[claimKey]bool, len(w.outbox))
	for i := range w.outbox {
		reported[claimKey{w.outbox[i].Step, w.outbox[i].Claim}] = true
	}
	ctx, cancel := context.WithTimeout(w.life, compareLimit)
	defer cancel()
	w.offer.Compare(ctx, func(c link.Stop) bool {
		k := claimKey{c.StepKey, c.Claim}
		w.mu.Lock()
		defer w.mu.Unlock()
		_, runs := w.running[k]
		return runs || reported[k]
	})
}

// stray notes that there is something to compare; until then only one visit is under way.
func (w *Worker) stray() {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.strays = true
}

// mend handles the error of the last visit, if there is one, once no other visit is under way:
// what that still brings belongs to the record of the worker under which it began.
func (w *Worker) mend() {
	if w.trouble == nil || len(w.visits) > 0 {
		return
	}
	err := w.trouble
	w.trouble = nil
	if errors.Is(err, link.ErrWorkerEnded) {
		w.ended()
	} else {
		w.backOff(err)
	}
}

// fail notes an error to mend. That the worker has ended outweighs all others, and what runs is
// stopped at once: other workers may run it again by now.
func (w *Worker) fail(err error) {
	if w.want(); !errors.Is(w.trouble, link.ErrWorkerEnded) {
		w.trouble = err
	}
	if errors.Is(err, link.ErrWorkerEnded) {
		w.offer.Withdraw() // from here on no step begins that would not be stopped
		w.stopAll(errEnded)
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

// due collects what there is to do, and reports whether a visit is to begin now. If nothing is
// left for one, it lends the free slots.
func (w *Worker) due(draining bool) bool {
	for {
		w.collect()
		if w.offer.Rung() {
			w.want()
		}
		free := w.unreserved(draining)
		switch {
		case w.trouble != nil:
			w.expect(math.MaxInt)
			return false
		case len(w.visits) == 0 && (len(w.outbox) > 0 || w.poll && free > 0):
			return true
		}
		w.lend(free - len(w.outbox))
		lacking := w.lacking()
		if lacking <= 0 {
			return true
		}
		if !w.expect(lacking) {
			return false
		}
	}
}

// expect has the next visit begin when so many more steps have ended, and reports whether they have.
func (w *Worker) expect(lacking int) bool {
	w.mu.Lock()
	w.enough = lacking
	enough := len(w.results) >= lacking
	w.mu.Unlock()
	if enough {
		w.tellAmple()
	}
	return enough
}

// hand leaves a report to the next visit, and has that begin if there are enough.
func (w *Worker) hand(r link.Report) {
	w.results <- r
	w.mu.Lock()
	enough := len(w.results) >= w.enough
	w.mu.Unlock()
	if enough {
		w.tellAmple()
	}
}

// tellAmple wakes whoever is free to begin a visit.
func (w *Worker) tellAmple() {
	select {
	case w.ample <- struct{}{}:
	default:
	}
}

// lacking returns how many more steps have to end before a visit begins beside the one under way.
// If none is under way, the next report begins one, which the loop receives unless it has left.
func (w *Worker) lacking() int {
	switch {
	case len(w.visits) == 0 && w.left:
		return 1
	case len(w.visits) == 0 || len(w.visits) >= w.most():
		return math.MaxInt
	}
	return w.share() - w.reportable()
}

// share returns how many slots a visit takes, and how many steps must have ended for one beside
// another.
func (w *Worker) share() int {
	n := w.most()
	return (w.config.Capacity + n - 1) / n
}

// most returns how many visits may be under way at once.
func (w *Worker) most() int {
	if w.alone.Load() && !w.strays {
		return w.width
	}
	return 1
}

// reportable moves the reports of the outbox to its beginning that wait for no visit under way,
// and returns how many they are: the second of two commits that change one job waits for the first.
func (w *Worker) reportable() int {
	if len(w.visits) == 0 {
		return len(w.outbox)
	}
	waits := func(r *link.Report) bool {
		return slices.ContainsFunc(w.visits, func(v *visit) bool { return v.jobs[r.Step.Job] })
	}
	n := 0
	for i := range w.outbox {
		if !waits(&w.outbox[i]) {
			w.outbox[i], w.outbox[n] = w.outbox[n], w.outbox[i]
			n++
		}
	}
	return n
}

// lend lends free slots, unless there may be something in the queue for them.
func (w *Worker) lend(slots int) {
	if !w.poll && !w.looks() && slots > 0 {
		w.offer.Add(slots)
	}
}

// looks reports whether a visit is under way that looks for what waits in the queue.
func (w *Worker) looks() bool {
	return slices.ContainsFunc(w.visits, func(v *visit) bool { return !v.SkipQueue })
}

// unreserved returns the slots that no visit has and that are not lent. It closes the offer of a
// worker that polls the queue, so that no queued step is overtaken, and that of a worker that
// takes nothing.
func (w *Worker) unreserved(draining bool) int {
	if w.poll || w.looks() || draining || w.free() == 0 {
		w.offer.Close()
	}
	free := w.offer.Unreserved(w.slots)
	for _, v := range w.visits {
		free -= v.Free
	}
	if free = max(free, 0); draining || free == 0 && w.poll && !w.looks() {
		w.offer.Recall() // something may wait for the slots that are lent
	}
	return free
}

// collect adds what has finished to the outbox.
func (w *Worker) collect() {
	w.outbox = slices.Grow(w.outbox, len(w.results))
	for {
		select {
		case r := <-w.results:
			w.outbox = append(w.outbox, w.finished(r))
		default:
			return
		}
	}
}

// visit reports, and claims what the reports make ready and, if it polls, what waits in
// the queue. It sets trouble if the worker has ended, or if the reports have to be sent
// again. If a visit that does not poll leaves something, its commit rings the bell.
func (w *Worker) visit(draining bool) []link.Assignment {
	v := w.prepare(draining)
	w.visits = append(w.visits, v)
	w.expect(w.lacking())
	w.turn.Unlock()
	assigned, err := w.link.Exchange(context.Background(), v.Exchange)
	w.turn.Lock()
	w.visits = slices.DeleteFunc(w.visits, func(x *visit) bool { return x == v })
	return w.settle(v, assigned, err)
}

// prepare takes reports and free slots for a visit. If there may be another beside it, it takes at
// most its share of each, but as many slots as reports.
func (w *Worker) prepare(draining bool) *visit {
	now := link.Portion(w.outbox[:w.reportable()])
	v := &visit{wants: w.wants, began: time.Now()}
	share := w.share()
	now = w.portion(v, now, share)
	free := max(w.unreserved(draining)-len(w.outbox[now:]), 0)                   // reports that are held back keep their slots
	if v.SkipQueue = !w.poll || free == 0 || w.looks() && !w.deep; v.SkipQueue { // what the reports make ready needs about as many slots
		share = min(free, now)
		w.lend(free - share)
	}
	v.Free = min(free, max(share, now))
	w.mu.Lock()
	v.Worker = w.self
	w.mu.Unlock()
	v.Reports = w.outbox[:now:now]
	w.outbox = slices.Clone(w.outbox[now:])
	if !v.SkipQueue {
		v.Queued = w.owed / queueEvery
		w.owed %= queueEvery
	}
	return v
}

// portion returns how many of the first n reports a visit takes: its share, and the others of the
// same jobs, which it moves to the beginning.
func (w *Worker) portion(v *visit, n, share int) int {
	if w.most() < 2 {
		return n
	}
	v.jobs = make(map[rowkey.Job]bool, min(n, share))
	taken := 0
	for i := range n {
		if job := w.outbox[i].Step.Job; taken < share || v.jobs[job] {
			v.jobs[job] = true
			w.outbox[i], w.outbox[taken] = w.outbox[taken], w.outbox[i]
			taken++
		}
	}
	return taken
}

// settle handles the reply to a visit and returns the steps to run.
func (w *Worker) settle(v *visit, assigned []link.Assignment, err error) []link.Assignment {
	if err == nil && len(v.Reports)+v.Free > 0 { // otherwise it was none
		w.pace.visited(time.Since(v.began))
	}
	if link.Retryable(err) {
		w.outbox = append(v.Reports, w.outbox...)
	}
	if errors.Is(err, link.ErrWorkerEnded) {
		w.late = append(w.late, claimsOf(v.Reports)...)
	}
	if link.Retryable(err) || errors.Is(err, link.ErrWorkerEnded) {
		w.owed += v.Queued * queueEvery
		w.fail(err)
		return nil
	}
	if err != nil {
		w.log.Error("a report was not accepted", "error", err)
	}
	if !v.SkipQueue {
		w.found(v, len(assigned) == v.Free)
	}
	if errors.Is(w.trouble, link.ErrWorkerEnded) { // what was claimed before the end is not run
		for i := range assigned {
			w.late = append(w.late, assigned[i].Step)
		}
		return nil
	}
	w.owed += len(assigned)
	return assigned
}

// found notes what a visit has seen of the queue: that there may be more, or that it was all, unless
// there was a reason to look again since the visit began.
func (w *Worker) found(v *visit, more bool) {
	if w.deep = more; more {
		w.want()
	} else {
		w.poll = w.wants != v.wants
	}
}

// alert makes the loop check for work.
func (w *Worker) alert() {
	select {
	case w.look <- struct{}{}:
	default:
	}
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
