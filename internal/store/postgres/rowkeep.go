package postgres

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// put keeps what a transaction has written, after the commit, and the workers that it has
// read.
func (c *rowCache) put(r *reading, ch *store.Changes, s *stamp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(s)
	v := s.xid
	if c.jobs == nil {
		c.jobs, c.workers = make(map[rowkey.Job]*cachedJob), make(map[rowkey.Worker]cachedWorker)
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
	c.putWaits(r, ch, v)
	for _, u := range ch.Steps {
		c.putStep(u.Record, v)
	}
	for _, s := range ch.NewSteps {
		c.putStep(s, v)
	}
}

// hear takes the database's clock from a stamp. A stamp that was long in transit would set the
// clock back, and deadlines decided by it would be too early; if it took too long, the clock
// is read instead.
func (c *rowCache) hear(s *stamp) {
	if s.took >= clockAge {
		return
	}
	behind := time.Duration(c.now-s.now)*time.Microsecond + s.at.Sub(c.at)
	if behind <= 0 || s.at.Sub(c.at) >= clockAge {
		c.now, c.at = s.now, s.at
	}
}

// compare checks the jobs that a transaction has read. If one differs from the cached row,
// another process is working on it too, or a transaction that did not wait for this one.
func (c *rowCache) compare(r *reading) {
	for _, key := range r.q.Jobs {
		if j, found := c.jobs[key], r.jobs[key]; j != nil && (found == nil || j.xid != found.xid) {
			j.row, j.steps, j.waitingAt, j.contested = nil, nil, 0, time.Now()
		}
	}
}

// putJob keeps a job that is running, without its bodies.
func (c *rowCache) putJob(row *pawl.Job, v xid) {
	key := row.Key()
	j := c.jobs[key]
	if row.State != lifecycle.JobRunning {
		delete(c.jobs, key)
		return
	}
	if j == nil {
		c.makeRoom()
		j = new(cachedJob)
		c.jobs[key] = j
	}
	j.own, j.row, j.xid = *row, &j.own, v
	jobTable.Bare(&j.own)
}

// makeRoom drops arbitrary jobs if there are too many.
func (c *rowCache) makeRoom() {
	for key := range c.jobs {
		if len(c.jobs) < maxCachedJobs {
			return
		}
		delete(c.jobs, key)
	}
}

// putRead keeps the steps that were read for later, if their jobs are kept.
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

// putWaits notes with which version of a job all its steps that wait are kept: that of a job that
// is new, that of one of which no more wait than were read, and the version that follows on such
// a one. If another transaction has come in between, the version is none that the job has now.
func (c *rowCache) putWaits(r *reading, ch *store.Changes, v xid) {
	for _, n := range ch.NewJobs {
		if j := c.jobs[n.Key()]; j != nil {
			j.waitingAt = v
		}
	}
	for _, w := range r.q.Waiting {
		if j, found := c.jobs[w.Job], r.jobs[w.Job]; j != nil && j.row != nil && found != nil && c.keepsWaiting(r, ch, w) {
			j.waitingAt = found.xid
		}
	}
	for _, u := range ch.Jobs {
		key := u.Record.Key()
		if j, found := c.jobs[key], r.jobs[key]; j != nil && found != nil && found.xid != 0 && found.xid == j.waitingAt {
			j.waitingAt = v
		}
	}
}

// keepsWaiting reports whether all steps of a job that wait were read, and each is kept as such
// or is about to be kept.
func (c *rowCache) keepsWaiting(r *reading, ch *store.Changes, w store.JobLimit) bool {
	waiting := r.Waiting[w.Job]
	if r.optimistic || r.recalled || r.Unreadable > 0 || len(waiting) >= w.Limit {
		return false
	}
	return !slices.ContainsFunc(waiting, func(k pawl.StepKey) bool {
		s := c.jobs[w.Job].step(k.Ord)
		return (s == nil || s.row.Mark != pawl.Waiting) && !slices.ContainsFunc(ch.Steps, func(u store.Update[*pawl.Step]) bool { return u.Record.StepKey == k })
	})
}

// putStep keeps a step that has not ended, without its bodies. A claim does not wait for other
// transactions on the job: if it comes late, a newer version is kept.
func (c *rowCache) putStep(row *pawl.Step, v xid) {
	j := c.jobs[row.Job]
	if j == nil {
		return
	}
	s := j.step(row.Ord)
	switch {
	case s != nil && row.Seq < s.row.Seq:
		return
	case lifecycle.Step.Ended(row.State):
		j.steps = slices.DeleteFunc(j.steps, func(s cachedStep) bool { return s.row.Ord == row.Ord })
		return
	case s == nil && len(j.steps) == maxCachedSteps:
		if row.Mark == pawl.Waiting {
			j.waitingAt = 0
		}
		return
	case s == nil:
		j.steps = append(j.steps, cachedStep{})
		s = &j.steps[len(j.steps)-1]
	}
	s.row, s.xid = *row, v
	stepTable.Bare(&s.row)
}
