package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// Days around today for which the trail and the logs have partitions: for jobs of a slow
// clock, and for a database that was not maintained for a while.
const (
	daysBehind = 1
	daysAhead  = 3
)

// partitionLock is the advisory lock under which partitions are made.
const partitionLock = 0x7061776d

// Maintain makes the partitions of the coming days and deletes expired idempotency keys and
// reservations, silent processes, and the keys of killed ones. It has to be called every hour, by
// any number of processes; Open calls it too. Rows without a partition are stored in the one called audit_rest, so a Maintain that
// was late or failed loses nothing.
func (db *DB) Maintain(ctx context.Context) error {
	if err := db.partitions(ctx); err != nil {
		return err
	}
	if _, err := db.pool.Exec(ctx, "delete from idempotency where expires_at > 0 and expires_at <= "+clock); err != nil {
		return queryError("forget expired idempotency keys", err)
	}
	if _, err := db.pool.Exec(ctx, "delete from reservation where expires_at <= "+clock); err != nil {
		return queryError("forget expired reservations", err)
	}
	if _, err := db.pool.Exec(ctx, forgetPostboxes, postboxMemory.Microseconds()); err != nil {
		return queryError("forget the keys of processes that were killed", err)
	}
	if err := db.forgetFeed(ctx); err != nil {
		return err
	}
	return db.forgetSilent(ctx)
}

// beatMemory is how long the beats of a silent worker are kept: it counts as dead earlier.
const beatMemory = 24 * time.Hour

func (db *DB) forgetSilent(ctx context.Context) error {
	_, err := db.pool.Exec(ctx, "with n as (delete from node where at <= "+clock+" - $1::bigint) delete from beat where at <= "+clock+" - $2::bigint",
		store.NodeMemory.Microseconds(), beatMemory.Microseconds())
	return queryError("forget silent processes", err)
}

func (db *DB) partitions(ctx context.Context) error {
	var today time.Time
	if err := db.pool.QueryRow(ctx, "select date_trunc('day', clock_timestamp(), 'UTC')").Scan(&today); err != nil {
		return queryError("ask for the day", err)
	}
	for day := -daysBehind; day <= daysAhead; day++ {
		at := today.UTC().AddDate(0, 0, day)
		for _, table := range []string{"audit", "log"} {
			if err := db.partition(ctx, table, at); err != nil {
				// The rows are stored in audit_rest or log_rest meanwhile.
				db.log.Warn("no partition", "table", table, "day", at.Format(time.DateOnly), "error", err)
			}
		}
	}
	return nil
}

// partition makes a table's partition of one day unless it exists. It waits only briefly for
// the writers, since others would have to wait behind it.
func (db *DB) partition(ctx context.Context, table string, day time.Time) error {
	name := table + "_" + day.Format("20060102")
	var there bool
	err := db.pool.QueryRow(ctx, "select to_regclass(quote_ident(current_schema()) || '.' || $1) is not null", name).Scan(&there)
	if err != nil || there {
		return err
	}
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"set local lock_timeout = '2s'",
			fmt.Sprintf("select pg_advisory_xact_lock(%d)", partitionLock),
			fmt.Sprintf("create table if not exists %s partition of %s for values from (%d) to (%d)",
				name, table, pawl.KeyAt(day), pawl.KeyAt(day.AddDate(0, 0, 1))),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
