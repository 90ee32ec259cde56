package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

const joinedNames = "a *sql.Tx on the SQLite file of this client"

// DoIn writes within a user's transaction, through the user's driver; see store.Joiner. SQLite
// has one writer at a time, so all others wait until the transaction ends. Its commit wakes no
// process.
func (db *DB) DoIn(ctx context.Context, tx any, q *store.Query, _ []store.Topic, decide func(*store.Facts) (*store.Changes, error)) error {
	out, ok := tx.(*sql.Tx)
	switch {
	case !ok || out == nil:
		return store.NotJoined(tx, joinedNames)
	case db.file == nil:
		return pawl.Errorf(pawl.Invalid, "transaction: the database of this client is in memory, where no other connection reaches it: want one on a file")
	}
	c := &conn{outer: &outer{ctx: ctx, tx: out}, cache: newRowCache()}
	if err := c.outer.on(db.file); err != nil {
		return joinedError("join the transaction", err)
	}
	facts, err := db.facts(c, withJobs(q))
	if err != nil {
		return joinedError("read in the transaction", err)
	}
	ch, err := decide(facts)
	if err != nil || ch == nil {
		return err
	}
	if err := store.CheckJoined(ch); err != nil {
		return err
	}
	return joinedError("write in the transaction", write(c, facts, ch))
}

// withJobs returns the keys and steps of a query, and the jobs of the steps.
func withJobs(q *store.Query) *store.Query {
	all := &store.Query{Keys: q.Keys, Steps: q.Steps}
	for _, s := range q.Steps {
		all.Jobs = append(all.Jobs, s.Job)
	}
	return all
}

// An outer is a user's transaction. It executes statements for a conn.
type outer struct {
	ctx     context.Context // of the one call
	tx      *sql.Tx
	changed int // rows, by the last statement
}

// on checks that the transaction is on a file.
func (o *outer) on(file os.FileInfo) error {
	path := ""
	err := o.each("SELECT file FROM pragma_database_list WHERE name = 'main'", nil, func(c *columns) error {
		path = c.text()
		return nil
	})
	if err != nil && coded(err) == 0 && !errors.Is(err, sql.ErrTxDone) && o.ctx.Err() == nil { // of another database
		return &pawl.Error{Kind: pawl.Invalid, Message: "join the transaction: want " + joinedNames, Err: err}
	}
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, file) {
		return pawl.Errorf(pawl.Invalid, "transaction: it is on the file %q: want %s", path, joinedNames)
	}
	return nil
}

// run executes a statement that returns no rows.
func (o *outer) run(text string, bind func(*row)) error {
	args, err := arguments(bind)
	if err != nil {
		return err
	}
	done, err := o.tx.ExecContext(o.ctx, text, args...)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	o.changed = int(n)
	return err
}

// each executes a statement and passes its rows to f, until f fails.
func (o *outer) each(text string, bind func(*row), f func(*columns) error) (err error) {
	args, err := arguments(bind)
	if err != nil {
		return err
	}
	rows, err := o.tx.QueryContext(o.ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	c, into := &columns{vals: make(values, len(names))}, make([]any, len(names))
	for i := range into {
		into[i] = &c.vals[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		c.n = 0
		if err := errors.Join(f(c), c.finish()); err != nil {
			return err
		}
	}
	return rows.Err()
}

// arguments returns the parameters that a function binds.
func arguments(bind func(*row)) ([]any, error) {
	var r row
	if bind != nil {
		bind(&r)
	}
	return r.args, r.fault
}

// values are the columns of a row as database/sql returns them.
type values []any

func (v values) int(col int) int64 {
	n, _ := v[col].(int64)
	return n
}

func (v values) bytes(col int) []byte {
	switch value := v[col].(type) {
	case []byte:
		return value
	case string:
		return []byte(value)
	}
	return nil
}

// joinedError describes the failure of a statement in a user's transaction.
func joinedError(doing string, err error) error {
	var known *pawl.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, sql.ErrTxDone) {
		return &pawl.Error{Kind: pawl.Conflict, Message: "the transaction has ended", Err: err}
	}
	switch coded(err) {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return &pawl.Error{Kind: pawl.Unavailable, Message: doing + ": another transaction writes", Err: err,
			Hint: "roll the transaction back and run it again; begin it with BEGIN IMMEDIATE and a busy timeout"}
	case sqlite.ResultReadOnly:
		return &pawl.Error{Kind: pawl.Invalid, Message: "the transaction is read-only", Err: err}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// coded returns the code of an error of a driver that is built on modernc.org/sqlite, or 0.
func coded(err error) sqlite.ResultCode {
	var c interface{ Code() int }
	if !errors.As(err, &c) {
		return sqlite.ResultOK
	}
	return sqlite.ResultCode(c.Code()).ToPrimary()
}
