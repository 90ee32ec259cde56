package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/internal/store"
)

// maintainSweep is how many expired idempotency keys Maintain deletes at once.
const maintainSweep = 100_000

// Maintain deletes what has expired: idempotency keys, reservations and silent processes; see store.Ledger.
// Transactions that add keys also delete some.
func (db *DB) Maintain(ctx context.Context) error {
	now := db.cfg.Clock().UnixMicro()
	err := db.writer.transact(ctx, func(c *conn) error {
		if err := c.run(sweepAnswers, func(b *row) { b.ints(now, maintainSweep) }); err != nil {
			return err
		}
		if err := c.run(sweepReservations, func(b *row) { b.int(now) }); err != nil {
			return err
		}
		return c.run(sweepNodes, func(b *row) { b.int(now - store.NodeMemory.Microseconds()) })
	})
	if err != nil {
		return translate("forget what has expired", err)
	}
	return db.forgetFeed(ctx, now)
}
