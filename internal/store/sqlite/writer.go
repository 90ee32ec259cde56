package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/store"
)

// A writer owns the connection that writes.
type writer struct {
	turn  chan struct{} // full while a write transaction is in progress; first come, first served
	use   chan struct{} // full while the connection is in use; for a database in memory, reads take it too
	conn  *conn         // nil once closed
	queue *queueFile    // nil: no other process writes
	last  time.Time     // end of the last transaction
	asked time.Time     // when other waiting processes were last checked for
}

func newWriter(c *conn, q *queueFile) *writer {
	c.cache = newRowCache()
	return &writer{turn: make(chan struct{}, 1), use: make(chan struct{}, 1), conn: c, queue: q}
}

// yield is how long a process in a tight loop of transactions pauses when others wait; it
// exceeds their longest first pause.
const yield = 2 * firstPause

// tight is the longest gap between the transactions of a tight loop, and the shortest between
// two checks for others.
const tight = time.Millisecond

// acquire takes a place in ch.
func acquire(ctx context.Context, ch chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case ch <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin starts a write transaction, which end must follow. The connection is in use; see rest.
func (w *writer) begin(ctx context.Context) (*conn, error) {
	if err := acquire(ctx, w.turn); err != nil {
		return nil, err
	}
	if err := acquire(ctx, w.use); err != nil {
		<-w.turn
		return nil, err
	}
	if w.conn == nil {
		w.release()
		return nil, errClosed
	}
	if err := w.immediate(ctx); err != nil {
		w.release()
		return nil, translate("begin", err)
	}
	return w.conn, nil
}

func (w *writer) release() {
	<-w.use
	<-w.turn
}

// immediate takes the write lock of the file, fairly among processes.
func (w *writer) immediate(ctx context.Context) error {
	if now := time.Now(); w.queue != nil && now.Sub(w.last) < tight && now.Sub(w.asked) >= tight {
		w.asked = now
		if w.queue.others() {
			time.Sleep(yield)
		}
	}
	err := w.conn.run(begin, nil)
	if !busy(err) {
		return err
	}
	if w.queue != nil {
		defer w.queue.enter()()
	}
	return patiently(ctx, func() error { return w.conn.run(begin, nil) })
}

// rest lets others read through the connection while f runs. The transaction must not have
// written anything.
func (w *writer) rest(f func()) {
	<-w.use
	defer func() { w.use <- struct{}{} }()
	f()
}

// commit commits the transaction. It returns ErrUnknown if the outcome is not known.
func (w *writer) commit() error {
	err := w.conn.run(commit, nil)
	if err == nil {
		return nil
	}
	if primary(err) == sqlite.ResultIOErr {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return translate("commit", err)
}

// end rolls back what was not committed and passes the turn on. It reports whether there was
// something to roll back.
func (w *writer) end() bool {
	open := !w.conn.AutocommitEnabled()
	if open {
		w.conn.run(rollback, nil) // after an error there is nothing to roll back either
	}
	w.last = time.Now()
	w.release()
	return open
}

// transact clears the cache and runs f in a write transaction.
func (w *writer) transact(ctx context.Context, f func(*conn) error) error {
	c, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.end()
	c.cache.forget()
	if err := f(c); err != nil {
		return err
	}
	return w.commit()
}

func (w *writer) close() error {
	w.turn <- struct{}{}
	w.use <- struct{}{}
	defer w.release()
	if w.conn == nil {
		return nil
	}
	err := w.conn.close()
	w.conn = nil
	if w.queue != nil {
		w.queue.close()
	}
	return err
}

// Transactions sets no bound: callers that wait for the writer hold nothing, and views have
// connections of their own.
func (db *DB) Transactions() int { return 0 }
