package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Redact does one step of a redaction; see store.Redactor. The server keeps the old rows, as
// dead rows, until they are vacuumed and their space is used again: see Scrub.
func (db *DB) Redact(ctx context.Context, r *store.Redaction, from store.RedactPlace) (store.Redacted, error) {
	u := &redacting{db: db, Redaction: r, from: from}
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		u.tx, u.done = tx, store.Redacted{}
		there := false
		err := u.query(ctx, "select id from job where id = $1 for update", func(*cursor) { there = true }, int64(r.Job))
		if err != nil || !there {
			u.done.Done = true // retention was faster
			return err
		}
		return u.stage(ctx)
	})
	return u.done, queryError("redact", err)
}

// Taken returns the signals that steps have taken; see store.Redactor.
func (db *DB) Taken(ctx context.Context, job rowkey.Job, from, to pawl.Ord) (seqs []int64, err error) {
	err = db.query(ctx, "read signals", "select seq from signal where job = $1 and taken between $2 and $3 order by seq",
		func(c *cursor) { seqs = append(seqs, c.num()) }, int64(job), int64(from), int64(to))
	return seqs, err
}

// A redacting is one step.
type redacting struct {
	*store.Redaction
	db   *DB
	tx   pgx.Tx
	from store.RedactPlace
	done store.Redacted
}

func (u *redacting) stage(ctx context.Context) error {
	switch u.from.Stage {
	case store.RedactRecords:
		return u.records(ctx)
	case store.RedactSignals:
		return u.beside(ctx, "signal", "seq", "taken")
	case store.RedactRefusals:
		return u.beside(ctx, "refusal", "id", "ord")
	case store.RedactLogs:
		return u.logs(ctx)
	}
	return u.entries(ctx)
}

func (u *redacting) query(ctx context.Context, sql string, row func(*cursor), args ...any) error {
	var fault error
	err := u.db.queryOn(ctx, u.tx, "redact", sql, func(c *cursor) {
		row(c)
		if fault == nil {
			fault = c.err
		}
	}, args...)
	if err == nil {
		err = fault
	}
	return err
}

func (u *redacting) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := u.tx.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// page picks rows by key and size.
func (u *redacting) page(ctx context.Context, sql string, args ...any) (last int64, full bool, err error) {
	var p store.RedactPage
	err = u.query(ctx, fmt.Sprintf("%s limit %d", sql, store.RedactRows), func(c *cursor) {
		if !full {
			last = c.num()
			full = p.Take(c.num())
		}
	}, args...)
	return last, full, err
}

// next sets the place where the redaction continues.
func (u *redacting) next(full bool, at store.RedactPlace) {
	if u.done.Next = at; !full {
		u.done.After(u.from.Stage)
	}
}

func (u *redacting) records(ctx context.Context) error {
	if u.from.Ord == 0 {
		u.next(true, store.RedactPlace{Ord: max(1, u.From-1)}) // no steps come before that one
		return u.job(ctx)
	}
	const which = " where job = $1 and ord > $2 and ord <= $3 and (input is not null or output is not null or error is not null)"
	after := int64(u.from.Ord)
	last, full, err := u.page(ctx, "select ord, coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0) + coalesce(octet_length(error), 0) from step"+which+
		" order by ord", int64(u.Job), after, int64(u.To))
	if err != nil {
		return err
	}
	u.next(full, store.RedactPlace{Stage: store.RedactRecords, Ord: pawl.Ord(last)})
	n, err := u.exec(ctx, "update step set input = null, output = null, error = null"+which, int64(u.Job), after, last)
	u.done.Records += n
	return err
}

// job redacts the record of the job.
func (u *redacting) job(ctx context.Context) error {
	sql := "update job set inputs = null, output = null, error = null, metadata = null where id = $1" +
		" and (inputs is not null or output is not null or error is not null or metadata is not null)"
	if !u.Whole() {
		if !u.Error {
			return nil
		}
		sql = "update job set error = null where id = $1 and error is not null"
	}
	n, err := u.exec(ctx, sql, int64(u.Job))
	u.done.Records += n
	return err
}

// beside removes data from rows of a table beside the records, by its key: for the whole job,
// or for steps.
func (u *redacting) beside(ctx context.Context, table, key, ord string) error {
	which := fmt.Sprintf(" where job = $1 and %[1]s > $2 and %[1]s <= $3 and ($4::bigint = 0 or %[2]s between $4 and $5) and data is not null", key, ord)
	args := func(to int64) []any { return []any{int64(u.Job), u.from.Seq, to, int64(u.From), int64(u.To)} }
	last, full, err := u.page(ctx, "select "+key+", octet_length(data) from "+table+which+" order by "+key, args(math.MaxInt64)...)
	if err != nil {
		return err
	}
	u.next(full, store.RedactPlace{Stage: u.from.Stage, Seq: last})
	n, err := u.exec(ctx, "update "+table+" set data = null"+which, args(last)...)
	u.done.Beside += n
	return err
}

func (u *redacting) logs(ctx context.Context) error {
	n, err := u.exec(ctx, fmt.Sprintf(`delete from log l using (select job, ord, claim, stream, off from log
where job = $1 and ord between $2 and $3 order by ord, claim, stream, off limit %d) k
where l.job = $1 and l.ord = k.ord and l.claim = k.claim and l.stream = k.stream and l.off = k.off`, store.RedactRows), int64(u.Job), int64(u.From), int64(u.To))
	u.done.Beside += n
	u.next(n == store.RedactRows, u.from)
	return err
}

// entries redacts a page of rows of the trail. A row has entries of its own ord and of
// later ones.
func (u *redacting) entries(ctx context.Context) error {
	var rows []store.RedactRow
	var page store.RedactPage
	full := false
	sql := fmt.Sprintf("select %s from audit where job = $1 and (ord, seq) > ($2, $3) and ord <= $4 order by ord, seq limit %d", names("", trailColumns[1:]), store.RedactRows)
	err := u.query(ctx, sql, func(c *cursor) {
		if full {
			return
		}
		r := store.RedactRow{Ord: pawl.Ord(c.num()), Entry: c.entry(), More: c.blob()}
		full = page.Take(int64(store.TrailBytes(&r.Entry) + len(r.More)))
		rows = append(rows, r)
	}, int64(u.Job), int64(u.from.Ord), u.from.Seq, int64(u.To))
	if err != nil || len(rows) == 0 {
		u.next(false, u.from)
		return err
	}
	var batch pgx.Batch
	for i := range rows {
		r := &rows[i]
		n, err := u.Take(r)
		if err != nil {
			return err
		}
		if n > 0 {
			u.done.Entries += n
			batch.Queue("update audit set reason = $4, metadata = $5, seals = $6, further = $7 where job = $1 and ord = $2 and seq = $3",
				int64(u.Job), int64(r.Ord), r.Entry.Sequence, storable(r.Entry.Reason), r.Entry.Metadata, r.Entry.AppendExtra(nil), textOrNull(r.More))
		}
	}
	last := &rows[len(rows)-1]
	u.next(full, store.RedactPlace{Stage: store.RedactEntries, Ord: last.Ord, Seq: last.Entry.Sequence})
	return u.tx.SendBatch(ctx, &batch).Close()
}

func textOrNull(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// scrubLimit bounds how long the tables are vacuumed.
const scrubLimit = 30 * time.Second

// Scrub vacuums the tables that hold data of a job, if the user may and it does not take long;
// see store.Redactor.
func (db *DB) Scrub(ctx context.Context, job rowkey.Job) (advice string, err error) {
	day := pawl.KeyTime(int64(job)).Format("20060102")
	var own, others []string
	err = db.query(ctx, "look for what is to be vacuumed", `select c.oid::regclass::text, pg_has_role(c.relowner, 'usage') from pg_class c
where c.relkind = 'r' and c.relnamespace = (select oid from pg_namespace where nspname = current_schema()) and c.relname = any($1) order by 1`, func(c *cursor) {
		if name := c.text(); c.flag() {
			own = append(own, name)
		} else {
			others = append(others, name)
		}
	}, []string{"job", "step", "signal", "refusal", "audit_rest", "log_rest", "audit_" + day, "log_" + day})
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, scrubLimit)
	defer cancel()
	for _, table := range own {
		if _, err := db.lookups.Exec(limited, "vacuum "+table); err != nil {
			if ctx.Err() != nil {
				return "", queryError("vacuum", err)
			}
			db.log.Warn("a table could not be vacuumed after a redaction", "table", table, "error", err)
			others = append(others, table)
		}
	}
	if len(others) == 0 {
		return "", nil
	}
	return "dead rows may still hold what was redacted: run VACUUM " + strings.Join(others, ", "), nil
}
