package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

// Do runs one write transaction; see store.Ledger. Transactions of one process run in the
// order of their calls. After decide, and before anything is written, ctx is checked once
// more.
func (db *DB) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	c, err := db.writer.begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if db.writer.end() {
			db.stats.rollbacks.Add(1)
		}
	}()
	facts, err := db.facts(c, q)
	if err != nil {
		return translate("read", err)
	}
	var changes *store.Changes
	db.writer.rest(func() { changes, err = decide(facts) })
	if err != nil {
		return err
	}
	if changes == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := db.commit(c, facts, changes); err != nil {
		c.cache.forget()
		return err
	}
	db.count(changes)
	return nil
}

func (db *DB) commit(c *conn, f *store.Facts, ch *store.Changes) error {
	if err := write(c, f, ch); err != nil {
		return translate("write", err)
	}
	if err := db.writer.commit(); err != nil {
		return err
	}
	c.cache.committed(ch)
	return nil
}

func (db *DB) count(c *store.Changes) {
	db.stats.commits.Add(1)
	db.stats.inserts.Add(int64(len(c.NewJobs) + len(c.NewSteps) + len(c.NewWorkers) + len(c.NewSchedules) + len(c.NewTokens) + len(c.NewPauses) + len(c.NewWebhooks)))
	db.stats.updates.Add(int64(len(c.Jobs) + len(c.Steps) + len(c.Workers) + len(c.Schedules) + len(c.Tokens) + len(c.Pauses) + len(c.Webhooks)))
	db.stats.entries.Add(int64(len(c.Entries)))
}

// Settle reports whether the entry was committed. The lost transaction is over
// when Do has returned.
func (db *DB) Settle(ctx context.Context, k store.EntityKey, e *audit.Entry) (bool, error) {
	page, err := db.Trail(ctx, k, e.Sequence-1, 1)
	return len(page) > 0 && page[0].Sequence == e.Sequence && page[0].Hash == e.Hash, err
}
