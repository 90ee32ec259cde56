package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store"
)

// Unfit names the sessions of other handles on the database whose programs would not work
// during a migration to a version, or after it: sessions of every version of Pawl, and of
// other schemas too. A handle has at least one session.
func (s *Schema) Unfit(ctx context.Context, to int) ([]string, error) {
	var unfit []string
	err := s.with(ctx, func(conn *pgx.Conn) error {
		v, err := version(ctx, conn)
		if err != nil {
			return err
		}
		rows, err := conn.Query(ctx, `select application_name, coalesce(host(min(client_addr)), 'the same machine') from pg_stat_activity
where datname = current_database() and application_name like 'pawl %' and application_name <> 'pawl schema' group by application_name order by 1`)
		if err != nil {
			return queryError("look for processes", err)
		}
		var name, host string
		_, err = pgx.ForEachRow(rows, []any{&name, &host}, func() error {
			if !store.Serves(s.changes(), programOf(name), v.Current, to) {
				unfit = append(unfit, name+" from "+host)
			}
			return nil
		})
		return queryError("look for processes", err)
	})
	return unfit, err
}

// application is the name of the handle's sessions. It ends with the schema version of the
// program.
func (db *DB) application() string { return applicationName(db.handle, len(db.changes())) }

func applicationName(handle string, version int) string {
	return fmt.Sprintf("pawl %s v%d", handle, version)
}

// programOf reads that version; 0 for programs that do not name it. A handle, which stands
// before it, may start with a v too.
func programOf(application string) int {
	last := application[strings.LastIndexByte(application, ' ')+1:]
	text, named := strings.CutPrefix(last, "v")
	version, err := strconv.Atoi(text)
	if err != nil || !named {
		return 0
	}
	return version
}

// Version returns the schema's version and the newest known, on the session of the handle, so
// that frequent calls are cheap.
func (db *DB) Version(ctx context.Context) (current, newest int, err error) {
	v, err := db.at(ctx)
	return v.Current, len(db.changes()), err
}

// Opened returns the version at the start; see store.Store.
func (db *DB) Opened() int { return db.Schema.opened }

// Fits returns nil if this program works on the schema; see store.Migrator.
func (db *DB) Fits(ctx context.Context) error {
	v, err := db.at(ctx)
	if err != nil {
		return err
	}
	return v.Check(db.changes())
}

func (db *DB) at(ctx context.Context) (v store.SchemaVersion, err error) {
	err = db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		v, err = version(ctx, conn)
		return err
	})
	return v, err
}
