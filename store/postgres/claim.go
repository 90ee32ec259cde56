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
	readyOne = `select s.*, s.ctid as place from step s where s.line = 1 and s.route = $1::bigint and s.rank >= $3::bigint
  order by s.rank, s.job, s.ord limit $2::bigint for update skip locked`
	readyMany = `select s.* from (
    select h.* from unnest($1::bigint[]) as r(route) cross join lateral
      (select job, ord, rank from step where line = 1 and step.route = r.route and rank >= $3::bigint
       order by rank, job, ord limit 2 * $2::bigint + 100) h
    order by h.rank, h.job, h.ord
  ) h cross join lateral
    (select *, ctid as place from step where step.job = h.job and step.ord = h.ord and line = 1 for update skip locked) s
  limit $2::bigint`
	pendingOne = `select j.*, j.ctid as place from job j where j.line = 1 and j.route = $1::bigint and not j.paused and j.rank >= $4::bigint
  order by j.rank, j.id limit greatest($2::bigint - (select count(*) from c), $5::bigint) for update skip locked`
	pendingMany = `select j.* from (
    select h.* from unnest($1::bigint[]) as r(route) cross join lateral
      (select id, rank from job where line = 1 and job.route = r.route and not paused and rank >= $4::bigint
       order by rank, id limit 2 * $2::bigint + 100) h
    order by h.rank, h.id
  ) h cross join lateral
    (select *, ctid as place from job where job.id = h.id and line = 1 and not paused for update skip locked) j
  limit greatest($2::bigint - (select count(*) from c), $5::bigint)`
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
  select %s, s.place as s_place, %s, j.place as j_place, j.inputs, j.metadata from p j cross join lateral
    (select *, ctid as place from step where step.job = j.id and state = 'pending' and unmet = 0 order by ord offset 0) s
)
select %s, c.place, 0, %s, j.place, case when first then j.inputs end, case when first then j.metadata end
from (select *, lag(job) over () is distinct from job as first from c) c
  cross join lateral (select *, ctid as place from job where job.id = c.job offset 0) j
union all
select %s, s_place, 1, %s, j_place, case when first then inputs end, case when first then metadata end
from (select *, lag(s_job) over () is distinct from s_job as first from r) r`,
		ready, pending, shaped("s.* as s_*", stepTable.plain), shaped("j.* as j_*", jobTable.plain),
		names("c", stepTable.plain), names("j", jobTable.plain), shaped("s_*", stepTable.plain), shaped("j_*", jobTable.plain))
}

// A claimGroup is what was found for all queries on the same routes. A row that
// this transaction has locked already is not passed over by SKIP LOCKED, so
// queries that share a route ask for as much more as those before them want.
type claimGroup struct {
	routes  []int64
	limit   int
	atLeast int // pending jobs
	steps   []pawl.StepKey
	starts  []int64

	horizon *horizon    // nil if nothing is looked for
	from    sight       // where the look begins
	most    sight       // how far the horizon may move on after it
	found   []claimable // by the look, in order
}

func (r *reading) queueClaims(p *pipe) {
	for _, c := range r.q.Claims {
		group := r.groupOf(c.Routes)
		group.limit += c.Limit
		group.atLeast += c.Starts
	}
	for i, group := range r.groups {
		limit := group.limit
		for _, before := range r.groups[:i] {
			if slices.ContainsFunc(before.routes, func(x int64) bool { return slices.Contains(group.routes, x) }) {
				limit += before.limit
			}
		}
		if len(group.routes) == 0 {
			continue
		}
		group.limit = limit
		group.horizon = r.horizons.of(group.routes)
		group.horizon.begin(group)
		more := [][]byte{num(int64(limit)), num(group.from.steps), num(group.from.jobs), num(int64(group.atLeast))}
		if len(group.routes) == 1 {
			p.add(claimOne, r.claimed(group), append([][]byte{num(group.routes[0])}, more...)...)
		} else {
			p.add(claimMany, r.claimed(group), append([][]byte{nums(group.routes)}, more...)...)
		}
	}
}

func (r *reading) groupOf(routes []int64) *claimGroup {
	routes = slices.Clone(routes)
	slices.Sort(routes)
	routes = slices.Compact(routes)
	for _, g := range r.groups {
		if slices.Equal(g.routes, routes) {
			return g
		}
	}
	g := &claimGroup{routes: routes}
	r.groups = append(r.groups, g)
	return g
}

// claimed reads one row of a claim statement.
func (r *reading) claimed(group *claimGroup) func(*cursor) {
	return func(c *cursor) {
		s := r.claimedStep(c)
		start := c.num() == 1
		j := r.foundJob(c)
		j.Inputs, j.Metadata = c.body(), c.body()
		if c.err != nil {
			return
		}
		if !start && s != nil {
			group.found = append(group.found, claimable{key: s.StepKey, rank: s.Rank, priority: s.Priority})
			group.steps = append(group.steps, s.StepKey)
			r.withBodies(j)
		}
		if !start {
			return
		}
		if n := len(group.starts); n == 0 || group.starts[n-1] != j.Key() {
			group.found = append(group.found, claimable{key: pawl.StepKey{Job: j.Key()}, rank: j.Rank, priority: j.Priority, starts: true})
			group.starts = append(group.starts, j.Key())
			r.withBodies(j)
		}
	}
}

func (r *reading) claimedStep(c *cursor) *pawl.Step {
	if c.null() {
		c.at += len(stepTable.plain) + 1
		return nil
	}
	s := r.foundStep(c)
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
		f, group := &r.Claims[i], r.groupOf(c.Routes)
		for len(f.Steps) < c.Limit && len(group.steps) > 0 {
			k := group.steps[0]
			group.steps = group.steps[1:]
			if !gone[k] {
				gone[k] = true
				f.Steps = append(f.Steps, k)
			}
		}
		for len(f.Starts) < max(c.Limit-len(f.Steps), c.Starts) && len(group.starts) > 0 {
			k := pawl.StepKey{Job: group.starts[0]}
			group.starts = group.starts[1:]
			if !gone[k] {
				gone[k] = true
				f.Starts = append(f.Starts, k.Job)
			}
		}
	}
}
