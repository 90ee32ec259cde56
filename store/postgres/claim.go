package postgres

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Claims are read by one statement: enqueued steps first, and for what is
// missing up to the limit, pending jobs with their first steps. With one route
// the index gives the order, and exactly what is answered is locked. With
// several, the heads of their queues are merged before the locks are taken;
// spare rows stand in for those that others have locked.
const (
	readyOne = `select s.* from step s where s.state = 'enqueued' and s.route = $1::bigint
  order by s.priority desc, s.job, s.ord limit $2::bigint for update skip locked`
	readyMany = `select s.* from (
    select h.* from unnest($1::bigint[]) as r(route) cross join lateral
      (select job, ord, priority from step where state = 'enqueued' and step.route = r.route
       order by priority desc, job, ord limit 2 * $2::bigint + 100) h
    order by h.priority desc, h.job, h.ord
  ) h cross join lateral
    (select * from step where step.job = h.job and step.ord = h.ord and state = 'enqueued' for update skip locked) s
  limit $2::bigint`
	pendingOne = `select j.* from job j where j.state = 'PENDING' and j.route = $1::bigint and not j.paused
  order by j.priority desc, j.id limit $2::bigint - (select count(*) from c) for update skip locked`
	pendingMany = `select j.* from (
    select h.* from unnest($1::bigint[]) as r(route) cross join lateral
      (select id, priority from job where state = 'PENDING' and job.route = r.route and not paused
       order by priority desc, id limit 2 * $2::bigint + 100) h
    order by h.priority desc, h.id
  ) h cross join lateral
    (select * from job where job.id = h.id and state = 'PENDING' and not paused for update skip locked) j
  limit $2::bigint - (select count(*) from c)`
)

var (
	claimOne  = &statement{"claim_one", claimSQL(readyOne, pendingOne)}
	claimMany = &statement{"claim_many", claimSQL(readyMany, pendingMany)}
)

// claimSQL answers rows of a step and of its job, and whether the step starts the
// job. A pending job is locked; its steps are not, since whoever changes one has
// the job locked, or makes the update stale. The job of a step that was enqueued
// is read without a lock. A job's bodies come with the first of its steps only.
func claimSQL(ready, pending string) string {
	return fmt.Sprintf(`with c as materialized (%s),
p as materialized (%s),
r as materialized (
  select %s, %s, j.inputs, j.metadata from p j cross join lateral
    (select * from step where step.job = j.id and state = 'pending' and unmet = 0 order by ord offset 0) s
)
select %s, 0, %s, case when first then j.inputs end, case when first then j.metadata end
from (select *, lag(job) over () is distinct from job as first from c) c
  cross join lateral (select * from job where job.id = c.job offset 0) j
union all
select %s, 1, %s, case when first then inputs end, case when first then metadata end
from (select *, lag(s_job) over () is distinct from s_job as first from r) r`,
		ready, pending, shaped("s.* as s_*", stepPlain), shaped("j.* as j_*", jobPlain),
		names("c", stepPlain), names("j", jobPlain), shaped("s_*", stepPlain), shaped("j_*", jobPlain))
}

// A claimPool is what was found for all queries on the same routes. A row that
// this transaction has locked already is not passed over by SKIP LOCKED, so
// queries that share a route ask for as much more as those before them want.
type claimPool struct {
	routes []int64
	limit  int
	steps  []pawl.StepKey
	starts []int64
}

func (r *reading) queueClaims(p *pipe) {
	for _, c := range r.q.Claims {
		pool := r.poolOf(c.Routes)
		pool.limit += c.Limit
	}
	for i, pool := range r.pools {
		limit := pool.limit
		for _, before := range r.pools[:i] {
			if slices.ContainsFunc(before.routes, func(x int64) bool { return slices.Contains(pool.routes, x) }) {
				limit += before.limit
			}
		}
		if len(pool.routes) == 1 {
			p.add(claimOne, r.claimed(pool), num(pool.routes[0]), num(int64(limit)))
		} else if len(pool.routes) > 1 {
			p.add(claimMany, r.claimed(pool), nums(pool.routes), num(int64(limit)))
		}
	}
}

func (r *reading) poolOf(routes []int64) *claimPool {
	routes = slices.Clone(routes)
	slices.Sort(routes)
	routes = slices.Compact(routes)
	for _, p := range r.pools {
		if slices.Equal(p.routes, routes) {
			return p
		}
	}
	p := &claimPool{routes: routes}
	r.pools = append(r.pools, p)
	return p
}

// claimed reads one row of a claim statement.
func (r *reading) claimed(pool *claimPool) func(*cursor) {
	return func(c *cursor) {
		s := r.claimedStep(c)
		start := c.num() == 1
		j := c.job()
		j.Inputs, j.Metadata = c.body(), c.body()
		if c.err != nil {
			return
		}
		if !start && s != nil {
			pool.steps = append(pool.steps, s.StepKey)
			r.withBodies(j)
		}
		if !start {
			return
		}
		if n := len(pool.starts); n == 0 || pool.starts[n-1] != j.Key() {
			pool.starts = append(pool.starts, j.Key())
			r.withBodies(j)
		}
	}
}

func (r *reading) claimedStep(c *cursor) *pawl.Step {
	if c.null() {
		c.at += len(stepPlain)
		return nil
	}
	s := c.step()
	if c.err != nil {
		return nil
	}
	if r.Steps[s.StepKey] == nil {
		r.Steps[s.StepKey] = s
	}
	return s
}

// withBodies adds a job, or the bodies that came with it to the job as it was
// read before.
func (r *reading) withBodies(j *pawl.Job) {
	key := j.Key()
	if r.read[key] != nil {
		return
	}
	r.read[key] = &pawl.Job{Inputs: j.Inputs, Metadata: j.Metadata}
	if known := r.Jobs[key]; known != nil {
		known.Inputs, known.Metadata = j.Inputs, j.Metadata
		return
	}
	r.Jobs[key] = j
}

// changed answers a job without the bodies that are stored as they are: they
// came with a claim, and need not travel back.
func (r *reading) changed(j *pawl.Job) *pawl.Job {
	stored := r.read[j.Key()]
	if stored == nil {
		return j
	}
	c := *j
	if bytes.Equal(c.Inputs, stored.Inputs) {
		c.Inputs = nil
	}
	if bytes.Equal(c.Metadata, stored.Metadata) {
		c.Metadata = nil
	}
	return &c
}

// handOut gives each claim its share of what was found, in their order.
func (r *reading) handOut() {
	r.Claims = make([]store.ClaimFacts, len(r.q.Claims))
	gone := map[pawl.StepKey]bool{}
	for i, c := range r.q.Claims {
		f, pool := &r.Claims[i], r.poolOf(c.Routes)
		for len(f.Steps) < c.Limit && len(pool.steps) > 0 {
			k := pool.steps[0]
			pool.steps = pool.steps[1:]
			if !gone[k] {
				gone[k] = true
				f.Steps = append(f.Steps, k)
			}
		}
		for len(f.Steps)+len(f.Starts) < c.Limit && len(pool.starts) > 0 {
			k := pawl.StepKey{Job: pool.starts[0]}
			pool.starts = pool.starts[1:]
			if !gone[k] {
				gone[k] = true
				f.Starts = append(f.Starts, k.Job)
			}
		}
	}
}
