package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
)

// TestRoom: what is sent from a connection's room arrives whole, small or large, and
// also after a pipe that was never sent.
func TestRoom(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	answer := func(ctx context.Context, n int64) (read int64, err error) {
		vs := make([]int64, n)
		for i := range vs {
			vs[i] = int64(i)
		}
		p := db.pipe(conn)
		p.add(readJobs, nil, nums(vs))
		p.add(now, func(c *cursor) { read = c.num() })
		return read, p.run(ctx)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int64{0, 1, 10_000, 1, 100_000, 10, 10_000} {
		if now, err := answer(t.Context(), n); err != nil || now == 0 {
			t.Fatalf("%d parameters: %v, the clock is %d", n, err, now)
		}
		if _, err := answer(ended, n); !errors.Is(err, context.Canceled) {
			t.Fatalf("%d parameters in a context that has ended: %v", n, err)
		}
		if size := cap(roomOf(conn.Conn().PgConn()).buf); size > mostRoom {
			t.Errorf("a buffer of %d bytes is kept, want at most %d", size, mostRoom)
		}
	}
}

// TestRows: columns that outgrow the room they were given do not touch each other.
func TestRows(t *testing.T) {
	t.Parallel()
	r := collect(columns("bigint a, text b, bytea c, bool d, text e"), 1)
	long := bytes.Repeat([]byte("x"), 100)
	for i := range int64(3) {
		r.num(i)
		r.text(string(long))
		r.blob(long)
		r.flag(true)
		r.body(nil)
	}
	for i, size := range []int{8, 100, 100, 1, -1} {
		p := r.params()[i]
		if n := binary.BigEndian.Uint32(p[12:]); n != 3 || r.len() != 3 {
			t.Errorf("column %d has %d elements of %d rows, want 3", i, n, r.len())
		}
		for rest := p[arrayHeader:]; len(rest) > 0; {
			if got := int(int32(binary.BigEndian.Uint32(rest))); got != size {
				t.Fatalf("column %d has an element of %d bytes, want %d", i, got, size)
			}
			rest = rest[4+max(size, 0):]
		}
	}
	if none := collect(columns("bigint a, text b"), 0).params(); len(none) != 2 || len(none[0]) != 12 {
		t.Errorf("no rows are %d columns, of %v; want 2 empty arrays", len(none), none)
	}
}
