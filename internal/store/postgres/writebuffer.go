package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Sizes of write buffers, in bytes.
const (
	minWriteBuffer = 1 << 10 // smaller data fits the driver's own buffer
	maxWriteBuffer = 1 << 20 // a larger buffer is not kept
)

// A writeBuffer is kept by a connection for the data that a pipe sends. The driver's own
// buffer grows by doubling and is dropped after each flush of more than 1 KiB: a batch of 200
// jobs allocates 1.5 MiB that way, half of all that a commit allocates. The two buffers are
// swapped before a pipe is written, and swapped back after it is sent, by a message without
// bytes: the driver offers no other access to its buffer.
type writeBuffer struct {
	buf  []byte // ours, between two pipes
	next []byte // what the driver gets at the next swap
	lent bool   // the driver has ours
}

var _ pgproto3.FrontendMessage = (*writeBuffer)(nil)

// writeBufferOf returns the write buffer of a connection.
func writeBufferOf(conn *pgconn.PgConn) *writeBuffer {
	const key = "pawl write buffer"
	b, ok := conn.CustomData()[key].(*writeBuffer)
	if !ok {
		b = new(writeBuffer)
		conn.CustomData()[key] = b
	}
	return b
}

// lend gives the driver the buffer for these calls, with room for all of them.
func (b *writeBuffer) lend(conn *pgconn.PgConn, calls []call) {
	size := sizeOf(calls)
	if size < minWriteBuffer {
		return
	}
	b.buf = slices.Grow(b.buf[:0], size)
	b.next, b.lent = b.buf, true
	conn.Frontend().Send(b)
}

// sizeOf returns about how many bytes the calls are on the wire.
func sizeOf(calls []call) (n int) {
	const around = 64 // bytes that the protocol adds to the parameters of a call
	for i := range calls {
		n += around + len(calls[i].statement.name)
		for _, p := range calls[i].params {
			n += 4 + len(p)
		}
	}
	return n
}

// takeBack returns the driver's own buffer to it, after a flush.
func (b *writeBuffer) takeBack(conn *pgconn.PgConn) {
	if !b.lent {
		return
	}
	conn.Frontend().Send(b)
	b.next, b.lent = nil, false
	if cap(b.buf) > maxWriteBuffer {
		b.buf = nil
	}
}

// Encode swaps the buffers.
func (b *writeBuffer) Encode(driver []byte) ([]byte, error) {
	next := append(b.next[:0], driver...)
	b.next = driver
	return next, nil
}

// Frontend marks a message that clients send.
func (b *writeBuffer) Frontend() {}

// Decode fails, since servers send no such message.
func (b *writeBuffer) Decode([]byte) error { return errors.New("a write buffer is not a message") }
