package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a file as Pawl's: "Pawl" in ASCII. The first migration
// sets it.
const applicationID = 0x5061776c

// newest is the newest version of the schema: that of the last migration.
func newest() int {
	ups, err := fs.Glob(migrations, "migrations/*.up.sql")
	if err != nil {
		panic(err) // the pattern is constant
	}
	return len(ups)
}

// A migration moves the schema by one version.
type migration struct {
	name string
	sql  string
	to   int
}

// between answers the migrations that lead from one version to another.
func between(from, to int) ([]migration, error) {
	if to < 0 || to > newest() {
		return nil, pawl.Errorf(pawl.Invalid, "schema version %d: want 0 to %d", to, newest())
	}
	var steps []migration
	for v := from; v < to; v++ {
		steps = append(steps, migration{sql: "up", name: fmt.Sprintf("%04d", v+1), to: v + 1})
	}
	for v := from; v > to; v-- {
		steps = append(steps, migration{sql: "down", name: fmt.Sprintf("%04d", v), to: v - 1})
	}
	for i := range steps {
		if err := steps[i].load(); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// load finds the file of a migration whose number and direction are known.
func (m *migration) load() error {
	files, err := fs.Glob(migrations, "migrations/"+m.name+"_*."+m.sql+".sql")
	if err != nil || len(files) != 1 {
		return fmt.Errorf("migration %s %s: %d files, want one", m.name, m.sql, len(files))
	}
	text, err := migrations.ReadFile(files[0])
	m.name, m.sql = files[0], string(text)
	return err
}

func (m *migration) text() string {
	return fmt.Sprintf("%s\nPRAGMA user_version = %d;\n", strings.TrimRight(m.sql, "\n"), m.to)
}

// Version answers the schema's version and the newest that this program knows.
func (db *DB) Version(ctx context.Context) (current, newestKnown int, err error) {
	err = db.read(ctx, "read the schema's version", func(c *conn) error {
		current, err = c.version()
		return err
	})
	return current, newest(), err
}

// Migrate moves the schema to the version, one transaction for each step of the
// way, and for all of a new file: what was done stays done if a later step fails.
func (db *DB) Migrate(ctx context.Context, to int) error {
	for done := false; !done; {
		err := db.writer.transact(ctx, func(c *conn) error {
			from, err := c.version()
			if err != nil {
				return err
			}
			var more bool
			more, err = c.migrate(from, to)
			done = !more
			return err
		})
		if err != nil {
			return translate("migrate", err)
		}
	}
	return nil
}

// migrate takes the first step from one version to another, or all of them from
// an empty file, and reports whether more are needed.
func (c *conn) migrate(from, to int) (more bool, err error) {
	steps, err := way(from, to)
	if err != nil || len(steps) == 0 {
		return false, err
	}
	if from > 0 {
		return len(steps) > 1, c.script(&steps[0])
	}
	for i := range steps { // nobody is to see a new file half way up
		if err := c.script(&steps[i]); err != nil {
			return false, err
		}
	}
	return false, nil
}

// way is between for a schema that may be newer than the program.
func way(from, to int) ([]migration, error) {
	if from > newest() {
		return nil, tooNew(from)
	}
	return between(from, to)
}

// script runs a migration within the transaction that is open.
func (c *conn) script(m *migration) error {
	if err := sqlitex.ExecuteScript(c.Conn, m.text(), nil); err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// Plan answers the SQL that Migrate would run.
func (db *DB) Plan(ctx context.Context, to int) ([]string, error) {
	from, _, err := db.Version(ctx)
	if err != nil {
		return nil, err
	}
	steps, err := way(from, to)
	var plan []string
	for i := range steps {
		plan = append(plan, "-- "+steps[i].name+"\n"+steps[i].text())
	}
	return plan, err
}

// admit brings an empty database up, and refuses one whose schema is not that
// of this program.
func (db *DB) admit(ctx context.Context) error {
	if err := db.ours(ctx); err != nil || db.cfg.AnyVersion {
		return err
	}
	current, last, err := db.Version(ctx)
	switch {
	case err != nil:
		return err
	case current == 0:
		return db.Migrate(ctx, last)
	case current > last:
		return tooNew(current)
	case current < last:
		return db.cfg.tooOld(current)
	}
	return nil
}

func (c Config) tooOld(version int) error {
	return &pawl.Error{
		Kind:    pawl.Conflict,
		Message: fmt.Sprintf("%s has schema version %d, and this program needs %d", c.Path, version, newest()),
		Hint:    "run `pawl migrate up`",
	}
}

func tooNew(version int) error {
	return &pawl.Error{
		Kind:    pawl.Conflict,
		Message: fmt.Sprintf("the database has schema version %d, and this program knows %d at most", version, newest()),
		Hint:    "use the newer program that made it",
	}
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

func (c *conn) version() (int, error) {
	n, err := c.number("PRAGMA user_version")
	return int(n), err
}

func (c *conn) number(query string) (int64, error) {
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		return 0, err
	}
	defer s.Finalize()
	return sqlitex.ResultInt64(s)
}
