package sqlite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Redacted data is overwritten in place: these transactions zero what they free
// (secure_delete). Free pages, and gaps within pages, may hold copies of rows from before
// other transactions changed or moved them: Scrub rewrites the file.

// Redact does one step of a redaction; see store.Redactor.
func (db *DB) Redact(ctx context.Context, r *store.Redaction, from store.RedactPlace) (done store.Redacted, err error) {
	w := db.writer
	if from.Stage == store.RedactLogs {
		if w, err = db.logs.open(ctx); err != nil {
			return done, err
		}
	}
	err = w.transact(ctx, func(c *conn) error {
		return c.zeroing(func() error {
			u := &redacting{conn: c, Redaction: r, from: from}
			err := u.stage()
			done = u.done
			return err
		})
	})
	return done, translate("redact", err)
}

// zeroing runs f so that everything that it frees is zeroed.
func (c *conn) zeroing(f func() error) (err error) {
	if err := c.ask("PRAGMA secure_delete = on", nil, ignore); err != nil {
		return err
	}
	defer func() {
		if e := c.ask("PRAGMA secure_delete = off", nil, ignore); err == nil {
			err = e
		}
	}()
	return f()
}

// Taken returns the signals that steps have taken; see store.Redactor.
func (db *DB) Taken(ctx context.Context, job rowkey.Job, from, to pawl.Ord) (seqs []int64, err error) {
	err = db.read(ctx, "read signals", func(c *conn) error {
		seqs = nil
		return c.ask("SELECT seq FROM signal WHERE job = ? AND taken BETWEEN ? AND ? ORDER BY seq", func(b *row) { b.ints(int64(job), int64(from), int64(to)) },
			func(cols *columns) { seqs = append(seqs, cols.int()) })
	})
	return seqs, err
}

// A redacting is one step.
type redacting struct {
	*conn
	*store.Redaction
	from store.RedactPlace
	done store.Redacted
}

func (u *redacting) stage() error {
	switch u.from.Stage {
	case store.RedactRecords:
		return u.records()
	case store.RedactSignals:
		return u.beside("signal", "seq", "taken", "data", "data IS NOT NULL", "UPDATE signal SET data = NULL")
	case store.RedactRefusals:
		return u.beside("refusal", "id", "ord", "data", "data IS NOT NULL", "UPDATE refusal SET data = NULL")
	case store.RedactLogs:
		return u.logs()
	}
	return u.entries()
}

// Conditions for records with bodies, and the size of the bodies of a step.
const (
	jobBodies  = "(inputs IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL OR metadata IS NOT NULL)"
	stepBodies = "(input IS NOT NULL OR output IS NOT NULL OR error IS NOT NULL)"
	stepSize   = "coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0)"
)

func (u *redacting) records() error {
	if u.from.Ord == 0 {
		u.next(true, store.RedactPlace{Ord: max(1, u.From-1)}) // no steps come before that one
		return u.job()
	}
	after := u.from.Ord
	last, full, err := u.page("SELECT ord, "+stepSize+" FROM step WHERE job = ? AND ord > ? AND ord <= ? AND "+stepBodies+" ORDER BY ord LIMIT ?",
		int64(u.Job), int64(after), int64(u.To), store.RedactRows)
	if err != nil {
		return err
	}
	u.done.Records += int64(last.Rows)
	u.next(full, store.RedactPlace{Stage: store.RedactRecords, Ord: pawl.Ord(last.key)})
	return u.exec("UPDATE step SET input = NULL, output = NULL, error = NULL WHERE job = ? AND ord > ? AND ord <= ? AND "+stepBodies, int64(u.Job), int64(after), last.key)
}

// job redacts the record of the job.
func (u *redacting) job() error {
	set, which := "inputs = NULL, output = NULL, error = NULL, metadata = NULL", jobBodies
	if !u.Whole() {
		if !u.Error {
			return nil
		}
		set, which = "error = NULL", "error IS NOT NULL"
	}
	if err := u.exec("UPDATE job SET "+set+" WHERE id = ? AND "+which, int64(u.Job)); err != nil {
		return err
	}
	u.done.Records += int64(u.Changes())
	return nil
}

// beside removes data from rows of a table beside the records, by its key: for the whole job,
// or for steps.
func (u *redacting) beside(table, key, ord, data, which, change string) error {
	where := " WHERE job = ? AND " + key + " > ? AND " + key + " <= ? AND (? = 0 OR " + ord + " BETWEEN ? AND ?) AND " + which
	args := func(to int64) []int64 {
		return []int64{int64(u.Job), u.from.Seq, to, int64(u.From), int64(u.From), int64(u.To)}
	}
	last, full, err := u.page("SELECT "+key+", octet_length("+data+") FROM "+table+where+" ORDER BY "+key+" LIMIT "+strconv.Itoa(store.RedactRows), args(math.MaxInt64)...)
	if err != nil {
		return err
	}
	u.done.Beside += int64(last.Rows)
	u.next(full, store.RedactPlace{Stage: u.from.Stage, Seq: last.key})
	return u.exec(change+where, args(last.key)...)
}

func (u *redacting) logs() error {
	n, size := 0, int64(0)
	err := u.ask("SELECT octet_length(data) FROM chunk WHERE job = ? AND ord BETWEEN ? AND ? ORDER BY ord, claim, stream, off LIMIT ?", func(b *row) {
		b.ints(int64(u.Job), int64(u.From), int64(u.To), store.RedactRows)
	}, func(cols *columns) {
		if size < store.RedactBytes {
			n++
			size += cols.int()
		}
	})
	if err != nil {
		return err
	}
	u.done.Beside += int64(n)
	u.next(n == store.RedactRows || size >= store.RedactBytes, u.from)
	return u.exec("DELETE FROM chunk WHERE (job, ord, claim, stream, off) IN"+
		" (SELECT job, ord, claim, stream, off FROM chunk WHERE job = ? AND ord BETWEEN ? AND ? ORDER BY ord, claim, stream, off LIMIT ?)",
		int64(u.Job), int64(u.From), int64(u.To), int64(n))
}

// entries redacts a page of rows of the trail. A row has entries of its own ord and of later
// ones.
func (u *redacting) entries() error {
	var rows []store.RedactRow
	page := store.RedactPage{}
	full := false
	err := u.ask("SELECT "+trailColumns+" FROM audit WHERE job = ? AND (ord, seq) > (?, ?) AND ord <= ? ORDER BY ord, seq LIMIT ?", func(b *row) {
		b.ints(int64(u.Job), int64(u.from.Ord), u.from.Seq, int64(u.To), store.RedactRows)
	}, func(cols *columns) {
		if full {
			return
		}
		r := store.RedactRow{Ord: pawl.Ord(cols.int()), Entry: cols.entry(), More: cols.body()}
		full = page.Take(int64(store.TrailBytes(&r.Entry) + len(r.More)))
		rows = append(rows, r)
	})
	if err != nil || len(rows) == 0 {
		u.next(false, u.from)
		return err
	}
	for i := range rows {
		r := &rows[i]
		n, err := u.Take(r)
		if err == nil && n > 0 {
			u.done.Entries += n
			err = u.rewrite(r)
		}
		if err != nil {
			return err
		}
	}
	last := &rows[len(rows)-1]
	u.next(full, store.RedactPlace{Stage: store.RedactEntries, Ord: last.Ord, Seq: last.Entry.Sequence})
	return nil
}

func (u *redacting) rewrite(r *store.RedactRow) error {
	s, err := u.Prepare("UPDATE audit SET reason = ?, metadata = ?, seals = ?, more = ? WHERE job = ? AND ord = ? AND seq = ?")
	if err != nil {
		return err
	}
	p := newPrepared(s)
	p.bind(func(b *row) {
		b.text(r.Entry.Reason)
		b.body(r.Entry.Metadata)
		b.bytes(r.Entry.AppendExtra(nil))
		b.body(r.More)
		b.ints(int64(u.Job), int64(r.Ord), r.Entry.Sequence)
	})
	return p.rows(func(*columns) error { return nil })
}

// next sets the place where the redaction continues.
func (u *redacting) next(full bool, at store.RedactPlace) {
	if u.done.Next = at; !full {
		u.done.After(u.from.Stage)
	}
}

// A redactPage holds the rows of a page, and the key of the last one.
type redactPage struct {
	store.RedactPage
	key int64
}

// page picks rows by key and size.
func (u *redacting) page(sql string, args ...int64) (p redactPage, full bool, err error) {
	err = u.ask(sql, func(b *row) { b.ints(args...) }, func(cols *columns) {
		if !full {
			p.key = cols.int()
			full = p.Take(cols.int())
		}
	})
	return p, full, err
}

func ignore(*columns) {}

// exec runs a statement that returns no rows.
func (c *conn) exec(sql string, args ...int64) error {
	return c.ask(sql, func(b *row) { b.ints(args...) }, ignore)
}

// maxVacuum bounds the size of a file that is rewritten after a redaction: others cannot write
// meanwhile, and the rewrite is in memory.
const maxVacuum = 256 << 20

// Scrub rewrites the files, since pages may hold copies of rows from before they were changed
// or moved, and empties their logs; see store.Redactor.
func (db *DB) Scrub(ctx context.Context, _ rowkey.Job) (advice string, err error) {
	if db.cfg.Path == memory {
		return "", nil
	}
	logs, err := db.logs.open(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range []*writer{db.writer, logs} {
		large := false
		err := w.outside(ctx, func(c *conn) error {
			size := int64(0)
			if err := c.ask("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", nil, func(cols *columns) { size = cols.int() }); err != nil {
				return err
			}
			if large = size > db.maxVacuum; large {
				return nil
			}
			return c.ask("VACUUM", nil, ignore)
		})
		if err == nil {
			err = w.truncate(ctx)
		}
		if err != nil {
			return "", translate("scrub", err)
		}
		if large {
			advice = fmt.Sprintf("the file is larger than %d MiB, and its pages may hold earlier copies: run VACUUM on it, and on the one of the logs, when nothing else uses them", db.maxVacuum>>20)
		}
	}
	return advice, nil
}

// truncate copies the log into the file and empties it, once no reader needs it.
func (w *writer) truncate(ctx context.Context) error {
	for start := time.Now(); ; {
		readers := false
		err := w.outside(ctx, func(c *conn) error {
			return c.ask("PRAGMA wal_checkpoint(TRUNCATE)", nil, func(cols *columns) { readers = cols.int() != 0 })
		})
		if err != nil || !readers {
			return err
		}
		if time.Since(start) > patience {
			return &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("readers have kept the log of the database for %s", patience)}
		}
		select {
		case <-time.After(shortWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outside runs f on the writing connection, outside of a transaction.
func (w *writer) outside(ctx context.Context, f func(*conn) error) error {
	if err := acquire(ctx, w.turn); err != nil {
		return err
	}
	if err := acquire(ctx, w.use); err != nil {
		<-w.turn
		return err
	}
	defer w.release()
	if w.conn == nil {
		return errClosed
	}
	w.conn.cache.forget()
	return patiently(ctx, func() error { return f(w.conn) })
}
