package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Sizes of a connection's cache, and of the log between checkpoints. What a cache lacks is in
// the operating system's.
const (
	writerKiB       = 24 << 10
	readerKiB       = 4 << 10  // of each of maxReaders, and of the logs
	pageBytes       = 8 << 10  // of a new file; an older one keeps its pages of 4 KiB
	checkpointPages = 2000     // more spreads the cost of a checkpoint over more commits
	logSizeLimit    = 64 << 20 // bytes that the -wal file shrinks back to
)

// A conn is a connection with its prepared statements, or a user's transaction. Only one
// goroutine at a time uses it.
type conn struct {
	*sqlite.Conn
	prepared [statementCount]*prepared
	cache    *rowCache // for a connection that writes
	outer    *outer    // the user's transaction; if set, the fields above except cache are empty
}

// A prepared is a prepared statement and its bindings.
type prepared struct {
	*sqlite.Stmt
	row  row
	cols columns
}

func newPrepared(s *sqlite.Stmt) *prepared {
	return &prepared{Stmt: s, row: row{s: s}, cols: columns{s: s}}
}

// connect opens a connection to an existing file, with a cache of the given KiB. ctx and
// patience bound the wait for other processes.
func connect(ctx context.Context, path, synchronous string, cacheKiB int) (*conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, translate("open "+path, err)
	}
	c.SetBusyTimeout(0)
	if err := patiently(ctx, func() error { return configure(c, path, synchronous, cacheKiB) }); err != nil {
		c.Close()
		return nil, translate("open "+path, err)
	}
	return &conn{Conn: c}, nil
}

func configure(c *sqlite.Conn, path, synchronous string, cacheKiB int) error {
	pragmas := []string{
		"synchronous = " + synchronous,
		"temp_store = memory",
		fmt.Sprintf("cache_size = -%d", cacheKiB),
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages),
		fmt.Sprintf("journal_size_limit = %d", logSizeLimit),
	}
	if path != memory {
		pragmas = append([]string{fmt.Sprintf("page_size = %d", pageBytes), "journal_mode = wal"}, pragmas...)
	}
	for _, p := range pragmas {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			return fmt.Errorf("pragma %s: %w", p, err)
		}
	}
	return nil
}

// prep returns a prepared statement, ready to be bound. The connection keeps the statement and
// tells SQLite so; otherwise SQLite would allocate it from the small memory reserved for
// short-lived data.
func (c *conn) prep(s statement) (*prepared, error) {
	if p := c.prepared[s]; p != nil {
		return p, nil
	}
	stmt, err := c.Prepare(texts[s])
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, texts[s])
	}
	c.prepared[s] = newPrepared(stmt)
	return c.prepared[s], nil
}

// run executes a statement that returns no rows.
func (c *conn) run(s statement, bind func(*row)) error {
	if c.outer != nil {
		return c.outer.run(texts[s], bind)
	}
	p, err := c.prep(s)
	if err != nil {
		return err
	}
	p.bind(bind)
	if err = p.row.fault; err == nil {
		_, err = p.Step()
	}
	if err != nil {
		p.row.fault = nil
		p.forget()
		return err
	}
	return p.Reset()
}

// each executes a statement and passes its rows to f, until f fails.
func (c *conn) each(s statement, bind func(*row), f func(*columns) error) error {
	if c.outer != nil {
		return c.outer.each(texts[s], bind, f)
	}
	p, err := c.prep(s)
	if err != nil {
		return err
	}
	p.bind(bind)
	return p.rows(f)
}

// Changes returns how many rows the last statement changed.
func (c *conn) Changes() int {
	if c.outer != nil {
		return c.outer.changed
	}
	return c.Conn.Changes()
}

func (p *prepared) bind(f func(*row)) {
	if f != nil {
		p.row.n = 0
		f(&p.row)
	}
}

// forget drops all bindings, so that all are made again: one of them may have failed.
func (p *prepared) forget() { p.row.bound = p.row.bound[:0] }

// rows steps through the rows and resets the statement.
func (p *prepared) rows(f func(*columns) error) error {
	p.cols.fault = nil
	for {
		more, err := p.Step()
		if err != nil {
			p.forget()
			return err
		}
		if !more {
			return p.Reset()
		}
		p.cols.n = 0
		if err := f(&p.cols); err != nil {
			p.Reset()
			return err
		}
	}
}

// close ends the connection and its statements.
func (c *conn) close() error {
	return c.Close()
}
