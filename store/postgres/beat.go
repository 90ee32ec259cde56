package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// unheldGrace is how long a worker that nobody holds may go without a beat: it
// may be about to take its name, or to take it again on a new connection.
const unheldGrace = 2 * time.Second

const writeBeat = `insert into beat (worker, at) values ($1, ` + clock + `)
on conflict (worker) do update set at = excluded.at`

const readStops = `select job, ord, claims from step
where worker = $1 and worker <> 0 and state = 'in_progress' and due_event = $2 order by job, ord`

// Beat says that a worker is alive, and answers the claims that are asked to
// stop.
func (db *DB) Beat(ctx context.Context, worker int64) ([]store.Stop, error) {
	var stops []store.Stop
	err := db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		stops = nil
		b := new(pgx.Batch)
		b.Queue(writeBeat, worker)
		b.Queue(readStops, worker, string(lifecycle.StepCancel)).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var s store.Stop
				if err := rows.Scan(&s.Job, (*int64)(&s.Ord), &s.Claim); err != nil {
					return err
				}
				stops = append(stops, s)
			}
			return rows.Err()
		})
		return conn.SendBatch(ctx, b).Close()
	})
	return stops, queryError("beat", err)
}

// The locks that are held, joined with the living workers. The server shows the
// key of an advisory lock in two halves.
const readLiving = `with locked as (
  select classid::bigint << 32 | objid::bigint as key from pg_locks
  where locktype = 'advisory' and objsubid = 1 and granted
    and database = (select oid from pg_database where datname = current_database())
)
select w.id, (` + clock + ` - greatest(w.created_at, coalesce(b.at, 0)))::bigint, exists (
  select 1 from locked where key = hashtextextended(current_schema() || '/' || 'worker/' || w.id, 7061776))
from worker w left join beat b on b.worker = w.id where w.state = any($1) order by w.id`

// Reap answers the workers that are dead; see store.Ledger.
func (db *DB) Reap(ctx context.Context, silence time.Duration) ([]store.Dead, error) {
	var dead []store.Dead
	err := db.query(ctx, "look for dead workers", readLiving, func(c *cursor) {
		key, quiet, held := c.num(), time.Duration(c.num())*time.Microsecond, c.flag()
		if why := verdict(quiet, held, silence); why != "" {
			dead = append(dead, store.Dead{Worker: key, Reason: why})
		}
	}, living(lifecycle.Worker))
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
