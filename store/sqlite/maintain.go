package sqlite

import "context"

// maintainSweep is how many expired idempotency keys Maintain forgets.
const maintainSweep = 100_000

// Maintain forgets expired idempotency keys; see store.Ledger. Transactions that
// add keys forget some too.
func (db *DB) Maintain(ctx context.Context) error {
	now := db.cfg.Clock().UnixMicro()
	err := db.writer.transact(ctx, func(c *conn) error {
		return c.run(sweepAnswers, func(b *row) { b.ints(now, maintainSweep) })
	})
	return translate("forget expired idempotency keys", err)
}
