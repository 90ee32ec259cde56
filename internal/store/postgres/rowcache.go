package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// The process that claimed a step usually reports it, and usually no other process has touched
// the job meanwhile. The cache therefore keeps what a transaction has written of jobs in
// progress, and the steps of a job that is read for the first time, each row with the
// transaction that made it (its xmin): that identifies one version of the row. The next
// transaction that asks only for these rows decides on the cached values, and its writing half
// verifies that every row still has that version (optimistic.go). Correctness does not depend
// on the cache.
//
// What waits in a job is the exception: that no other step waits follows from the version of the
// job, and from every writer of a wait writing the job (Decision.awaitSlot).

// An xid is the transaction that made a row, which distinguishes the versions of the row.
type xid uint32

const (
	maxCachedJobs  = 5000
	maxCachedSteps = 32          // of one job: of a wide fan-out the rest is read
	clockAge       = time.Second // how long the database's clock is derived from ours
	distrustFor    = time.Second // how long a job is read after another process has changed it
)

// A rowCache holds what this handle knows of the rows of jobs in progress.
type rowCache struct {
	mu      sync.Mutex
	jobs    map[rowkey.Job]*cachedJob
	workers map[rowkey.Worker]cachedWorker
	busy    map[rowkey.Job]bool // jobs that a transaction of this handle uses
	waiting []*reservation      // in order of arrival
	now     int64               // the database's clock,
	at      time.Time           // at this moment of ours
}

// A cachedJob, and what it points to, never leaves the cache: callers get copies.
type cachedJob struct {
	row       *pawl.Job // nil: not known; else own
	own       pawl.Job
	xid       xid
	steps     []cachedStep
	read      bool      // all steps that it had, as far as they are kept
	waitingAt xid       // the version of the row with which all steps that wait for a slot are among these, or 0
	contested time.Time // when another process was seen to change it
}

type cachedStep struct {
	row pawl.Step
	xid xid
}

type cachedWorker struct {
	row pawl.Worker
	xid xid
}

// plainly reports whether a query asks for rows only by their keys, or for what waits in a job.
func plainly(q *store.Query) bool { return len(q.Claims) == 0 && besideClaims(q) }

// besideClaims reports whether a query does so beside claims.
func besideClaims(q *store.Query) bool { return len(q.Keys) == 0 && besideKeys(q) }

// besideKeys reports whether a query does so beside claims and idempotency keys.
func besideKeys(q *store.Query) bool {
	return len(q.Pools)+len(q.Turns)+len(q.Names)+len(q.Limits)+len(q.Schedules)+len(q.Scheduled)+len(q.Tokens)+len(q.Tokened)+len(q.Pauses)+len(q.Paused)+len(q.Webhooks)+len(q.Hooked)+len(q.Signals)+len(q.Untaken)+
		len(q.Open)+len(q.Nodes)+len(q.Held)+
		len(q.Reservations) == 0
}

// find returns the facts for a query from the cache, or nil if the cache is not sufficient.
// The records are copies, and idempotency keys are taken for new. The reading has a room.
func (c *rowCache) find(q *store.Query, l *rooms) *reading {
	if len(q.Claims) > 0 || !besideKeys(q) || !c.timely() {
		return nil
	}
	r := newReading(q)
	r.room = l.take()
	if !c.fill(r) {
		l.put(r.room)
		return nil
	}
	r.assumeNew()
	r.sortWaiting()
	return r
}

// timely reports whether the cache knows the database's clock.
func (c *rowCache) timely() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.clock()
	return ok
}

// clock returns the database's clock, and whether it was heard recently enough.
func (c *rowCache) clock() (now int64, ok bool) {
	age, byWall := time.Since(c.at), time.Since(c.at.Round(0)) // they differ after a host was suspended
	return c.now + age.Microseconds(), max(age, byWall.Abs()) <= clockAge
}

// fill reports whether the cache has all that a query asks for, and puts it into the reading.
func (c *rowCache) fill(r *reading) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Now, r.optimistic = c.clock(); !r.optimistic {
		return false
	}
	return c.findJobs(r) && c.findSteps(r) && c.findWaiting(r) && c.findWorkers(r)
}

// recall puts the jobs and steps of a query with claims into a reading, if the cache has all of
// them: what a worker reports together with a claim, its own process has written.
func (c *rowCache) recall(r *reading) {
	if len(r.q.Claims) == 0 || len(r.q.Jobs) == 0 || !besideClaims(r.q) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Now, r.timely = c.clock()
	r.read = make(map[rowkey.Job]bodies, r.expected(distinct(r.q.Jobs)))
	if r.recalled = c.findJobs(r) && c.findSteps(r) && c.findWaiting(r); !r.recalled {
		clear(r.Jobs)
		clear(r.Steps)
		clear(r.Waiting)
		r.order = nil
		clear(r.jobs)
		clear(r.steps)
	}
}

// distinct returns about how many different keys there are: equal ones are mostly adjacent.
func distinct[K comparable](keys []K) (n int) {
	for i, key := range keys {
		if i == 0 || key != keys[i-1] {
			n++
		}
	}
	return n
}

// expected returns about how many records are claimed beside n that are named.
func (r *reading) expected(n int) (claimed int) {
	for i := range r.q.Claims {
		claimed += r.q.Claims[i].Limit
	}
	return min(claimed, n) // a worker asks for about as many as it reports
}

func (c *rowCache) findJobs(r *reading) bool {
	n := distinct(r.q.Jobs)
	n += r.expected(n)
	r.Jobs, r.jobs = make(map[rowkey.Job]*pawl.Job, n), make(map[rowkey.Job]*foundRow[pawl.Job], n)
	for _, key := range r.q.Jobs {
		if r.Jobs[key] != nil {
			continue
		}
		j := c.jobs[key]
		if j == nil || j.row == nil || j.distrusted() {
			return false
		}
		row := *j.row
		r.Jobs[key] = &row
		r.jobs[key] = r.room.job(foundRow[pawl.Job]{xid: j.xid, cached: true, was: row})
	}
	return true
}

func (j *cachedJob) distrusted() bool {
	return !j.contested.IsZero() && time.Since(j.contested) < distrustFor
}

func (c *rowCache) findSteps(r *reading) bool {
	n := distinct(r.q.Steps)
	n += r.expected(n)
	r.Steps, r.steps = make(map[pawl.StepKey]*pawl.Step, n), make(map[pawl.StepKey]*foundRow[pawl.Step], n)
	for _, key := range r.q.Steps {
		if r.Steps[key] != nil {
			continue
		}
		j := c.jobs[key.Job]
		if j == nil || r.Jobs[key.Job] == nil {
			return false
		}
		s := j.step(key.Ord)
		if s == nil {
			return false
		}
		r.know(s)
	}
	return true
}

// know adds a copy of a cached step.
func (r *reading) know(s *cachedStep) *pawl.Step {
	row := s.row
	r.Steps[row.StepKey] = &row
	r.steps[row.StepKey] = r.room.step(foundRow[pawl.Step]{xid: s.xid, cached: true, was: row})
	return &row
}

// findWaiting finds the steps of a job that wait for a slot. A transaction that marks a step
// Waiting also writes its job. If the job's row still has the known version, no other step waits.
func (c *rowCache) findWaiting(r *reading) bool {
	seen := make(map[rowkey.Job]bool, 1)
	for _, w := range r.q.Waiting {
		if seen[w.Job] {
			continue
		}
		seen[w.Job] = true
		j := c.jobs[w.Job]
		if j == nil || j.waitingAt != j.xid || r.Jobs[w.Job] == nil {
			return false
		}
		for i := range j.steps {
			s := &j.steps[i]
			if s.row.Mark != pawl.Waiting {
				continue
			}
			known := r.Steps[s.row.StepKey]
			if known == nil {
				known = r.know(s)
			}
			r.order = append(r.order, known)
		}
	}
	slices.SortFunc(r.order, func(a, b *pawl.Step) int { return a.Compare(b.StepKey) })
	return true
}

func (c *rowCache) findWorkers(r *reading) bool {
	for _, key := range slices.Concat(r.q.Workers, r.q.Watched) {
		if r.Workers[key] != nil {
			continue
		}
		w, ok := c.workers[key]
		if !ok {
			return false
		}
		row := w.row
		r.Workers[key] = &row
		r.workers[key] = w.xid
	}
	return true
}

// unread returns the jobs of a query of which it is worth reading more than requested: the
// steps that others have written. Most jobs have few steps, and a job that continues for long
// needs them all.
func (c *rowCache) unread(q *store.Query) (jobs []rowkey.Job) {
	if !plainly(q) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range set(q.Jobs) {
		if j := c.jobs[key]; j == nil || !j.read {
			jobs = append(jobs, key)
		}
	}
	return jobs
}

func (j *cachedJob) step(ord pawl.Ord) *cachedStep {
	for i := range j.steps {
		if j.steps[i].row.Ord == ord {
			return &j.steps[i]
		}
	}
	return nil
}

// invalidate drops the rows of a query, one of which turned out to be outdated.
func (c *rowCache) invalidate(q *store.Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range q.Jobs {
		if j := c.jobs[key]; j != nil {
			j.row, j.steps, j.read, j.waitingAt = nil, nil, false, 0 // its version shows whether another process has changed it, when it is read
		}
	}
	for _, key := range slices.Concat(q.Workers, q.Watched) {
		delete(c.workers, key)
	}
}

// clear drops everything: the database may have lost commits that it confirmed.
func (c *rowCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs, c.workers, c.at = nil, nil, time.Time{}
}
