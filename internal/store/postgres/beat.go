package postgres

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// tookAway marks the rows of claims that a worker no longer has: no state of a worker has this
// name.
const tookAway = "-"

// stopsFor is for how long after its deadline a stop is repeated, in microseconds. By then the
// evaluator, if a server runs, has ended the step, and the worker hears that it was taken. The index
// has the stops of all workers, and those that are over as long as an old snapshot may see them.
const stopsFor = "60000000"

// stopsOfAll returns the stops of a worker that has not said what it runs.
var stopsOfAll = `select job, ord, claims from step
where due_event = '` + string(lifecycle.StepCancel) + `' and due_at > (select ` + clock + `) - ` + stopsFor + ` and worker = $1 and state = 'in_progress'`

// beat writes and returns everything in one statement: a row for each claim of the pulse that is to
// stop or was taken away, and one for the rest. It reads the steps of the worker's own claims only,
// however many others are to stop.
var beat = `with said as (
  insert into beat (worker, at) select $1::bigint, ` + clock + ` where $1::bigint <> 0
  on conflict (worker) do update set at = excluded.at
), noted as (
  insert into node (id, role, name, host, pid, version, started_at, at, skew)
  select $2::bigint, $3::text, $4::text, $5::text, $6::bigint, $7::text, ` + clock + `, ` + clock + `, $8::bigint - ` + clock + ` where $2::bigint <> 0
  on conflict (id) do update set at = excluded.at, skew = excluded.skew
)
select r.job, r.ord, r.claim, case when s.stop is null then '` + tookAway + `' end, 0, 0 from unnest($13::bigint[], $14::bigint[], $15::bigint[]) r(job, ord, claim)
left join lateral (select s.due_event = '` + string(lifecycle.StepCancel) + `' as stop from step s
  where s.job = r.job and s.ord = r.ord and s.claims = r.claim and s.worker = $1 and s.state = 'in_progress' offset 0) s on true
where s.stop is not false
union all
select
  coalesce((select min(h.rank) from unnest($9::bigint[]) r(route) cross join lateral
    (select rank from step s where s.line = 1 and s.route = r.route and s.rank >= $10::bigint order by rank, job, ord limit 1) h), $12::bigint),
  coalesce((select min(h.rank) from unnest($9::bigint[]) r(route) cross join lateral
    (select rank from job j where j.line = 1 and j.route = r.route and not j.paused and j.rank >= $11::bigint order by rank, id limit 1) h), $12::bigint),
  case when exists (select 1 from worker where ` + livingWorker + ` and id <> $1) then 0 else 1 end,
  coalesce((select state from worker where id = $1), ''), place, peers from (` + peers + `) p`

// peers counts those workers that hear hints and may take what the worker may take, if it hears
// hints itself; and those of them that come before it. It reads no more than a crowd, of which
// it counts none: its members would not agree on a part of them.
var peers = `select count(*) filter (where peer and id < $1) as place,
    case when count(*) <= ` + crowd + ` then count(*) filter (where peer) else 0 end as peers
  from (select w.id, w.routes = me.routes and w.silence = 0 and w.state <> '` + string(lifecycle.WorkerPaused) + `' as peer
    from worker me cross join (select id, routes, silence, state from worker where ` + livingWorker + ` order by id limit ` + crowd + ` + 1) w
    where me.id = $1 and me.silence = 0) l`

// crowd is how many living workers are too many for an order among them.
const crowd = "100"

// Beat records that a process and its worker are alive; see store.Ledger.
func (db *DB) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	var answer *link.Pulsed
	n := &p.Node
	jobs, ords, claims := make([]int64, len(p.Claims)), make([]int64, len(p.Claims)), make([]int64, len(p.Claims))
	for i, c := range p.Claims {
		jobs[i], ords[i], claims[i] = int64(c.Job), int64(c.Ord), int64(c.Claim)
	}
	claimCursor := db.lookback.claimCursor(p.Routes)
	from, found := claimCursor.known(), nowhere
	err := db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		answer = new(link.Pulsed)
		err := db.queryOn(ctx, conn, "beat", beat, func(c *cursor) {
			a, b, claim := c.num(), c.num(), c.int()
			stop := link.Stop{StepKey: pawl.StepKey{Job: rowkey.Job(a), Ord: pawl.Ord(b)}, Claim: claim}
			if c.null() {
				answer.Stops = append(answer.Stops, stop)
				return
			}
			text := c.text()
			if text == tookAway {
				answer.Taken = append(answer.Taken, stop)
				return
			}
			found, answer.State = sight{a, b}, machine.State(text)
			answer.Work, answer.Alone = found != nowhere, claim == 1
			answer.Place, answer.Peers = c.int(), c.int()
		}, int64(p.Worker), n.ID, storable(n.Role), storable(n.Name), storable(n.Host), int64(n.PID), storable(n.Version), p.Clock, bigints(p.Routes), from.steps, from.jobs, int64(math.MaxInt64), jobs, ords, claims)
		if err != nil || !p.Unnamed {
			return err
		}
		return db.queryOn(ctx, conn, "stops", stopsOfAll, func(c *cursor) {
			key := pawl.StepKey{Job: rowkey.Job(c.num()), Ord: pawl.Ord(c.num())}
			answer.Stops = append(answer.Stops, link.Stop{StepKey: key, Claim: c.int()})
		}, int64(p.Worker))
	})
	if claimCursor.idle() {
		db.lookback.want(claimCursor)
	}
	if err == nil {
		db.dropEnded(ctx)
	}
	return answer, err
}

// Nodes reads the processes that reported recently; see store.Views.
func (db *DB) Nodes(ctx context.Context) ([]*pawl.Node, error) {
	var nodes []*pawl.Node
	err := db.query(ctx, "list processes", `select id, role, name, host, pid, version, started_at, at, skew from node
where at > `+clock+` - $1::bigint order by started_at, id`, func(c *cursor) {
		n := &pawl.Node{ID: c.num(), Role: c.text(), Name: c.text(), Host: c.text(), PID: c.int(), Version: c.text(),
			StartedAt: c.num(), BeatAt: c.num(), Skew: c.num()}
		if c.err == nil {
			nodes = append(nodes, n)
		}
	}, store.NodeMemory.Microseconds())
	return nodes, err
}

// livingWorker is the condition, spelled as in the index worker_living, that a worker lives,
// so that ended workers are not read.
var livingWorker = "state in ('" + strings.Join(words(living(lifecycle.Worker)), "', '") + "')"

// lockFound returns the state of the lock of a worker's name, as health.Lock numbers it: held,
// lost with a connection, or released by its owner, which also removes the row of the name.
// The server shows the key of an advisory lock in two halves.
func lockFound(worker string) string {
	return "case when exists (select 1 from locked where key = hashtextextended(current_schema() || '/' || 'worker/' || " + worker + ", 7061776)) then " + lockNumber(health.Held) +
		" when exists (select 1 from hold where name = 'worker/' || " + worker + ") then " + lockNumber(health.Lost) + " else " + lockNumber(health.Free) + " end"
}

func lockNumber(l health.Lock) string { return strconv.Itoa(int(l)) }

const (
	lockedKeys = `select classid::bigint << 32 | objid::bigint as key from pg_locks
  where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())`

	// startOfServer is when the server was started, in microseconds.
	startOfServer = "(extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint"
)

// readLiving reads the workers that live according to their record: their last beat, or their
// registration, and the state of the lock of their name.
var readLiving = `with locked as (` + lockedKeys + `)
select w.id, greatest(w.created_at, coalesce(b.at, 0)) as beat,
  case when w.silence > 0 then ` + lockNumber(health.None) + ` else ` + lockFound("w.id") + ` end as lock, w.silence
from worker w left join beat b on b.worker = w.id where w.` + livingWorker + ` order by w.id`

var observe = "select true, " + clock + ", " + startOfServer + ", 0, 0 union all select false, l.* from (" + readLiving + ") l"

// Observe returns the workers that live according to their record; see store.Ledger.
func (db *DB) Observe(ctx context.Context) (*health.Report, error) {
	r := new(health.Report)
	err := db.query(ctx, "look for dead workers", observe, func(c *cursor) {
		if c.flag() {
			r.Now, r.Started = c.num(), c.num()
			return
		}
		r.Workers = append(r.Workers, sighting(c))
	})
	return r, err
}

func sighting(c *cursor) health.Sighting {
	return health.Sighting{Worker: rowkey.Worker(c.num()), Beat: c.num(), Lock: health.Lock(c.num()), Silence: time.Duration(c.num())}
}
