package engine

import (
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/store"
)

// A scan covers everything that is due in rounds of bounded queries, oldest first. Each
// query begins after the last record of the previous one, and a round ends with what was
// due when it began. So neither records that cannot be processed nor records that are
// always due hide anything for long.
type scan struct {
	q store.LookQuery // where the next query begins
}

// maxQueue bounds the jobs that wait to be evaluated: further marks stay in the database
// until some of these are done.
const maxQueue = 10 * lookLimit

// next returns the next query. If the queue is long, it asks for no marks.
func (s *scan) next(queue int) store.LookQuery {
	q := s.q
	q.Limit = lookLimit
	if queue >= maxQueue {
		q.Marked.At = math.MaxInt64
	}
	return q
}

// note records what the query q has found, and reports whether more is due.
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

// bound returns the time that the round goes up to, or 0 if it is over, and reports whether
// more is due: in this round, or because the round took more than one query.
func bound(until int64, found int, now int64) (int64, bool) {
	if found == lookLimit {
		if until == 0 {
			until = now
		}
		return until, true
	}
	return 0, until != 0
}

// Pages track the scan of pending jobs: one page with each poll, and fast through all pages
// when a hint asks for it. After a fast round there is a pause, so that many jobs that
// cannot start cost little.
type pages struct {
	after store.Ranked
	asked bool      // a fast round is requested
	fast  bool      // a fast round is under way
	begun time.Time // start of the fast round
	again time.Time // earliest start of the next fast round
}

const (
	pageEvery  = 50 * time.Millisecond
	sweepShare = 5 // fast rounds take a fifth of the time, or less
)

// begin returns the job after which the next page begins.
func (p *pages) begin(now time.Time) store.Ranked {
	if p.asked && !p.fast && !now.Before(p.again) {
		*p = pages{fast: true, begun: now}
	}
	return p.after
}

// more records the page, and reports whether to read the next one soon.
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

// Waits between tries of a failing record: the first, doubled each time, and the longest, in
// general and if the database is unavailable.
const (
	firstDelay          = 100 * time.Millisecond
	maxDelay            = time.Minute
	maxUnavailableDelay = 2 * time.Second
)

// delay returns the wait after that many failed tries, doubled up to most: up to half as long
// again by jitter, so that records that failed together are not always retried together.
func delay(tries int, jitter float64, most time.Duration) time.Duration {
	d := most
	if tries < 16 {
		d = min(d, firstDelay<<tries)
	}
	return min(maxDelay, d+time.Duration(jitter*float64(d)/2))
}

// maxDelays bounds the number of failures remembered.
const maxDelays = 10_000

// Delays remember what was due, failed, and could not be put off in the database: a
// deadline, which does not change, or a record that cannot be read. Such a failure does not
// hold up others (see scan), so it may be forgotten.
type delays struct {
	mu sync.Mutex
	of map[store.EntityKey]delayed
}

type delayed struct {
	due   int64 // the mark or deadline that failed; a different one is tried at once
	tries int
	until time.Time
}

// ready reports whether a record due at that time may be tried.
func (d *delays) ready(k store.EntityKey, due int64, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.of[k]
	return !ok || was.due != due || !now.Before(was.until)
}

// failed records a failure, and returns the wait until the next try, which grows up to most.
func (d *delays) failed(k store.EntityKey, due int64, now time.Time, jitter float64, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxDelays {
		d.of = make(map[store.EntityKey]delayed)
	}
	was := d.of[k]
	if was.due != due {
		was = delayed{due: due}
	}
	wait := delay(was.tries, jitter, most)
	d.of[k] = delayed{due: due, tries: was.tries + 1, until: now.Add(wait)}
	return wait
}

// done forgets a record that is no longer due.
func (d *delays) done(k store.EntityKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, k)
}
