package sqlite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	// remoteBeatEvery is how often the beats of remote workers are written: all of that time
	// are one transaction. A beat waits for it, and has a third of the worker's silence, which
	// is 2 s or more.
	remoteBeatEvery = 500 * time.Millisecond
	// remoteBeatLimit bounds the wait for a place among the writers. Beats that get none have
	// failed.
	remoteBeatLimit = 2 * time.Second
)

// remoteBeats gathers the beats of workers that no process of this machine holds a lock for.
type remoteBeats struct {
	mu      sync.Mutex
	waiting *beatBatch  // nil: there is none
	timer   *time.Timer // writes it
	last    time.Time   // when the last one was written
}

// A beatBatch is beats that are written together. Its err is set when done is closed.
type beatBatch struct {
	at   map[rowkey.Worker]int64
	done chan struct{}
	err  error
}

// remoteBeat returns once the beat is written: a beat that got a reply is in the database.
func (db *DB) remoteBeat(ctx context.Context, worker rowkey.Worker) error {
	b := db.remoteBeats.add(worker, db.now(), db.writeBeats)
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *remoteBeats) add(worker rowkey.Worker, at int64, write func()) *beatBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = &beatBatch{at: make(map[rowkey.Worker]int64), done: make(chan struct{})}
		r.timer = time.AfterFunc(max(0, time.Until(r.last.Add(remoteBeatEvery))), write)
	}
	r.waiting.at[worker] = at
	return r.waiting
}

// take returns the batch that waits, or nil.
func (r *remoteBeats) take() *beatBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.waiting
	if b != nil {
		r.timer.Stop()
		r.waiting, r.last = nil, time.Now()
	}
	return b
}

// close fails the beats that wait.
func (r *remoteBeats) close() {
	if b := r.take(); b != nil {
		b.err = errClosed
		close(b.done)
	}
}

func (db *DB) writeBeats() {
	b := db.remoteBeats.take()
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), remoteBeatLimit)
	defer cancel()
	b.err = translate("write beats", db.updateBeats(ctx, b.at))
	close(b.done)
}

// updateBeats keeps the cache of the writer, which has none of these rows.
func (db *DB) updateBeats(ctx context.Context, at map[rowkey.Worker]int64) error {
	c, err := db.writer.begin(ctx)
	if err != nil {
		return err
	}
	defer db.writer.end()
	for worker, at := range at {
		if err := c.run(updateRemoteBeat, func(b *row) { b.ints(at, int64(worker)) }); err != nil {
			return err
		}
	}
	return db.writer.commit()
}

// remoteBeatOf returns the last beat of a remote worker, or 0.
func remoteBeatOf(c *conn, worker rowkey.Worker) (at int64, err error) {
	err = c.each(selectRemoteBeat, func(b *row) { b.int(int64(worker)) }, func(cols *columns) error {
		at = cols.int()
		return nil
	})
	return at, err
}

// turns reads the turns of remote workers. A transaction that writes has the file to itself.
func (r *reading) turns(q *store.Query) error {
	for _, k := range q.Turns {
		err := r.c.each(selectTurn, func(b *row) { b.int(int64(k)) }, func(c *columns) error {
			r.f.Turns[k] = store.Turn{Number: c.int(), Tries: c.int()}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeTurns(c *conn, f *store.Facts, ch *store.Changes) error {
	for worker, t := range ch.Turns {
		err := c.run(upsertTurn, func(b *row) { b.ints(int64(worker), t.Number, t.Tries, f.Now) })
		if err != nil {
			return fmt.Errorf("set the turn of worker %d: %w", worker, err)
		}
	}
	return nil
}
