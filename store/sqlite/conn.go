package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Sizes of a connection's memory and of the log between checkpoints. What a cache
// has not, the operating system's has.
const (
	writerKiB       = 24 << 10
	readerKiB       = 4 << 10  // of each of maxReaders, and of the logs
	checkpointPages = 4000     // of 4 KiB; more spreads the cost of a checkpoint over more commits
	logSizeLimit    = 64 << 20 // bytes that the -wal file shrinks back to
)

// A conn is a connection with its prepared statements. One goroutine at a time
// uses it.
type conn struct {
	*sqlite.Conn
	prepared [statementCount]*sqlite.Stmt
}

// connect opens a connection with a cache of so many KiB. Waiting for other processes is bounded by ctx and
// by patience.
func connect(ctx context.Context, path, synchronous string, cacheKiB int) (*conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
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
		pragmas = append([]string{"journal_mode = wal"}, pragmas...)
	}
	for _, p := range pragmas {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+p, nil); err != nil {
			return fmt.Errorf("pragma %s: %w", p, err)
		}
	}
	return nil
}

// prep answers a prepared statement, ready to be bound. It stays the
// connection's.
func (c *conn) prep(s statement) (*sqlite.Stmt, error) {
	if p := c.prepared[s]; p != nil {
		return p, nil
	}
	p, _, err := c.PrepareTransient(texts[s])
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, texts[s])
	}
	c.prepared[s] = p
	return p, nil
}

// run executes a statement that answers no rows.
func (c *conn) run(s statement, bind func(*row)) error {
	p, err := c.prep(s)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(&row{s: p})
	}
	if _, err := p.Step(); err != nil {
		return err
	}
	return p.Reset()
}

// each executes a statement and hands its rows to f, until f fails.
func (c *conn) each(s statement, bind func(*row), f func(*columns) error) error {
	p, err := c.prep(s)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(&row{s: p})
	}
	return rows(p, f)
}

// rows steps through p and resets it.
func rows(p *sqlite.Stmt, f func(*columns) error) error {
	cols := columns{s: p}
	for {
		more, err := p.Step()
		if err != nil {
			return err
		}
		if !more {
			return p.Reset()
		}
		cols.n = 0
		if err := f(&cols); err != nil {
			p.Reset()
			return err
		}
	}
}

// close ends the connection; statements first.
func (c *conn) close() error {
	for _, p := range c.prepared {
		if p != nil {
			p.Finalize()
		}
	}
	return c.Close()
}
