package engine

import (
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/store"
)

// A scan goes through what is due in rounds of looks, the oldest first. Each look
// begins behind the last one, and a round ends with what was due when it began: so
// neither what cannot be done nor what is due all the time hides anything for long.
type scan struct {
	q store.LookQuery // where the next look begins
}

// maxQueue bounds the jobs that wait to be evaluated: the marks of others are left in
// the database until some of these are done.
const maxQueue = 10 * lookLimit

// next returns where a look begins. With a long queue it looks for no marks.
func (s *scan) next(queue int) store.LookQuery {
	q := s.q
	q.Limit = lookLimit
	if queue >= maxQueue {
		q.Marked.At = math.MaxInt64
	}
	return q
}

// note takes what the look of q has found, and reports whether more is due.
func (s *scan) note(q store.LookQuery, a *store.Agenda) (more bool) {
	if q.Marked == s.q.Marked {
		n := len(a.Marked)
		s.q.MarkedUntil, more = bound(q.MarkedUntil, n, a.Now)
		if s.q.Marked = (store.Marked{}); s.q.MarkedUntil != 0 {
			s.q.Marked = a.Marked[n-1]
		}
	}
	n, moreDue := len(a.Due), false
	s.q.DueUntil, moreDue = bound(q.DueUntil, n, a.Now)
	if s.q.Due = (store.Due{}); s.q.DueUntil != 0 {
		s.q.Due = a.Due[n-1]
	}
	return more || moreDue
}

// bound returns until when the round goes on, or 0 if it is over, and whether more is
// due: of this round, or because it took more than one look.
func bound(until int64, found int, now int64) (int64, bool) {
	if found == lookLimit {
		if until == 0 {
			until = now
		}
		return until, true
	}
	return 0, until != 0
}

// Pages are of pending jobs: one with each poll, and fast through all of them when a
// hint has asked for it, but then not again for some time, so that many jobs that
// cannot start cost little.
type pages struct {
	after store.Ranked
	asked bool      // for a fast round
	fast  bool      // it is one
	begun time.Time // it, if fast
	again time.Time // when the next one may be
}

const (
	pageEvery  = 50 * time.Millisecond
	sweepShare = 5 // fast rounds take a fifth of the time, or less
)

// begin returns behind which job the next page begins.
func (p *pages) begin(now time.Time) store.Ranked {
	if p.asked && !p.fast && !now.Before(p.again) {
		*p = pages{fast: true, begun: now}
	}
	return p.after
}

// more takes the page, and reports whether the next one is to be looked at soon.
func (p *pages) more(found []store.Ranked, now time.Time) bool {
	if len(found) == lookLimit {
		p.after = found[len(found)-1]
		return p.fast
	}
	p.after = store.Ranked{}
	if p.fast {
		p.fast, p.again = false, now.Add((sweepShare-1)*now.Sub(p.begun))
	}
	return false
}

// The waits between tries of what fails: the first, twice as long each time, and the
// longest.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = time.Minute
)

// delay returns the wait after so many tries in vain: up to half as long again by
// jitter, so that what failed together is not tried together for ever.
func delay(tries int, jitter float64) time.Duration {
	d := maxDelay
	if tries < 16 {
		d = min(d, firstDelay<<tries)
	}
	return min(maxDelay, d+time.Duration(jitter*float64(d)/2))
}

// maxDelays bounds what is remembered of what has failed.
const maxDelays = 10_000

// Delays remember what was due, failed, and could not be put off in the database: a
// deadline, which stands as it is, or a record that cannot be read. Others are not
// held up by it anyway (see scan), so that it may be forgotten.
type delays struct {
	mu sync.Mutex
	of map[store.EntityKey]delayed
}

type delayed struct {
	due   int64 // the mark or deadline that failed; another one is tried at once
	tries int
	until time.Time
}

// ready reports whether what is due at that time may be tried.
func (d *delays) ready(k store.EntityKey, due int64, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.of[k]
	return !ok || was.due != due || !now.Before(was.until)
}

// failed notes that it failed, and returns the wait until it is tried again.
func (d *delays) failed(k store.EntityKey, due int64, now time.Time, jitter float64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxDelays {
		d.of = make(map[store.EntityKey]delayed)
	}
	was := d.of[k]
	if was.due != due {
		was = delayed{due: due}
	}
	wait := delay(was.tries, jitter)
	d.of[k] = delayed{due: due, tries: was.tries + 1, until: now.Add(wait)}
	return wait
}

// done forgets what is over.
func (d *delays) done(k store.EntityKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, k)
}
