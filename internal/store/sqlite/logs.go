package sqlite

import (
	"context"
	"io/fs"
	"math"
	"sync"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// The schema of the second database. Chunks are stored in the order in which they were
// written, and read by job and step.
const logSchema = `
CREATE TABLE IF NOT EXISTS chunk (
  job    INTEGER NOT NULL,
  ord    INTEGER NOT NULL,
  claim  INTEGER NOT NULL,
  stream TEXT    NOT NULL,
  off    INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  data   BLOB    NOT NULL,
  PRIMARY KEY (job, ord, claim, stream, off)
) STRICT;`

// logs is the database of the output of steps, opened when it is first needed. It is always
// NORMAL, whatever the ledger is: a loss of power may lose the last lines.
type logs struct {
	path string
	mode fs.FileMode // of a new file

	mu     sync.Mutex
	writer *writer
	closed bool
}

func (l *logs) open(ctx context.Context) (*writer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errClosed
	}
	if l.writer != nil {
		return l.writer, nil
	}
	create(l.path, l.mode)
	c, err := connect(ctx, l.path, Normal, readerKiB)
	if err != nil {
		return nil, err
	}
	w := newWriter(c, nil)
	err = w.transact(ctx, func(c *conn) error { return sqlitex.ExecuteScript(c.Conn, logSchema, nil) })
	if err != nil {
		c.close()
		return nil, translate("open "+l.path, err)
	}
	l.writer = w
	return w, nil
}

func (l *logs) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.writer == nil {
		return nil
	}
	return l.writer.close()
}

// change runs f in a write transaction of the logs.
func (l *logs) change(ctx context.Context, f func(*conn) error) error {
	w, err := l.open(ctx)
	if err != nil {
		return err
	}
	return translate("write logs", w.transact(ctx, f))
}

// AppendLogs stores chunks. A chunk that was stored before is replaced.
func (db *DB) AppendLogs(ctx context.Context, chunks []pawl.Chunk) error {
	if len(chunks) == 0 {
		return nil
	}
	return db.logs.change(ctx, func(c *conn) error {
		for i := range chunks {
			h := &chunks[i]
			err := c.run(insertChunk, func(r *row) {
				r.ints(int64(h.Job), int64(h.Ord), int64(h.Claim))
				r.text(h.Stream)
				r.ints(h.Offset, h.At)
				r.blob(h.Data)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Logs reads a page of the chunks of a job, or of one step of it: first their places, in
// order, then the data of as many as fit.
func (db *DB) Logs(ctx context.Context, job rowkey.Job, ord pawl.Ord, after store.LogPlace, limit int) ([]pawl.Chunk, error) {
	w, err := db.logs.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := acquire(ctx, w.use); err != nil {
		return nil, err
	}
	defer func() { <-w.use }()
	if w.conn == nil {
		return nil, errClosed
	}
	var chunks []pawl.Chunk
	err = patiently(ctx, func() error {
		chunks, err = logPageOf(w.conn, job, ord, after, limit)
		return err
	})
	return chunks, translate("read logs", err)
}

func logPageOf(c *conn, job rowkey.Job, ord pawl.Ord, after store.LogPlace, limit int) (chunks []pawl.Chunk, err error) {
	last := ord
	if ord == 0 {
		last = math.MaxInt64
	} else if after.Ord < ord {
		after = store.LogPlace{Ord: ord}
	}
	err = c.each(selectChunks, func(b *row) {
		b.ints(int64(job), int64(last), int64(after.Ord), int64(after.Claim), after.At, after.Offset)
		b.text(after.Stream)
		b.int(int64(limit))
	}, func(cols *columns) error {
		h := pawl.Chunk{StepKey: pawl.StepKey{Job: job, Ord: pawl.Ord(cols.int())}}
		h.Claim, h.Stream = int(cols.int()), cols.text()
		h.Offset, h.At = cols.int(), cols.int()
		chunks = append(chunks, h)
		return nil
	})
	for i, bytes := 0, 0; i < len(chunks) && err == nil; i++ {
		h := &chunks[i]
		err = c.each(selectChunk, func(b *row) {
			b.ints(int64(job), int64(h.Ord), int64(h.Claim))
			b.text(h.Stream)
			b.int(h.Offset)
		}, func(cols *columns) error {
			h.Data = cols.blob()
			return nil
		})
		if bytes += len(h.Data); bytes >= store.PageBytes {
			return chunks[:i+1], err
		}
	}
	return chunks, err
}

// logPage is how many jobs with logs are checked in one step.
const logPage = 500

// jobs returns the first jobs after a key, up to another, that have logs.
func (l *logs) jobs(ctx context.Context, after, to rowkey.Job) (jobs []rowkey.Job, err error) {
	err = l.change(ctx, func(c *conn) error {
		jobs = nil
		for more := true; more && len(jobs) < logPage; {
			more = false
			err := c.each(selectNextLog, func(b *row) { b.ints(int64(after), int64(to)) }, func(cols *columns) error {
				after, more = rowkey.Job(cols.int()), true
				jobs = append(jobs, after)
				return cols.finish()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return jobs, err
}

// remove removes the logs of jobs, in transactions of a limited number of chunks.
func (l *logs) remove(ctx context.Context, jobs []rowkey.Job) error {
	for len(jobs) > 0 {
		err := l.change(ctx, func(c *conn) error {
			for left := retainRows; left > 0 && len(jobs) > 0; {
				if err := c.run(removeChunks, func(b *row) { b.ints(int64(jobs[0]), int64(left)) }); err != nil {
					return err
				}
				if left -= c.Changes(); left > 0 {
					jobs = jobs[1:]
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
