package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// One statement reads claims: enqueued steps first, and to fill up the limit, pending jobs
// with their first steps. With one route the index gives the order, and exactly the returned
// rows are locked. With several, the heads of their queues are merged before the locks are
// taken; spare rows replace those that others have locked. If earlier claims took nothing but
// pending jobs of one of them, a lighter statement claims these, unless there is more.
//
// A last row reports what the statement saw in its snapshot, locked or not: the first rank of
// each queue, and how many rows it met. If it returns fewer than the limit, and has met more,
// others had them locked, or have changed them since.
//
// The rows named by the heads are read by primary key, and must still have one of the routes: that
// of a pending job changes as it moves to another definition, or is left to wait for a quota.
// line + 0 keeps the planner from an index of the queues: it takes that index to be empty, and
// would read all of it for each row.
const (
	noRank     = "9223372036854775807" // behind all ranks
	stepsOfOne = "from step where line = 1 and route = $1::bigint and rank >= $3::bigint"
	readyOne   = "select *, ctid as place " + stepsOfOne + " order by rank, job, ord limit $2::bigint for update skip locked"
	stepsSeen  = `(select count(*) from (select ` + stepsOfOne + ` limit case when (select count(*) from c) < $2::bigint then (select count(*) + 1 from c) else 0 end) x),
  coalesce((select rank ` + stepsOfOne + " order by rank, job, ord limit 1), " + noRank + ")"

	jobsOfOne  = "from job where line = 1 and route = $1::bigint and not paused and rank >= $4::bigint"
	pendingOne = "select *, ctid as place " + jobsOfOne + " order by rank, id limit (select jobs from want) for update skip locked"
	jobsSeen   = `(select count(*) from (select ` + jobsOfOne + ` limit case when (select count(*) from p) < (select jobs from want) then (select count(*) + 1 from p) else 0 end) x),
  coalesce((select rank ` + jobsOfOne + " order by rank, id limit 1), " + noRank + ")"

	headsOfSteps = `h as materialized (
  select h.* from unnest($1::bigint[]) as r(route) cross join lateral
    (select job, ord, rank from step where line = 1 and step.route = r.route and rank >= $3::bigint
     order by rank, job, ord limit 2 * $2::bigint + 100) h
  order by h.rank, h.job, h.ord
), `
	readyMany = `select s.* from h cross join lateral
  (select *, ctid as place from step where step.job = h.job and step.ord = h.ord and line + 0 = 1 and step.route = any($1::bigint[]) for update skip locked) s
  limit $2::bigint`
	headsSeen = "(select count(*) from h), coalesce((select min(rank) from h), " + noRank + ")"

	headsOfJobs = `i as materialized (
  select i.* from unnest($1::bigint[]) as r(route) cross join lateral
    (select id, rank from job where line = 1 and job.route = r.route and not paused and rank >= $4::bigint
     order by rank, id limit (select case when jobs > 0 then 2 * jobs + 100 else 0 end from want)) i
  order by i.rank, i.id
), `
	pendingMany = `select j.* from i cross join lateral
  (select *, ctid as place from job where job.id = i.id and line + 0 = 1 and job.route = any($1::bigint[]) and not paused for update skip locked) j
  limit (select jobs from want)`
	jobHeadsSeen = "(select count(*) from i), coalesce((select min(rank) from i), " + noRank + ")"

	// The first steps of the job j. The first of them carries the job's bodies; if these are
	// short, all do, since finding the first takes a sort or another scan.
	startsOfJob = `(select *, ctid as place, case when coalesce(octet_length(j.inputs), 0) + coalesce(octet_length(j.metadata), 0) < 512 then true
    else step.ord = (select e.ord from step e where e.job = j.id and e.state = 'pending' and e.unmet = 0 order by e.ord limit 1) end as first
  from step where step.job = j.id and state = 'pending' and unmet = 0 order by ord offset 0)`
)

var (
	claimOne  = &statement{"claim_one", claimSQL("", readyOne, "", pendingOne, stepsSeen, jobsSeen)}
	claimMany = &statement{"claim_many", claimSQL(headsOfSteps, readyMany, headsOfJobs, pendingMany, headsSeen, jobHeadsSeen)}
	claimLone = &statement{"claim_lone", loneSQL()}
)

// The kinds of rows of a claim statement.
const (
	claimsStep   = iota // a step that was enqueued, and its job
	claimsStart         // a pending job, and one of its first steps
	claimsSeen          // the last row
	claimsOthers        // the last row if there was more than pending jobs of the lone route: nothing was claimed
)

// claimSQL returns rows of a step and of its job, each with its kind. A pending job is locked;
// its steps are not, since a transaction that changes one has the job locked, or makes the
// update stale. The job of an enqueued step is read without a lock. The first step of a job
// carries the job's bodies; short ones come with every first step of a pending job.
func claimSQL(heads, ready, jobHeads, pending, steps, jobs string) string {
	return fmt.Sprintf(`with %sc as materialized (%s),
want as materialized (select greatest($2::bigint - (select count(*) from c), $5::bigint) as jobs),
%sp as materialized (%s)
select %s, c.place, %d, %s, j.place, case when first then j.inputs end, case when first then j.metadata end, ''
from (select *, lag(job) over () is distinct from job as first from c) c
  cross join lateral (select *, ctid as place from job where job.id = c.job offset 0) j
union all
select %s, s.place, %d, %s, j.place, case when first then j.inputs end, case when first then j.metadata end, ''
from p j cross join lateral %s s
union all
select %s, null, %d, %s, null, null, null, concat_ws(' ', (extract(epoch from statement_timestamp()) * 1000000)::bigint,
  (select count(*) from c), (select count(*) from p), %s)`,
		heads, ready, jobHeads, pending,
		names("c", stepTable.plain), claimsStep, names("j", jobTable.plain),
		names("s", stepTable.plain), claimsStart, names("j", jobTable.plain), startsOfJob,
		nulls(stepTable.plain), claimsSeen, nulls(jobTable.plain), steps+", "+jobs)
}

// loneSQL returns the same rows as the other statements, if all there is to claim are pending
// jobs of the lone route $1, among the routes $6. That is the usual case of a backlog: it needs
// no heads to be merged, and jobs are read and locked by one scan of the index.
func loneSQL() string {
	const sought = "greatest($2::bigint, $5::bigint)"
	return fmt.Sprintf(`with o as materialized (select
  exists (select from unnest($6::bigint[]) as r(route) cross join lateral
    (select from step where line = 1 and step.route = r.route and rank >= $3::bigint order by rank limit 1) s) or
  exists (select from unnest($6::bigint[]) as r(route) cross join lateral
    (select from job where line = 1 and job.route = r.route and not paused and rank >= $4::bigint order by rank limit 1) j
    where r.route <> $1::bigint) as others),
p as materialized (select id, %s, inputs, metadata, ctid as place %s order by rank, id
  limit (select case when others then 0 else %s end from o) for update skip locked)
select %s, s.place, %d, %s, j.place, case when first then j.inputs end, case when first then j.metadata end, ''
from p j cross join lateral %s s
union all
select %s, null, case when others then %d else %d end, %s, null, null, null,
  concat_ws(' ', (extract(epoch from statement_timestamp()) * 1000000)::bigint, 0, (select count(*) from p), 0, %s,
    (select concat_ws(' ', count(*), coalesce(min(rank), %s)) from (select rank %s order by rank, id
      limit case when (select count(*) from p) < %s then (select count(*) + 1 from p) else 1 end) x))
from o`,
		names("", jobTable.plain), jobsOfOne, sought,
		names("s", stepTable.plain), claimsStart, names("j", jobTable.plain), startsOfJob,
		nulls(stepTable.plain), claimsOthers, claimsSeen, nulls(jobTable.plain), noRank, noRank, jobsOfOne, sought)
}

func nulls(cs []column) string { return strings.TrimSuffix(strings.Repeat("null, ", len(cs)), ", ") }

// A claimGroup is the result for all queries on the same routes. SKIP LOCKED does not skip a
// row that this transaction itself has locked, so each query that shares a route asks for
// additional rows, as many as the queries before it want.
type claimGroup struct {
	routes  []rowkey.Route
	limit   int
	atLeast int // pending jobs
	steps   []pawl.StepKey
	starts  []rowkey.Job

	claimCursor *claimCursor
	glimpse     glimpse
	highest     int          // highest priority found
	lone        rowkey.Route // it is claimed for this one alone, unless there is more; 0: for all
	wide        bool         // there was more
	route       rowkey.Route // of the last pending job found
	others      bool         // it found more than pending jobs of that route
	more        bool         // it found as many as requested
	skipped     bool         // it found fewer, and others have locked more
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
			if slices.ContainsFunc(before.routes, func(x rowkey.Route) bool { return slices.Contains(group.routes, x) }) {
				limit += before.limit
			}
		}
		if len(group.routes) == 0 {
			continue
		}
		group.limit = limit
		group.claimCursor = r.claimCursor(group.routes)
		group.glimpse, group.lone = group.claimCursor.begin(), group.claimCursor.loneRoute()
		r.queueClaim(p, group)
	}
}

func (r *reading) queueClaim(p *pipe, g *claimGroup) {
	params := func(routes []byte) [][]byte {
		return [][]byte{routes, num(int64(g.limit)), num(g.glimpse.from.steps), num(g.glimpse.from.jobs), num(int64(g.atLeast))}
	}
	switch {
	case len(g.routes) == 1:
		p.add(claimOne, r.claimed(g), params(num(int64(g.routes[0])))...)
	case g.lone != 0 && !g.wide:
		p.add(claimLone, r.claimed(g), append(params(num(int64(g.lone))), nums(g.routes))...)
	default:
		p.add(claimMany, r.claimed(g), params(nums(g.routes))...)
	}
}

// claimWidely claims again, in the same transaction, for groups whose lone route was not alone.
func (r *reading) claimWidely(ctx context.Context, p *pipe, limit time.Duration) error {
	again := false
	for _, g := range r.groups {
		if g.wide {
			r.queueClaim(p, g)
			again = true
		}
	}
	if !again {
		return nil
	}
	p.add(now, r.clock)
	if r.pipe != nil {
		return p.within(limit, p.again)
	}
	return p.run(ctx)
}

func (r *reading) groupOf(routes []rowkey.Route) *claimGroup {
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
		kind := c.int()
		switch kind {
		case claimsOthers:
			group.wide = true
			return
		case claimsSeen:
			c.at = len(c.vals) - 1
			group.see(c)
			return
		}
		j := r.foundJob(c)
		j.Inputs, j.Metadata = c.body(), c.body()
		if c.err != nil {
			return
		}
		if kind == claimsStep && s != nil {
			group.highest = max(group.highest, s.Priority)
			group.steps = append(group.steps, s.StepKey)
			r.withBodies(j)
		}
		if kind != claimsStart {
			return
		}
		if n := len(group.starts); n == 0 || group.starts[n-1] != j.Key() {
			group.highest = max(group.highest, j.Priority)
			group.starts = append(group.starts, j.Key())
			group.others = group.others || n > 0 && group.route != j.Route
			group.route = j.Route
			r.withBodies(j)
		}
	}
}

// see reads the last row, and decides whether there may be more. A window full of rows that
// others have locked counts as one such row: soon there are fewer.
func (g *claimGroup) see(c *cursor) {
	var steps, starts, stepsSeen, startsSeen int
	first := &g.glimpse.first
	if _, err := fmt.Sscan(c.text(), &g.glimpse.at, &steps, &starts, &stepsSeen, &first.steps, &startsSeen, &first.jobs); err != nil {
		c.fail("what a claim saw: %w", err)
		return
	}
	g.others = g.others || first.steps != nowhere.steps
	sought := max(g.limit-steps, g.atLeast)
	if sought == 0 { // that queue was not read
		first.jobs = beginning.jobs
	}
	g.more = steps == g.limit || sought > 0 && starts == sought
	g.skipped = steps < g.limit && stepsSeen > steps || starts < sought && startsSeen > starts
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

// The bodies of a job that do not change in most transactions.
type bodies struct{ inputs, metadata json.RawMessage }

// withBodies adds a job, or adds the bodies that came with it to the job that was read before.
func (r *reading) withBodies(j *pawl.Job) {
	key := j.Key()
	if _, ok := r.read[key]; ok {
		return
	}
	r.read[key] = bodies{j.Inputs, j.Metadata}
	if known := r.Jobs[key]; known != nil {
		known.Inputs, known.Metadata = j.Inputs, j.Metadata
		return
	}
	r.Jobs[key] = j
}

// changed returns a job without unchanged bodies: they came with a claim, and need not be sent
// back.
func (r *reading) changed(j *pawl.Job) *pawl.Job {
	stored, ok := r.read[j.Key()]
	inputs, metadata := j.Inputs != nil && bytes.Equal(j.Inputs, stored.inputs), j.Metadata != nil && bytes.Equal(j.Metadata, stored.metadata)
	if !ok || !inputs && !metadata {
		return j
	}
	c := *j
	if inputs {
		c.Inputs = nil
	}
	if metadata {
		c.Metadata = nil
	}
	return &c
}

// handOut gives each claim its share of the results, in order.
func (r *reading) handOut() {
	r.Claims = make([]store.ClaimFacts, len(r.q.Claims))
	n := 0
	for _, group := range r.groups {
		n += len(group.steps) + len(group.starts)
	}
	gone := make(map[pawl.StepKey]bool, n)
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
		f.More = group.more || len(f.Steps) >= c.Limit || len(f.Starts) >= max(c.Limit-len(f.Steps), c.Starts)
		f.Skipped = group.skipped
	}
}
