package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Writes in a user's transaction go through the user's driver, in whatever mode it sends
// statements. The statements are those of the store's own transactions, with the arrays
// written as text, which every driver can send, and with rows that are returned as one value.

// The statements of a joined transaction. They replace the user's search path for its
// duration, since that may lead to other tables; temporary tables come last.
const (
	joinedNames = "a pgx.Tx or a *sql.Tx on the PostgreSQL database of this client"

	// joinTx returns the user's search path, the clock and which database this is.
	joinTx = "with was as materialized (select current_setting('search_path') as path) select path, " + clock + ", " + whichDatabase +
		", set_config('search_path', $1::text, true) from was"

	// leaveTx restores the search path, and wakes the listeners with the commit.
	leaveTx = "select set_config('search_path', $1::text, true), (select count(pg_notify($2::text, p)::text) from unnest($3::text[]) p)"

	// whichDatabase distinguishes databases of all servers.
	whichDatabase = "current_database() || ' ' || " + startOfServer

	// outerHandle is the sender of the hints that come with a user's commit: no handle.
	outerHandle = "tx"
)

// The step of a report, locked, and the id of its job.
var readReported = "select " + names("s", stepTable.plain) + ", j.uuid from unnest($1::bigint[], $2::bigint[]) u(job, ord)" +
	" join step s on s.job = u.job and s.ord = u.ord join job j on j.id = s.job for update of s"

// An outer is a user's transaction.
type outer interface {
	exec(ctx context.Context, statement string, args ...any) error
	// query calls row with the rows of a statement that returns one value, of bytes.
	query(ctx context.Context, statement string, row func([]byte) error, args ...any) error
}

// outerOf returns tx as an outer, or nil.
func outerOf(tx any) outer {
	switch tx := tx.(type) {
	case pgx.Tx:
		return pgxTx{tx}
	case *sql.Tx:
		if tx != nil {
			return sqlTx{tx}
		}
	}
	return nil
}

type pgxTx struct{ tx pgx.Tx }

func (t pgxTx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.tx.Exec(ctx, statement, args...)
	return err
}

func (t pgxTx) query(ctx context.Context, statement string, row func([]byte) error, args ...any) error {
	rows, err := t.tx.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	var value []byte
	_, err = pgx.ForEachRow(rows, []any{&value}, func() error { return row(value) })
	return err
}

type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.tx.ExecContext(ctx, statement, args...)
	return err
}

func (t sqlTx) query(ctx context.Context, statement string, row func([]byte) error, args ...any) (err error) {
	rows, err := t.tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var value []byte
		if err := rows.Scan(&value); err != nil {
			return err
		}
		if err := row(value); err != nil {
			return err
		}
	}
	return rows.Err()
}

// DoIn writes within a user's transaction; see store.Joiner. A definition is stored
// beforehand, in a transaction of the handle: otherwise another user with the same definition
// would have to wait until this transaction ends.
func (db *DB) DoIn(ctx context.Context, tx any, q *store.Query, wake []store.Topic, decide func(*store.Facts) (*store.Changes, error)) error {
	out := outerOf(tx)
	if out == nil {
		return store.NotJoined(tx, joinedNames)
	}
	j := &joined{db: db, tx: out, ctx: ctx}
	if err := j.begin(); err != nil {
		return joinedError("join the transaction", err)
	}
	if err := j.read(q); err != nil {
		return joinedError("read in the transaction", err)
	}
	ch, err := decide(j.facts)
	if err != nil {
		return err
	}
	if ch == nil {
		ch, wake = new(store.Changes), nil
	}
	if err := store.CheckJoined(ch); err != nil {
		return err
	}
	if err := db.define(ctx, ch.Definitions); err != nil {
		return err
	}
	if err := j.write(ch); err != nil {
		return joinedError("write in the transaction", err)
	}
	return joinedError("leave the transaction", j.end(wake))
}

// define stores definitions.
func (db *DB) define(ctx context.Context, list []*pawl.Definition) error {
	if len(list) == 0 {
		return nil
	}
	return db.Do(ctx, new(store.Query), func(*store.Facts) (*store.Changes, error) {
		return &store.Changes{Definitions: list}, nil
	})
}

// A joined is the store's part of a user's transaction.
type joined struct {
	db    *DB
	tx    outer
	ctx   context.Context // of the one call
	path  string          // the user's search path
	facts *store.Facts
}

// begin sets the search path, reads the clock, and checks that the transaction is on the
// database of the handle.
func (j *joined) begin() error {
	j.facts = &store.Facts{Keys: map[store.IdempotencyKey]*store.Answer{}, Jobs: map[rowkey.Job]*pawl.Job{}, Steps: map[pawl.StepKey]*pawl.Step{}}
	var which string
	err := j.rows(joinTx, func(c *cursor) { j.path, j.facts.Now, which = c.word(), c.num(), c.word() },
		pgx.Identifier{j.db.name}.Sanitize()+", pg_temp")
	if err != nil && code(err) == "" && !over(err) && !cut(err) && j.ctx.Err() == nil { // of another database
		return &pawl.Error{Kind: pawl.Invalid, Message: "join the transaction: want " + joinedNames + ", of which no rows are open", Err: err}
	}
	if err != nil {
		return err
	}
	own, err := j.db.which(j.ctx, which)
	if err == nil && own != which {
		err = pawl.Errorf(pawl.Invalid, "transaction: it is on the database %s: want %s", which, joinedNames)
	}
	return err
}

// which returns the database of the handle, most likely the expected one.
func (db *DB) which(ctx context.Context, expected string) (string, error) {
	if own := db.own.Load(); own != nil && *own == expected {
		return expected, nil
	}
	var own string
	if err := db.query(ctx, "ask the server for its start", "select "+whichDatabase, func(c *cursor) { own = c.word() }); err != nil {
		return "", err
	}
	db.own.Store(&own)
	return own, nil
}

// read reads the keys and steps of a query, locked.
func (j *joined) read(q *store.Query) error {
	if len(q.Keys) > 0 {
		if err := j.keys(q.Keys); err != nil {
			return err
		}
	}
	if len(q.Steps) == 0 {
		return nil
	}
	k := collect(stepTable.key, len(q.Steps))
	for _, s := range q.Steps {
		k.num(int64(s.Job))
		k.num(int64(s.Ord))
	}
	return j.rows(readReported, func(c *cursor) {
		s, job := stepTable.read(c), new(pawl.Job)
		c.fixed(job.ID[:])
		j.facts.Steps[s.StepKey], j.facts.Jobs[s.Job] = s, job
	}, k.literals()...)
}

// keys takes the unused keys, and reads the answers to the others.
func (j *joined) keys(list []store.IdempotencyKey) error {
	r := newReading(&store.Query{Keys: list})
	r.Facts = j.facts
	k := collect(answerColumns[:2], len(list))
	for _, key := range r.distinctKeys() {
		k.text(key.Workspace)
		k.text(key.Key)
	}
	if err := j.rows(lockKeys.sql, func(*cursor) {}, k.literals()...); err != nil {
		return err
	}
	if err := j.rows(takeLocked.sql, r.taken, k.literals()...); err != nil {
		return err
	}
	return j.rows(readKeys.sql, r.answer, k.literals()...)
}

// write writes the changes, except definitions.
func (j *joined) write(ch *store.Changes) error {
	jobs, errJobs := jobTable.rowsOf(ch.NewJobs)
	steps, errSteps := stepTable.rowsOf(ch.NewSteps)
	moved := collect(stepTable.change, len(ch.Steps))
	err := errors.Join(errJobs, errSteps)
	for _, u := range ch.Steps {
		err = errors.Join(err, stepTable.addChange(moved, u.Record, u.Was))
	}
	if err != nil {
		return err
	}
	entries := make([]*store.Entry, len(ch.Entries))
	for i := range ch.Entries {
		entries[i] = &ch.Entries[i]
	}
	packed := store.Pack(entries)
	answers := collect(answerColumns, len(ch.Answers))
	workspaces, keys := answerRows(answers, j.facts, ch.Answers)
	unused := collect(answerColumns[:2], len(keys))
	for i := range keys {
		unused.text(workspaces[i])
		unused.text(keys[i])
	}
	for _, w := range []struct {
		*statement
		*rows
		more []any
	}{
		{newJobs, jobs, nil}, {newSteps, steps, nil}, {setSteps, moved, []any{int64(len(ch.Steps))}},
		{newEntries, packedRows(nil, packed, false, false), nil}, {setAnswers, answers, nil}, {dropKeys, unused, nil},
	} {
		if w.len() == 0 {
			continue
		}
		if err := j.tx.exec(j.ctx, w.sql, append(w.literals(), w.more...)...); err != nil {
			return err
		}
	}
	if fed := store.FeedRowsOf(packed, ch.Entries); fed != nil {
		return j.tx.exec(j.ctx, feedJoined, j.facts.Now, hex.EncodeToString(fed))
	}
	return nil
}

// end restores the search path, and wakes the listeners with the commit.
func (j *joined) end(wake []store.Topic) error {
	payloads := make([]string, len(wake))
	for i, topic := range wake {
		payloads[i] = outerHandle + " " + string(topic)
	}
	return j.tx.exec(j.ctx, leaveTx, j.path, j.db.channel, textsOf(payloads).literal())
}

// rows runs a statement and calls row with each row that it returns. A row that cannot be
// decoded is the error.
func (j *joined) rows(statement string, row func(*cursor), args ...any) error {
	statement = "with r as (" + statement + ") select record_send(r) from r"
	return j.tx.query(j.ctx, statement, func(record []byte) error {
		c, err := openRecord(record)
		if err == nil {
			row(c)
			err = c.err
		}
		return err
	}, args...)
}

// openRecord returns the values of a row in PostgreSQL's binary form of rows: their number,
// and each with its type and its length (or -1).
func openRecord(b []byte) (*cursor, error) {
	short := fmt.Errorf("a row of %d bytes is cut off", len(b))
	if len(b) < 4 {
		return nil, short
	}
	c := &cursor{vals: make([][]byte, binary.BigEndian.Uint32(b))}
	b = b[4:]
	for i := range c.vals {
		if len(b) < 8 {
			return nil, short
		}
		size := int(int32(binary.BigEndian.Uint32(b[4:])))
		if b = b[8:]; size < 0 {
			continue
		}
		if len(b) < size {
			return nil, short
		}
		c.vals[i], b = b[:size:size], b[size:]
	}
	return c, nil
}

// joinedError describes the failure of a statement in a user's transaction.
func joinedError(doing string, err error) error {
	var known *pawl.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &pawl.Error{Kind: pawl.Internal, Message: doing, Err: err}
	switch c := code(err); {
	case over(err):
		e.Kind, e.Message = pawl.Conflict, "the transaction has ended"
	case c == codeFailed:
		e.Kind, e.Message = pawl.Conflict, "the transaction has failed before"
	case c == codeReadOnly:
		e.Kind, e.Message = pawl.Invalid, "the transaction is read-only"
	case c == codeSerialization, c == codeDeadlock, c == codeLockTimeout:
		e.Kind, e.Hint = pawl.Unavailable, "roll the transaction back and run it again"
	case cut(err):
		e.Kind = pawl.Unavailable
	}
	return e
}

// over reports whether a transaction has ended.
func over(err error) bool { return errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone) }

// cut reports whether a driver has lost its connection.
func cut(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn)
}
