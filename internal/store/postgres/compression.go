package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// compressing returns a function that has the server compress bodies with this method, if it was
// built with it and nobody has chosen one: in the URL, for the user or the database, or for the
// server. lz4 takes a small part of the CPU time of pglz, the default before version 19, with which
// the server spends more on a body of 64 KiB than on all else of its job. Each connection is asked,
// and none when it begins: a pooler would refuse that before it is recognised, and after a failover
// the server may be another one.
func compressing(method string) func(context.Context, *pgx.Conn) error {
	const set = "select set_config(name, $1, false) from pg_settings where name = 'default_toast_compression' and source = 'default'"
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, set, pgx.QueryExecModeExec, method)
		if code(err) == codeNoValue {
			return nil
		}
		return err
	}
}
