package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// compressing returns a function that has the server compress bodies with this method, if it was
// built with it and neither the URL nor the user's pool names one. lz4 takes a small part of the CPU
// time of pglz, the default before version 19, with which the server spends more on a body of 64 KiB
// than on all else of its job. Each connection is asked, and none when it begins: a pooler would
// refuse that before it is recognised, and after a failover the server may be another one.
func compressing(method string) func(context.Context, *pgx.Conn) error {
	const setting = "default_toast_compression"
	return func(ctx context.Context, conn *pgx.Conn) error {
		if _, said := conn.Config().RuntimeParams[setting]; said {
			return nil
		}
		_, err := conn.PgConn().Exec(ctx, "set "+setting+" = "+method).ReadAll()
		if code(err) == codeNoValue {
			return nil
		}
		return err
	}
}
