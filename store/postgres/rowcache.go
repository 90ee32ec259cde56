package postgres

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// Mostly it is the process that claimed a step that reports it, and nobody else has
// touched the job meanwhile. What a transaction has written of the jobs under way, and
// the steps of a job that is read for the first time, are therefore kept, each row with
// the transaction that made it (its xmin): that names one version of the row. The next transaction that asks for these rows alone
// decides on what is known, and its writing half makes sure that every row is still
// that version (optimistic.go). Nothing depends on what is kept here.

// An xid is the transaction that made a row, which tells the versions of the row apart.
type xid uint32

const (
	maxCachedJobs  = 5000
	maxCachedSteps = 32          // of one job: of a wide fan-out the rest is read
	maxSpareJobs   = 500         // that are kept to be used again,
	maxSpareSteps  = 4           // with room for so many steps: less than 1 MiB
	clockAge       = time.Second // how long the database's clock is told from ours
	distrustFor    = time.Second // how long a job is read after another process has changed it
)

// A rowCache is what this handle knows of the rows of jobs under way.
type rowCache struct {
	mu      sync.Mutex
	jobs    map[int64]*cachedJob
	workers map[int64]cachedWorker
	busy    map[int64]bool // jobs that a transaction of this handle is at
	waiting []*reservation // in the order in which they came
	spare   []*cachedJob   // of jobs that are not kept any more
	now     int64          // the database's clock,
	at      time.Time      // at this moment of ours
}

// A cachedJob never leaves the cache, nor what it points to: others get copies.
type cachedJob struct {
	row       *pawl.Job // nil: not known; else own
	own       pawl.Job
	xid       xid
	steps     []cachedStep
	read      bool      // all steps that it had, as far as they are kept
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

// A reservation is what a transaction waits for.
type reservation struct {
	jobs    []int64
	granted chan struct{} // closed when they are reserved
}

// reserve waits until no transaction of this handle is at the jobs: two at once
// would only outdate each other. Who comes first is first.
func (c *rowCache) reserve(ctx context.Context, jobs []int64) error {
	w := c.enqueue(jobs)
	if w == nil {
		return nil
	}
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		c.leave(w)
		return ctx.Err()
	}
}

// enqueue answers nil if nobody is in the way of the jobs.
func (c *rowCache) enqueue(jobs []int64) *reservation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy == nil {
		c.busy = make(map[int64]bool)
	}
	if len(c.waiting) == 0 && !c.anyBusy(jobs) {
		c.occupy(jobs)
		return nil
	}
	w := &reservation{jobs: jobs, granted: make(chan struct{})}
	c.waiting = append(c.waiting, w)
	c.admit()
	return w
}

func (c *rowCache) anyBusy(jobs []int64) bool {
	return slices.ContainsFunc(jobs, func(j int64) bool { return c.busy[j] })
}

func (c *rowCache) occupy(jobs []int64) {
	for _, j := range jobs {
		c.busy[j] = true
	}
}

// admit grants what neither is busy nor wanted by one who came before. The lock is
// held.
func (c *rowCache) admit() {
	wanted := make(map[int64]bool)
	c.waiting = slices.DeleteFunc(c.waiting, func(w *reservation) bool {
		if c.anyBusy(w.jobs) || slices.ContainsFunc(w.jobs, func(j int64) bool { return wanted[j] }) {
			for _, j := range w.jobs {
				wanted[j] = true
			}
			return false
		}
		c.occupy(w.jobs)
		close(w.granted)
		return true
	})
}

// leave gives up waiting, or what was granted at this very moment.
func (c *rowCache) leave(w *reservation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
		c.admit()
		return
	}
	c.vacate(w.jobs)
}

func (c *rowCache) release(jobs []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vacate(jobs)
}

func (c *rowCache) vacate(jobs []int64) {
	for _, j := range jobs {
		delete(c.busy, j)
	}
	if len(c.waiting) > 0 {
		c.admit()
	}
}

// plainly reports whether a query asks for rows by their keys alone.
func plainly(q *store.Query) bool {
	return len(q.Keys)+len(q.Pools)+len(q.Names)+len(q.Schedules)+len(q.Scheduled)+len(q.Signals)+len(q.Untaken)+
		len(q.Marked)+len(q.Waiting)+len(q.Open)+len(q.Nodes)+len(q.Held)+len(q.Claims) == 0
}

// find answers the facts for a query from what is known, or nil if that is not
// enough. The records are copies.
func (c *rowCache) find(q *store.Query) *reading {
	if !plainly(q) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	age, byWall := time.Since(c.at), time.Since(c.at.Round(0)) // a host that was suspended has two opinions
	if max(age, byWall.Abs()) > clockAge {
		return nil
	}
	r := newReading(q)
	r.optimistic, r.Now = true, c.now+age.Microseconds()
	if c.findJobs(r) && c.findSteps(r) && c.findWorkers(r) {
		return r
	}
	return nil
}

// distinct answers about how many different keys there are: of equal ones nearly all
// follow one another.
func distinct[K comparable](keys []K) (n int) {
	for i, key := range keys {
		if i == 0 || key != keys[i-1] {
			n++
		}
	}
	return n
}

func (c *rowCache) findJobs(r *reading) bool {
	n := distinct(r.q.Jobs)
	r.Jobs, r.jobs = make(map[int64]*pawl.Job, n), make(map[int64]*foundRow[pawl.Job], n)
	for _, key := range r.q.Jobs {
		if r.Jobs[key] != nil {
			continue
		}
		j := c.jobs[key]
		if j == nil || j.row == nil || time.Since(j.contested) < distrustFor {
			return false
		}
		row := *j.row
		r.Jobs[key] = &row
		r.jobs[key] = &foundRow[pawl.Job]{xid: j.xid, was: row}
	}
	return true
}

func (c *rowCache) findSteps(r *reading) bool {
	n := distinct(r.q.Steps)
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
		row := s.row
		r.Steps[key] = &row
		r.steps[key] = &foundRow[pawl.Step]{xid: s.xid, was: row}
	}
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

// unread answers the jobs of a query of which more is worth reading than it asks for:
// the steps that others have written. Most jobs have few, and one that goes on for long
// needs them all.
func (c *rowCache) unread(q *store.Query) (jobs []int64) {
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

// put keeps what a transaction has written, after it was committed, and the workers
// that it has read.
func (c *rowCache) put(r *reading, ch *store.Changes, s *stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(s)
	v := s.xid
	if c.jobs == nil {
		c.jobs, c.workers = make(map[int64]*cachedJob), make(map[int64]cachedWorker)
	}
	for key, found := range r.workers {
		c.workers[key] = cachedWorker{*r.Workers[key], found}
	}
	for _, u := range ch.Workers {
		delete(c.workers, u.Record.Key())
	}
	c.compare(r)
	for _, u := range ch.Jobs {
		c.putJob(u.Record, v)
	}
	for _, j := range ch.NewJobs {
		c.putJob(j, v)
	}
	c.putRead(r, ch)
	for _, u := range ch.Steps {
		c.putStep(u.Record, v)
	}
	for _, s := range ch.NewSteps {
		c.putStep(s, v)
	}
}

// hear takes the database's clock from a stamp. One that was long on its way would set
// it back, and what is decided by it would be due too early; of one that was too long,
// the clock is read instead.
func (c *rowCache) hear(s *stamp) {
	if s.took >= clockAge {
		return
	}
	behind := time.Duration(c.now-s.now)*time.Microsecond + s.at.Sub(c.at)
	if behind <= 0 || s.at.Sub(c.at) >= clockAge {
		c.now, c.at = s.now, s.at
	}
}

// compare looks at the jobs that a transaction has read. Of one that was not as it was
// known, another process is at it too.
func (c *rowCache) compare(r *reading) {
	if r.optimistic {
		return
	}
	for _, key := range r.q.Jobs {
		if j, found := c.jobs[key], r.jobs[key]; j != nil && (found == nil || j.xid != found.xid) {
			j.row, j.steps, j.contested = nil, nil, time.Now()
		}
	}
}

// putJob keeps a job that is running, without its bodies.
func (c *rowCache) putJob(row *pawl.Job, v xid) {
	key := row.Key()
	j := c.jobs[key]
	if row.State != lifecycle.JobRunning {
		delete(c.jobs, key)
		c.save(j)
		return
	}
	if j == nil {
		c.makeRoom()
		j = c.blank()
		c.jobs[key] = j
	}
	j.own, j.row, j.xid = *row, &j.own, v
	jobTable.Bare(&j.own)
}

// save keeps what held a job, or nil, to hold another.
func (c *rowCache) save(j *cachedJob) {
	if j != nil && len(c.spare) < maxSpareJobs && cap(j.steps) <= maxSpareSteps {
		clear(j.steps[:cap(j.steps)])
		*j = cachedJob{steps: j.steps[:0]}
		c.spare = append(c.spare, j)
	}
}

// blank answers what is to hold a job.
func (c *rowCache) blank() *cachedJob {
	n := len(c.spare)
	if n == 0 {
		return new(cachedJob)
	}
	j := c.spare[n-1]
	c.spare = c.spare[:n-1]
	return j
}

// makeRoom forgets jobs, whichever they are, if there are too many.
func (c *rowCache) makeRoom() {
	for key := range c.jobs {
		if len(c.jobs) < maxCachedJobs {
			return
		}
		delete(c.jobs, key)
	}
}

// putRead keeps the steps that were read for later, of jobs that are kept.
func (c *rowCache) putRead(r *reading, ch *store.Changes) {
	for _, s := range r.later {
		c.putStep(&s.row, s.xid)
	}
	for _, key := range r.ahead {
		if j := c.jobs[key]; j != nil {
			j.read = true
		}
	}
	for _, n := range ch.NewJobs {
		if j := c.jobs[n.Key()]; j != nil {
			j.read = true
		}
	}
}

// putStep keeps a step that has not ended, without its bodies.
func (c *rowCache) putStep(row *pawl.Step, v xid) {
	j := c.jobs[row.Job]
	if j == nil {
		return
	}
	s := j.step(row.Ord)
	switch {
	case lifecycle.Step.Ended(row.State):
		j.steps = slices.DeleteFunc(j.steps, func(s cachedStep) bool { return s.row.Ord == row.Ord })
		return
	case s == nil && len(j.steps) == maxCachedSteps:
		return
	case s == nil:
		j.steps = append(j.steps, cachedStep{})
		s = &j.steps[len(j.steps)-1]
	}
	s.row, s.xid = *row, v
	stepTable.Bare(&s.row)
}

// invalidate drops what turned out to be outdated, one of these.
func (c *rowCache) invalidate(q *store.Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range q.Jobs {
		if j := c.jobs[key]; j != nil {
			j.row, j.steps, j.read = nil, nil, false // its version tells who has changed it, when it is read
		}
	}
	for _, key := range slices.Concat(q.Workers, q.Watched) {
		delete(c.workers, key)
	}
}

// clear drops everything: the database may have lost what it has confirmed.
func (c *rowCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs, c.workers, c.at = nil, nil, time.Time{}
}
