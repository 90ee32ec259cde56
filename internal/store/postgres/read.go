package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const clock = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"

// nodesOf finds the nodes of the job u by one probe each: it skips the instances between them,
// of which there may be a million.
const nodesOf = `with recursive n(job, ord) as (
    (select job, ord from step where step.job = u.job order by ord limit 1)
    union all
    select u.job, (select ord from step where step.job = u.job and step.ord >= ((n.ord >> 20) + 1) << 20 order by ord limit 1)
    from n where n.ord is not null
  ) select job, ord from n where ord & 1048575 = 0`

// The statements of the reading half.
var (
	begin    = &statement{"begin", "begin isolation level read committed read write"}
	rollback = &statement{"rollback", "rollback"}
	commit   = &statement{"commit", "commit"}
	now      = &statement{"now", "select " + clock}

	readWorkers  = &statement{"read_workers", "select " + names("", workerTable.plain) + ", xmin from worker where id = any($1::bigint[]) order by id for update"}
	watchWorkers = &statement{"watch_workers", "select " + names("", workerTable.plain) + ", xmin from worker where id = any($1::bigint[]) order by id for share"}
	readJobs     = &statement{"read_jobs", "select " + names("", jobTable.plain) + ", ctid, xmin from job where id = any($1::bigint[]) order by id for update"}

	readUnlocked = &statement{"read_unlocked", "select " + names("", jobTable.plain) + ", ctid, xmin from job where id = any($1::bigint[])"}

	// One statement locks named steps and steps selected by their fields, so that all writers
	// lock them in one order. A row's own values show which field of the query asked for it.
	readSteps = &statement{"read_steps", `with k as (
  select * from unnest($1::bigint[], $2::bigint[]) as u(job, ord)
  union
  select w.job, w.ord from unnest($3::bigint[], $4::bigint[]) as u(job, most) cross join lateral
    (select job, ord from step where mark = 2 and mark_at = 0 and step.job = u.job order by priority desc, ord limit u.most) w
  union
  select s.job, s.ord from unnest($5::bigint[]) as u(job) cross join lateral
    (select job, ord from step where step.job = u.job and state <> all($6::text[]) offset 0) s
  union
  select h.job, h.ord from unnest($7::bigint[]) as u(worker) cross join lateral (` + heldBy("u.worker") + `) h
  union
  select n.job, n.ord from unnest($8::bigint[]) as u(job) cross join lateral (` + nodesOf + `) n
)
select ` + names("s", stepTable.plain) + `, place from (select job, ord from k order by job, ord) k cross join lateral
  (select *, ctid as place from step where step.job = k.job and step.ord = k.ord for update) s`}
	// The same for the common case that all are named.
	readNamed = &statement{"read_named", "select " + names("s", stepTable.plain) + `, place from
  (select unnest($1::bigint[]) as job, unnest($2::bigint[]) as ord order by 1, 2) k cross join lateral
  (select *, ctid as place from step where step.job = k.job and step.ord = k.ord for update) s`}

	// The first steps of jobs, to be cached for later transactions.
	readAhead = &statement{"read_ahead", "select " + names("s", stepTable.plain) + `, xid from unnest($1::bigint[]) as u(job) cross join lateral
  (select *, xmin as xid from step where step.job = u.job order by ord limit ` + strconv.Itoa(maxCachedSteps) + `) s where state = 'pending'`}

	// A racing insert of the same key waits in takeKeys until the other is over, or until
	// keyWait has passed. readKeys returns the keys that it did not take.
	limitWait = &statement{"limit_wait", "set local lock_timeout = '" + keyWait + "'"}
	waitOn    = &statement{"wait_on", "set local lock_timeout to default"}

	// What is recalled is locked when it is written, after the rows of claims and so out of order.
	// Who has such a row and waits for a claimed one would be a deadlock, which ends after a second.
	limitRecalled = &statement{"limit_recalled", "set local lock_timeout = '" + recalledWait + "'"}

	// inReading fails unless the transaction that has set this limit is under way.
	inReading = &statement{"in_reading", "select " + provided("current_setting('lock_timeout') = '"+recalledWait+"'", "pawl: the transaction was not begun, so nothing of it is written")}

	takeKeys = &statement{"take_keys", `with u as materialized (
  select workspace, key, case when pg_try_advisory_lock_shared(` + lockOf("") + `) then pg_advisory_unlock_shared(` + lockOf("") + `) else false end as free
  from ` + someKeys + ` order by 1, 2
), taken as (
  ` + takeFrom("u where free") + `
)
select * from taken union all select workspace, key, false from u where not free
  and not exists (select from idempotency t where t.workspace = u.workspace and t.key = u.key and t.expires_at > ` + clock + `)`}

	// lockKeys locks keys for a user's transaction, which may stay open for long. Without the
	// lock, takeKeys would wait until it ends, and with it all commands of that commit.
	lockKeys = &statement{"lock_keys", "select pg_advisory_xact_lock(" + lockOf("") + ") from " + someKeys + " order by workspace, key"}

	// takeLocked takes keys that the transaction has locked.
	takeLocked = &statement{"take_locked", takeFrom(someKeys + " order by 1, 2")}

	readKeys = &statement{"read_keys", "select " + names("i", answerColumns) + ` from
  (select unnest($1::text[]) as workspace, unnest($2::text[]) as key) u cross join lateral
  (select * from idempotency t where t.workspace = u.workspace and t.key = u.key and t.expires_at > 0 offset 0) i`}
)

const (
	// keyWait is how long a transaction waits for another one that has taken a key. The
	// caller tries it twice at most: among others, and alone.
	keyWait = "500ms"

	// recalledWait is how long a transaction waits for a row that it recalled. It is an unusual
	// value, so that it is no default of a server or a user: see inReading.
	recalledWait = "51ms"

	someKeys = "unnest($1::text[], $2::text[]) as u(workspace, key)"
)

// lockOf returns the number of the advisory lock of a key, whose columns have a prefix.
func lockOf(prefix string) string {
	return "hashtextextended(" + prefix + "workspace || chr(1) || " + prefix + "key, 7017151)"
}

// takeFrom takes keys that are new or have expired.
func takeFrom(keys string) string {
	return `insert into idempotency (workspace, key, endpoint, request_hash, status, created_at, expires_at)
  select workspace, key, '', ''::bytea, 0, ` + clock + `, 0 from ` + keys + `
  on conflict (workspace, key) do update set status = 0, expires_at = 0, created_at = excluded.created_at
  where idempotency.expires_at <= ` + clock + ` returning workspace, key, true`
}

// A reading collects the facts of one transaction.
type reading struct {
	*store.Facts
	q           *store.Query
	order       []*pawl.Step // as locked, by key
	groups      []*claimGroup
	read        map[rowkey.Job]bodies // of jobs that came with a claim, as they are stored
	jobs        map[rowkey.Job]*foundRow[pawl.Job]
	claimCursor func(routes []rowkey.Route) *claimCursor
	steps       map[pawl.StepKey]*foundRow[pawl.Step]
	workers     map[rowkey.Worker]xid
	ahead       []rowkey.Job      // jobs of which steps are read for later transactions,
	later       []cachedStep      // these
	optimistic  bool              // from cached rows: nothing was read, and nothing is locked
	recalled    bool              // the jobs and steps that are named are from cached rows, and are not locked
	timely      bool              // the time of the facts is estimated
	written     *writing          // what was sent early; nil: nothing
	pipe        *pipe             // under way, if something was or could be sent early; nil: none is
	room        *room             // nil: what it needs is allocated
	keysTaken   pgconn.CommandTag // empty until the keys are taken
}

func newReading(q *store.Query) *reading {
	return &reading{q: q, read: map[rowkey.Job]bodies{}, jobs: map[rowkey.Job]*foundRow[pawl.Job]{}, steps: map[pawl.StepKey]*foundRow[pawl.Step]{}, workers: map[rowkey.Worker]xid{}, Facts: &store.Facts{
		Keys: map[store.IdempotencyKey]*store.Answer{}, Pools: map[store.Pool]int{}, Versions: map[pawl.WorkflowName]*pawl.Version{},
		Schedules: map[rowkey.Schedule]*pawl.Schedule{}, Tokens: map[rowkey.Token]*pawl.Token{}, Limits: map[pawl.WorkflowName]*pawl.Quota{}, Pauses: map[rowkey.QueuePause]*pawl.QueuePause{}, Webhooks: map[rowkey.Webhook]*pawl.Webhook{}, Signals: map[rowkey.Job][]*pawl.Signal{}, Untaken: map[rowkey.Job]store.Untaken{},
		Workers: map[rowkey.Worker]*pawl.Worker{}, Turns: map[rowkey.Worker]store.Turn{}, Jobs: map[rowkey.Job]*pawl.Job{},
		Steps: map[pawl.StepKey]*pawl.Step{}, Waiting: map[rowkey.Job][]pawl.StepKey{},
		Open: map[rowkey.Job][]pawl.StepKey{}, Nodes: map[rowkey.Job][]pawl.StepKey{}, Held: map[rowkey.Worker][]pawl.StepKey{},
		Reservations: map[pawl.ID]*pawl.Reservation{},
	}}
}

// read begins a transaction and reads what q asks for, in one round trip. If it may, it has the
// server write early; see early.go.
func (db *DB) read(ctx context.Context, conn *pgconn.PgConn, q *store.Query, early bool) (*reading, error) {
	r := newReading(q)
	r.room = db.rooms.take()
	r.claimCursor, r.ahead = db.lookback.claimCursor, db.cache.unread(q)
	db.cache.recall(r)
	p := &pipe{conn: conn, log: db.log, faults: &db.faults}
	r.queue(p)
	var err error
	if early && r.recalled && r.timely {
		err = db.readAndWrite(r, p)
	} else {
		err = p.run(ctx)
	}
	if err != nil {
		return nil, r.orHeld(err)
	}
	if err := r.claimWidely(ctx, p, db.patience); err != nil {
		return nil, r.orOutdated(err)
	}
	for _, g := range r.groups {
		if g.claimCursor != nil {
			g.claimCursor.claimed(g.glimpse, g.highest)
			g.claimCursor.took(g)
			db.lookback.want(g.claimCursor)
		}
	}
	r.Unreadable = p.unreadableSteps
	r.sort()
	r.handOut()
	return r, r.jobsOfHeld(ctx, p)
}

// queue passes the statements to a pipe, in the order of the locks that they take. It sends
// none for records that are not requested.
func (r *reading) queue(p *pipe) {
	q := r.q
	p.add(begin, nil)
	r.queuePools(p)
	r.queueKeys(p)
	r.queueQuotas(p)
	r.queueSchedules(p)
	r.queueTokens(p)
	r.queuePauses(p)
	r.queueWebhooks(p)
	if len(q.Workers) > 0 {
		p.add(readWorkers, r.worker, nums(q.Workers))
	}
	if len(q.Watched) > 0 {
		p.add(watchWorkers, r.worker, nums(q.Watched))
	}
	r.queueTurns(p)
	if len(q.Jobs) > 0 && !r.recalled {
		p.add(readJobs, r.job, nums(q.Jobs))
	}
	if len(q.Signals) > 0 {
		p.add(readSignals, r.signal, nums(q.Signals), num(store.MaxSignals))
	}
	if len(q.Untaken) > 0 {
		p.add(countSignals, func(c *cursor) { r.Untaken[rowkey.Job(c.num())] = store.Untaken{Count: c.int(), Bytes: c.int()} }, nums(q.Untaken), num(store.MaxSignals))
	}
	r.queueNames(p)
	r.queueReservations(p)
	if !r.recalled {
		r.queueSteps(p)
	}
	r.queueClaims(p)
	if r.recalled {
		p.add(limitRecalled, nil)
	}
	if len(r.ahead) > 0 {
		p.add(readAhead, r.aheadStep, nums(r.ahead))
	}
	// The clock is read last: after every lock has been waited for.
	p.add(now, r.clock)
}

func (r *reading) clock(c *cursor) { r.Now = c.num() }

// jobsOfHeld reads the jobs of held steps that were not locked.
func (r *reading) jobsOfHeld(ctx context.Context, p *pipe) error {
	missing := map[rowkey.Job]bool{}
	for _, steps := range r.Held {
		for _, k := range steps {
			if r.Jobs[k.Job] == nil {
				missing[k.Job] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p.add(readUnlocked, r.job, nums(slices.Sorted(maps.Keys(missing))))
	return p.run(ctx)
}

func (r *reading) queueKeys(p *pipe) {
	if len(r.q.Keys) == 0 {
		return
	}
	distinct := r.distinctKeys()
	workspaces, keys := make([]string, len(distinct)), make([]string, len(distinct))
	for i, k := range distinct {
		workspaces[i], keys[i] = k.Workspace, k.Key
	}
	w, k := texts(workspaces), texts(keys)
	p.add(limitWait, nil)
	p.add(takeKeys, r.taken, w, k)
	p.addTagged(waitOn, &r.keysTaken)
	p.add(readKeys, r.answer, w, k)
}

// orHeld returns store.ErrKeyHeld if err is that a key was waited for too long.
func (r *reading) orHeld(err error) error {
	if code(err) != codeLockTimeout || len(r.q.Keys) == 0 || r.keysTaken.String() != "" {
		return err
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: "a request id is in use", Hint: "try again", Err: fmt.Errorf("%w: %w", store.ErrKeyHeld, err)}
}

// orOutdated returns store.ErrStale if err may be that an early change has found an outdated row, or
// one that another transaction has locked.
func (r *reading) orOutdated(err error) error {
	if r.written != nil && mayBeOutdated(writeError(err)) {
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	}
	return err
}

func (r *reading) distinctKeys() []store.IdempotencyKey {
	keys := slices.Clone(r.q.Keys)
	slices.SortFunc(keys, func(a, b store.IdempotencyKey) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Key, b.Key))
	})
	return slices.Compact(keys)
}

func (r *reading) taken(c *cursor) {
	k := store.IdempotencyKey{Workspace: c.text(), Key: c.text()}
	free := c.flag()
	r.Keys[k] = &store.Answer{New: free, Held: !free}
}

func (r *reading) answer(c *cursor) {
	k := store.IdempotencyKey{Workspace: c.text(), Key: c.text()}
	a := &store.Answer{Endpoint: c.text()}
	c.fixed(a.RequestHash[:])
	a.Status = c.int()
	a.Body = c.blob()
	a.ExpiresAt = c.num()
	if c.err == nil && r.Keys[k] == nil { // else it has expired, and a transaction holds it
		r.Keys[k] = a
	}
}

func (r *reading) worker(c *cursor) {
	w, v := workerTable.read(c), c.xid()
	if c.err == nil {
		r.Workers[w.Key()], r.workers[w.Key()] = w, v
	}
}

func (r *reading) job(c *cursor) {
	j := r.foundJob(c)
	r.jobs[j.Key()].xid = c.xid()
	if c.err == nil {
		r.Jobs[j.Key()] = j
	}
}

func (r *reading) step(c *cursor) {
	if s := r.foundStep(c); c.err == nil {
		r.Steps[s.StepKey] = s
		r.order = append(r.order, s)
	}
}

func (r *reading) aheadStep(c *cursor) {
	s := stepTable.read(c)
	if xid := c.xid(); c.err == nil {
		r.later = append(r.later, cachedStep{*s, xid})
	}
}

func (r *reading) queueSteps(p *pipe) {
	q := r.q
	jobs, ords := make([]rowkey.Job, len(q.Steps)), make([]pawl.Ord, len(q.Steps))
	seen := make(map[pawl.StepKey]bool, len(q.Steps))
	n := 0
	for _, k := range q.Steps {
		if !seen[k] {
			seen[k] = true
			jobs[n], ords[n] = k.Job, k.Ord
			n++
		}
	}
	j, o := nums(jobs[:n]), nums(ords[:n])
	if len(q.Waiting)+len(q.Open)+len(q.Nodes)+len(q.Held) == 0 {
		if n > 0 {
			p.add(readNamed, r.step, j, o)
		}
		return
	}
	waiting, most := make([]rowkey.Job, len(q.Waiting)), make([]int64, len(q.Waiting))
	for i, w := range q.Waiting {
		waiting[i], most[i] = w.Job, int64(w.Limit)
	}
	p.add(readSteps, r.step, j, o, nums(waiting), nums(most), nums(q.Open), texts(lifecycle.Step.Ends), nums(q.Held), nums(q.Nodes))
}

// sort puts the steps into the fields that asked for them. A row that another transaction
// changed while this one waited for its lock is judged by its present values.
func (r *reading) sort() {
	open, nodes, held := set(r.q.Open), set(r.q.Nodes), set(r.q.Held)
	for _, s := range r.order {
		if open[s.Job] && !lifecycle.Step.Ended(s.State) {
			r.Open[s.Job] = append(r.Open[s.Job], s.StepKey)
		}
		if nodes[s.Job] && s.Ord.Instance() == 0 {
			r.Nodes[s.Job] = append(r.Nodes[s.Job], s.StepKey)
		}
		if held[s.Worker] && s.State == lifecycle.StepInProgress {
			r.Held[s.Worker] = append(r.Held[s.Worker], s.StepKey)
		}
	}
	r.sortWaiting()
}

func (r *reading) sortWaiting() {
	if len(r.q.Waiting) == 0 {
		return
	}
	clear(r.Waiting)
	limit := map[rowkey.Job]int{}
	for _, w := range r.q.Waiting {
		limit[w.Job] = max(limit[w.Job], w.Limit)
	}
	byPriority := slices.Clone(r.order)
	slices.SortStableFunc(byPriority, func(a, b *pawl.Step) int { return cmp.Compare(b.Priority, a.Priority) })
	for _, s := range byPriority {
		if s.Mark == pawl.Waiting && len(r.Waiting[s.Job]) < limit[s.Job] {
			r.Waiting[s.Job] = append(r.Waiting[s.Job], s.StepKey)
		}
	}
}

func set[K comparable](keys []K) map[K]bool {
	if len(keys) == 0 {
		return nil
	}
	m := make(map[K]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

func words(states []machine.State) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}

func living(m *machine.Machine) []machine.State {
	return slices.DeleteFunc(slices.Clone(m.States), m.Ended)
}
