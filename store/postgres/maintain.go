package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
)

// Days around today for which the trail has partitions: the jobs of a clock
// that is behind, and of a database that nobody maintained for a while.
const (
	daysBehind = 1
	daysAhead  = 3
)

// partitionLock is the advisory lock under which partitions are made.
const partitionLock = 0x7061776d

// Maintain makes the partitions of the coming days and forgets expired
// idempotency keys. It is to be called every hour, by any number of processes;
// Open calls it too. What does not fit a partition goes to the one called
// audit_rest, so a Maintain that was late or failed loses nothing.
func (db *DB) Maintain(ctx context.Context) error {
	if err := db.partitions(ctx); err != nil {
		return err
	}
	_, err := db.pool.Exec(ctx, "delete from idempotency where expires_at > 0 and expires_at <= "+clock)
	return queryError("forget expired idempotency keys", err)
}

func (db *DB) partitions(ctx context.Context) error {
	var today time.Time
	if err := db.pool.QueryRow(ctx, "select date_trunc('day', clock_timestamp(), 'UTC')").Scan(&today); err != nil {
		return queryError("ask for the day", err)
	}
	for day := -daysBehind; day <= daysAhead; day++ {
		at := today.UTC().AddDate(0, 0, day)
		if err := db.partition(ctx, at); err != nil {
			// The rows go to audit_rest meanwhile.
			db.log.Warn("no partition of the audit trail", "day", at.Format(time.DateOnly), "error", err)
		}
	}
	return nil
}

// partition makes the partition of one day unless it is there. It waits a short
// while only for the writers, who would wait behind it.
func (db *DB) partition(ctx context.Context, day time.Time) error {
	name := "audit_" + day.Format("20060102")
	var there bool
	err := db.pool.QueryRow(ctx, "select to_regclass(quote_ident(current_schema()) || '.' || $1) is not null", name).Scan(&there)
	if err != nil || there {
		return err
	}
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"set local lock_timeout = '2s'",
			fmt.Sprintf("select pg_advisory_xact_lock(%d)", partitionLock),
			fmt.Sprintf("create table if not exists %s partition of audit for values from (%d) to (%d)",
				name, pawl.KeyAt(day), pawl.KeyAt(day.AddDate(0, 0, 1))),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}
