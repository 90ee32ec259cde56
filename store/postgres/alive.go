package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Alive names the sessions of other handles on the database, of whatever version
// of Pawl, those of other schemas included: a handle has one at least.
func (s *Schema) Alive(ctx context.Context) ([]string, error) {
	var names []string
	err := s.with(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `select application_name || ' from ' || coalesce(host(min(client_addr)), 'the same machine') from pg_stat_activity
where datname = current_database() and application_name like 'pawl %' and application_name <> 'pawl schema' group by application_name order by 1`)
		if err != nil {
			return queryError("look for processes", err)
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return queryError("look for processes", err)
	})
	return names, err
}

// Version answers the schema's version and the newest known, on the session of
// the handle, so that it can be asked often.
func (db *DB) Version(ctx context.Context) (current, newest int, err error) {
	err = db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		current, err = version(ctx, conn)
		return err
	})
	return current, len(migrations()), err
}
