package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a file as Pawl's: "Pawl" in ASCII. The first migration
// sets it.
const applicationID = 0x5061776c

// changes returns the migrations of this program, by version from 1 on. The files are
// embedded: a test finds a missing half.
func changes() []store.SchemaChange {
	ups, err := fs.Glob(migrations, "migrations/*.up.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	all := make([]store.SchemaChange, len(ups))
	for i, name := range ups {
		if !strings.HasPrefix(name, fmt.Sprintf("migrations/%04d_", i+1)) {
			panic(fmt.Sprintf("sqlite: %s is not migration %d", name, i+1))
		}
		up, _ := migrations.ReadFile(name)
		down, _ := migrations.ReadFile(strings.Replace(name, ".up.", ".down.", 1))
		all[i] = store.SchemaChange{Up: string(up), Down: string(down)}
	}
	return all
}

// newest is the newest version of the schema that this program has.
func newest() int { return len(changes()) }

// changes returns all migrations that this program knows.
func (c Config) changes() []store.SchemaChange { return append(changes(), c.Ahead...) }

// A migration moves the schema by one version.
type migration struct {
	name string
	sql  string
	to   store.SchemaVersion
}

// between returns the migrations that lead from one version to another.
func between(all []store.SchemaChange, from, to int) ([]migration, error) {
	if from > len(all) {
		return nil, store.SchemaVersion{Current: from, Oldest: from}.Check(all)
	}
	if to < 0 || to > len(all) {
		return nil, pawl.Errorf(pawl.Invalid, "schema version %d: want 0 to %d", to, len(all))
	}
	var steps []migration
	for v := from; v < to; v++ {
		steps = append(steps, migration{fmt.Sprintf("migration %04d up", v+1), all[v].Up, store.SchemaAfter(all, v+1)})
	}
	for v := from; v > to; v-- {
		steps = append(steps, migration{fmt.Sprintf("migration %04d down", v), all[v-1].Down, store.SchemaAfter(all, v-1)})
	}
	return steps, nil
}

// text is the SQL to run: the change, and the version that the database then records.
func (m *migration) text() string {
	return fmt.Sprintf("%s\nPRAGMA user_version = %d;\n", strings.TrimRight(m.sql, "\n"), packVersion(m.to))
}

// servesShift is the bit position, in the user version of a file, of the oldest programs that
// it supports, if that is not its own version. Programs that do not know this read it as a
// version that is too new.
const servesShift = 16

func packVersion(v store.SchemaVersion) int {
	if v.Oldest == v.Current {
		return v.Current
	}
	return v.Oldest<<servesShift | v.Current
}

func unpackVersion(n int) store.SchemaVersion {
	v := store.SchemaVersion{Current: n & (1<<servesShift - 1), Oldest: n >> servesShift}
	if v.Oldest == 0 {
		v.Oldest = v.Current
	}
	return v
}

// Version returns the schema's version and the newest that this program knows.
func (db *DB) Version(ctx context.Context) (current, newestKnown int, err error) {
	v, err := db.at(ctx)
	return v.Current, len(db.cfg.changes()), err
}

// Opened returns the version at the start; see store.Store.
func (db *DB) Opened() int { return db.opened }

// Fits returns nil if this program works on the schema; see store.Migrator.
func (db *DB) Fits(ctx context.Context) error {
	v, err := db.at(ctx)
	if err != nil {
		return err
	}
	return v.Check(db.cfg.changes())
}

func (db *DB) at(ctx context.Context) (v store.SchemaVersion, err error) {
	err = db.read(ctx, "read the schema's version", func(c *conn) error {
		v, err = c.version()
		return err
	})
	return v, err
}

// Migrate moves the schema to the version, in one transaction for each step, or one for all
// steps of a new file. If a step fails, the steps before it stay done.
func (db *DB) Migrate(ctx context.Context, to int) error {
	for done := false; !done; {
		err := db.writer.transact(ctx, func(c *conn) error {
			from, err := c.version()
			if err != nil {
				return err
			}
			var more bool
			more, err = c.migrate(db.cfg.changes(), from.Current, to)
			done = !more
			return err
		})
		if err != nil {
			return translate("migrate", err)
		}
	}
	return nil
}

// migrate takes the first step from one version to another, or all of them for an empty file,
// and reports whether more are needed.
func (c *conn) migrate(all []store.SchemaChange, from, to int) (more bool, err error) {
	steps, err := between(all, from, to)
	if err != nil || len(steps) == 0 {
		return false, err
	}
	if from > 0 {
		return len(steps) > 1, c.script(&steps[0])
	}
	for i := range steps { // a new file must not be visible half migrated
		if err := c.script(&steps[i]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// script runs a migration within the open transaction.
func (c *conn) script(m *migration) error {
	if err := sqlitex.ExecuteScript(c.Conn, m.text(), nil); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// Plan returns the SQL that Migrate would run.
func (db *DB) Plan(ctx context.Context, to int) ([]string, error) {
	from, _, err := db.Version(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := between(db.cfg.changes(), from, to)
	var plan []string
	for i := range steps {
		plan = append(plan, "-- "+steps[i].name+"\n"+steps[i].text())
	}
	return plan, err
}

// admit migrates an empty database, and refuses one whose schema this program does not work
// on.
func (db *DB) admit(ctx context.Context) error {
	if err := db.ours(ctx); err != nil || db.cfg.AnyVersion {
		return err
	}
	v, err := db.at(ctx)
	if err != nil {
		return err
	}
	if db.opened = v.Current; db.opened == 0 {
		db.opened = len(db.cfg.changes())
		return db.Migrate(ctx, db.opened)
	}
	return v.Check(db.cfg.changes())
}

// ours refuses a file with tables that another program made.
func (db *DB) ours(ctx context.Context) error {
	var id, tables int64
	err := db.read(ctx, "open "+db.cfg.Path, func(c *conn) (err error) {
		if id, err = c.number("PRAGMA application_id"); err != nil {
			return err
		}
		tables, err = c.number("SELECT count(*) FROM sqlite_schema")
		return err
	})
	if err == nil && id != applicationID && (id != 0 || tables > 0) {
		return pawl.Errorf(pawl.Conflict, "%s is a database of another program", db.cfg.Path)
	}
	return err
}

func (c *conn) version() (store.SchemaVersion, error) {
	n, err := c.number("PRAGMA user_version")
	return unpackVersion(int(n)), err
}

func (c *conn) number(query string) (int64, error) {
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		return 0, err
	}
	defer s.Finalize()
	return sqlitex.ResultInt64(s)
}
