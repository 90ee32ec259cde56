package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// unheldGrace is how long a worker that nobody holds may go without a beat: it
// may be about to take its name, or to take it again on a new connection.
const unheldGrace = 2 * time.Second

// beat says and answers all in one statement: a row for each stop, and one for
// the rest.
var beat = `with said as (
  insert into beat (worker, at) select $1::bigint, ` + clock + ` where $1::bigint <> 0
  on conflict (worker) do update set at = excluded.at
), noted as (
  insert into node (id, role, name, host, pid, version, started_at, at, skew)
  select $2::bigint, $3::text, $4::text, $5::text, $6::bigint, $7::text, ` + clock + `, ` + clock + `, $8::bigint - ` + clock + ` where $2::bigint <> 0
  on conflict (id) do update set at = excluded.at, skew = excluded.skew
)
select job, ord, claims::bigint, null::text from step
where worker = $1 and due_event = '` + string(lifecycle.StepCancel) + `' and state = 'in_progress'
union all
select
  coalesce((select min(h.rank) from unnest($9::bigint[]) r(route) cross join lateral
    (select rank from step s where s.line = 1 and s.route = r.route and s.rank >= $10::bigint order by rank, job, ord limit 1) h), $12::bigint),
  coalesce((select min(h.rank) from unnest($9::bigint[]) r(route) cross join lateral
    (select rank from job j where j.line = 1 and j.route = r.route and not j.paused and j.rank >= $11::bigint order by rank, id limit 1) h), $12::bigint), 0,
  coalesce((select state from worker where id = $1), '')`

// Beat says that a process and its worker are alive; see store.Ledger.
func (db *DB) Beat(ctx context.Context, p store.Pulse) (*store.Pulsed, error) {
	var answer *store.Pulsed
	n := &p.Node
	horizon := db.horizons.of(p.Routes)
	from, found, begun := horizon.glance(), nowhere, time.Now()
	err := db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		answer = new(store.Pulsed)
		return db.queryOn(ctx, conn, "beat", beat, func(c *cursor) {
			a, b, claim := c.num(), c.num(), c.int()
			if c.null() {
				answer.Stops = append(answer.Stops, store.Stop{StepKey: pawl.StepKey{Job: a, Ord: pawl.Ord(b)}, Claim: claim})
				return
			}
			found, answer.State = sight{a, b}, machine.State(c.text())
			answer.Work = found != nowhere
		}, p.Worker, n.ID, storable(n.Role), storable(n.Name), storable(n.Host), int64(n.PID), storable(n.Version), p.Clock, p.Routes, from.steps, from.jobs, int64(math.MaxInt64))
	})
	horizon.looked(from, time.Since(begun), err != nil)
	if err == nil {
		horizon.found(found)
		db.lookBack(p.Routes)
		db.dropEnded(ctx)
	}
	return answer, err
}

// Nodes reads the processes that were heard of; see store.Views.
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

// livingWorker says in the words of the index worker_living that a worker lives,
// so that those who have ended are not read.
var livingWorker = "state in ('" + strings.Join(words(living(lifecycle.Worker)), "', '") + "')"

// readLiving answers the workers that live by their record: how long they have been
// quiet, and whether the lock of their name is held. The server shows the key of an
// advisory lock in two halves.
var readLiving = `with locked as (
  select classid::bigint << 32 | objid::bigint as key from pg_locks
  where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
)
select w.id, (` + clock + ` - greatest(w.created_at, coalesce(b.at, 0)))::bigint as quiet, exists (
  select 1 from locked where key = hashtextextended(current_schema() || '/' || 'worker/' || w.id, 7061776)) as held
from worker w left join beat b on b.worker = w.id where w.` + livingWorker + ` order by w.id`

// Reap answers the workers that are dead; see store.Ledger.
func (db *DB) Reap(ctx context.Context, silence time.Duration) ([]store.Dead, error) {
	var dead []store.Dead
	err := db.query(ctx, "look for dead workers", readLiving, func(c *cursor) {
		key, quiet, held := c.num(), time.Duration(c.num())*time.Microsecond, c.flag()
		if why := verdict(quiet, held, silence); why != "" {
			dead = append(dead, store.Dead{Worker: key, Reason: why})
		}
	})
	return dead, err
}

// verdict says why a worker is dead, or nothing. With a silence of 0 names alone
// count, without grace.
func verdict(quiet time.Duration, held bool, silence time.Duration) string {
	switch {
	case !held && (quiet >= unheldGrace || silence == 0):
		return "its process is gone"
	case silence != 0 && quiet >= silence:
		return fmt.Sprintf("silent for %d s", int(quiet.Seconds()))
	}
	return ""
}
