package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"
)

// Raw runs f on the connection that writes, between transactions.
func (db *DB) Raw(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := acquire(ctx, db.writer.use); err != nil {
		return err
	}
	defer func() { <-db.writer.use }()
	db.writer.conn.cache.forget()
	return f(db.writer.conn.Conn)
}
