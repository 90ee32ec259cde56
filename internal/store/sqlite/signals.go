package sqlite

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

func (c *columns) signal() *pawl.Signal {
	s := &pawl.Signal{Job: rowkey.Job(c.int()), Seq: c.int(), Name: c.text()}
	s.At, s.Actor = c.int(), c.text()
	s.Taken = pawl.Ord(c.int())
	s.Data = c.body()
	return s
}

// signals returns the signals that s reads.
func (c *conn) signals(s statement, args ...int64) ([]*pawl.Signal, error) {
	var signals []*pawl.Signal
	err := c.each(s, func(b *row) { b.ints(args...) }, func(cols *columns) error {
		signals = append(signals, cols.signal())
		return nil
	})
	return signals, err
}

// signals reads the signals of jobs that no step has taken.
func (r *reading) signals(q *store.Query) (err error) {
	for _, k := range q.Signals {
		if r.f.Signals[k], err = r.c.signals(selectFreeSignals, int64(k), store.MaxSignals); err != nil {
			return err
		}
	}
	for _, k := range q.Untaken {
		err := r.c.each(countFreeSignals, func(b *row) { b.ints(int64(k), store.MaxSignals) }, func(cols *columns) error {
			r.f.Untaken[k] = store.Untaken{Count: int(cols.int()), Bytes: int(cols.int())}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSignals stores new signals, and which step took one. A signal that is already taken is
// ErrStale.
func writeSignals(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, s := range ch.NewSignals {
		err := c.run(insertSignal, func(r *row) {
			r.ints(int64(s.Job), s.Seq)
			r.text(s.Name)
			r.int(s.At)
			r.text(s.Actor)
			r.int(int64(s.Taken))
			r.body(s.Data)
		})
		if err != nil {
			return inserted(err, "signal", fmt.Sprintf("%d of job %d", s.Seq, s.Job))
		}
	}
	for _, s := range ch.Taken {
		err := c.run(takeSignal, func(r *row) { r.ints(int64(s.Taken), int64(s.Job), s.Seq) })
		if err != nil {
			return fmt.Errorf("take signal %d of job %d: %w", s.Seq, s.Job, err)
		}
		if c.Changes() == 0 {
			return fmt.Errorf("signal %d of job %d is taken or gone: %w", s.Seq, s.Job, store.ErrStale)
		}
	}
	return nil
}

// Signals reads the signals of a job that no step has taken, by seq, without data.
func (db *DB) Signals(ctx context.Context, job rowkey.Job) ([]*pawl.Signal, error) {
	var signals []*pawl.Signal
	err := db.read(ctx, "list signals", func(c *conn) (err error) {
		signals, err = c.signals(selectSignals, int64(job), store.MaxSignals)
		return err
	})
	return signals, err
}
