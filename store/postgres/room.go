package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	leastRoom = 1 << 10 // bytes below which the driver's own buffer does
	mostRoom  = 1 << 20 // bytes above which a buffer is not kept
)

// A room is a buffer that a connection has beside the driver's own, which grows by
// small steps and is thrown away each time it was sent. Of a pipe the size is known,
// so that it is written to a room. The buffers change places by a message that has
// no bytes.
type room struct {
	buf     []byte
	next    []byte // what the driver gets
	entered bool
}

var _ pgproto3.FrontendMessage = (*room)(nil)

// roomOf answers the room of a connection.
func roomOf(conn *pgconn.PgConn) *room {
	const key = "pawl room"
	r, ok := conn.CustomData()[key].(*room)
	if !ok {
		r = new(room)
		conn.CustomData()[key] = r
	}
	return r
}

// enter gives the driver the room to write the calls to, unless they need none.
func (r *room) enter(conn *pgconn.PgConn, calls []call) {
	size := 0
	for i := range calls {
		size += 64 + len(calls[i].statement.name) // around the parameters
		for _, p := range calls[i].params {
			size += 4 + len(p)
		}
	}
	if size < leastRoom {
		return
	}
	r.buf = slices.Grow(r.buf[:0], size)
	r.next, r.entered = r.buf, true
	conn.Frontend().Send(r)
}

// leave gives the driver its own buffer back, once all is sent.
func (r *room) leave(conn *pgconn.PgConn) {
	if !r.entered {
		return
	}
	conn.Frontend().Send(r)
	r.next, r.entered = nil, false
	if cap(r.buf) > mostRoom {
		r.buf = nil
	}
}

// Encode lets the buffers change places.
func (r *room) Encode(driver []byte) ([]byte, error) {
	next := append(r.next[:0], driver...)
	r.next = driver
	return next, nil
}

// Frontend says that clients send it.
func (r *room) Frontend() {}

// Decode fails: nobody receives a room.
func (r *room) Decode([]byte) error { return errors.New("a room has no bytes") }
