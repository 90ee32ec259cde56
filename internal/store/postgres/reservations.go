package postgres

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var (
	readReservations = &statement{"read_reservations", "select " + names("", reservationColumns) +
		" from reservation where uuid = any($1::bytea[]) and expires_at > " + clock + " order by uuid for update"}
	newReservations  = &statement{"new_reservations", insert("reservation", reservationColumns, "")}
	dropReservations = &statement{"drop_reservations", "delete from reservation t using " + found("reservation", reservationColumns[:1], reservationColumns[:1], "")}
)

func (r *reading) queueReservations(p *pipe) {
	if len(r.q.Reservations) == 0 {
		return
	}
	ids := collect(reservationColumns[:1], len(r.q.Reservations))
	for i := range r.q.Reservations {
		ids.blob(r.q.Reservations[i][:])
	}
	p.add(readReservations, func(c *cursor) {
		v := &pawl.Reservation{}
		c.fixed(v.ID[:])
		v.Workspace, v.Depth, v.Slots, v.Pool = c.text(), c.int(), c.int(), rowkey.Pool(c.num())
		v.ExpiresAt, v.Actor, v.Reason = c.num(), c.text(), c.text()
		if c.err == nil {
			r.Reservations[v.ID] = v
		}
	}, ids.params()...)
}

func (w *writing) reservations(ch *store.Changes) {
	made := collect(reservationColumns, len(ch.NewReservations))
	for _, v := range ch.NewReservations {
		made.blob(v.ID[:])
		made.text(v.Workspace)
		made.num(int64(v.Depth))
		made.num(int64(v.Slots))
		made.num(int64(v.Pool))
		made.num(v.ExpiresAt)
		made.text(v.Actor)
		made.text(v.Reason)
	}
	gone := collect(reservationColumns[:1], len(ch.Released))
	for _, v := range ch.Released {
		gone.blob(v.ID[:])
	}
	w.addRows(newReservations, made)
	w.addRows(dropReservations, gone)
}
