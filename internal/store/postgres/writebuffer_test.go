package postgres

import (
	"context"
	"errors"
	"testing"
)

// TestWriteBuffer: what is sent from a connection's write buffer arrives whole, whatever
// its size, and also after a pipe that was never sent; and no large buffer is kept.
func TestWriteBuffer(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	read := func(ctx context.Context, n int64) (clock int64, err error) {
		keys := make([]int64, n)
		for i := range keys {
			keys[i] = int64(i)
		}
		p := db.pipe(conn)
		p.add(readJobs, nil, nums(keys))
		p.add(now, func(c *cursor) { clock = c.num() })
		return clock, p.run(ctx)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int64{0, 1, 10_000, 1, 100_000, 10, 10_000} {
		if clock, err := read(t.Context(), n); err != nil || clock == 0 {
			t.Fatalf("%d keys: %v, the clock is %d", n, err, clock)
		}
		if _, err := read(ended, n); !errors.Is(err, context.Canceled) {
			t.Fatalf("%d keys in a context that has ended: %v", n, err)
		}
		if size := cap(writeBufferOf(conn.Conn().PgConn()).buf); size > maxWriteBuffer {
			t.Errorf("a buffer of %d bytes is kept, want at most %d", size, maxWriteBuffer)
		}
	}
}

// TestWriteBufferIsReused: a connection sends one batch after another without a new buffer
// for each.
func TestWriteBufferIsReused(t *testing.T) {
	db := fresh(t)
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	keys := nums(make([]int64, 20_000))
	send := func() {
		p := db.pipe(conn)
		p.add(readJobs, nil, keys)
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	send()
	before := &writeBufferOf(conn.Conn().PgConn()).buf[:1][0]
	send()
	if after := &writeBufferOf(conn.Conn().PgConn()).buf[:1][0]; after != before {
		t.Error("the second batch made another buffer")
	}
}
