package sqlite

import (
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

func (r *reading) reservations(q *store.Query) error {
	for _, id := range q.Reservations {
		err := r.c.each(selectReservation, func(b *row) {
			b.blob(id[:])
			b.int(r.f.Now)
		}, func(c *columns) error {
			v := &pawl.Reservation{}
			c.fixed(v.ID[:])
			v.Workspace, v.Depth, v.Slots, v.Pool = c.text(), int(c.int()), int(c.int()), rowkey.Pool(c.int())
			v.ExpiresAt, v.Actor, v.Reason = c.int(), c.text(), c.text()
			if r.decoded(c, "reservation", id) {
				r.f.Reservations[id] = v
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeReservations(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, v := range ch.NewReservations {
		err := c.run(insertReservation, func(r *row) {
			r.blob(v.ID[:])
			r.text(v.Workspace)
			r.ints(int64(v.Depth), int64(v.Slots), int64(v.Pool), v.ExpiresAt)
			r.text(v.Actor)
			r.text(v.Reason)
		})
		if err != nil {
			return fmt.Errorf("reserve slots: %w", err)
		}
	}
	for _, v := range ch.Released {
		if err := c.run(deleteReservation, func(r *row) { r.blob(v.ID[:]) }); err != nil {
			return fmt.Errorf("release slots: %w", err)
		}
	}
	return nil
}
