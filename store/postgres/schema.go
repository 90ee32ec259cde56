package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var _ store.Migrator = (*Schema)(nil)

//go:embed migrations/*.sql
var files embed.FS

// migrationLock is the advisory lock that migrations run under.
const migrationLock = 0x7061776c

// A Schema is the tables of one database, of whatever version. It keeps no
// connection.
type Schema struct {
	cfg  Config
	name string // of the schema that the tables live in
	log  *slog.Logger
}

// OpenSchema connects and finds the schema, but asks nothing of its version:
// it is for migrations. The server must be PostgreSQL 15 or newer, with UTF8.
func OpenSchema(ctx context.Context, cfg Config) (*Schema, error) {
	if cfg.MaxConns < 0 {
		return nil, pawl.Errorf(pawl.Invalid, "connections %d: want 0 (for the default) or more", cfg.MaxConns)
	}
	s := &Schema{cfg: cfg, log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, s.with(ctx, func(conn *pgx.Conn) error { return s.inspect(ctx, conn) })
}

// channelOf answers the channel of hints.
func channelOf(schema string) string { return "pawl_" + schema }

// with runs f on a connection of its own.
func (s *Schema) with(ctx context.Context, f func(*pgx.Conn) error) error {
	pc, err := pgx.ParseConfig(s.cfg.URL)
	if err != nil {
		return badURL(err)
	}
	reach(&pc.Config)
	pc.RuntimeParams["application_name"] = "pawl schema"
	conn, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return connectError(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

func (s *Schema) inspect(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var shown, encoding string
	var schema *string
	err := conn.QueryRow(ctx, `select current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), current_schema()::text`).Scan(&version, &shown, &encoding, &schema)
	switch {
	case err != nil:
		return queryError("ask the server for its version", err)
	case version < 150000:
		return pawl.Errorf(pawl.Invalid, "server is PostgreSQL %s: want 15 or newer", shown)
	case encoding != "UTF8":
		return &pawl.Error{Kind: pawl.Invalid, Message: "database has encoding " + encoding + ": want UTF8", Hint: "create it with createdb -E UTF8 -T template0 NAME"}
	case schema == nil:
		return &pawl.Error{Kind: pawl.Invalid, Message: "no schema of the search_path exists", Hint: "create it with CREATE SCHEMA"}
	}
	s.name = *schema
	return nil
}

// ready brings an empty schema up and refuses any but the newest version.
func (s *Schema) ready(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		current, err := version(ctx, conn)
		if err != nil {
			return err
		}
		newest := len(migrations())
		switch {
		case current == newest:
			return nil
		case current == 0:
			return s.migrate(ctx, conn, newest, true)
		}
		return versionError(current, newest)
	})
}

// versionError says which of the two, the schema or this program, is too old.
func versionError(current, newest int) *pawl.Error {
	if current > newest {
		return &pawl.Error{
			Kind: pawl.Conflict, Hint: "use the newer pawl",
			Message: fmt.Sprintf("database schema is of version %d, made by a newer pawl; this one knows up to %d", current, newest),
		}
	}
	return &pawl.Error{
		Kind: pawl.Conflict, Hint: "run pawl migrate up",
		Message: fmt.Sprintf("database schema is of version %d; this pawl needs %d", current, newest),
	}
}

// Version answers the schema's version (0 if empty) and the newest known.
func (s *Schema) Version(ctx context.Context) (current, newest int, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		current, err = version(ctx, conn)
		return err
	})
	return current, len(migrations()), err
}

// Migrate moves to the version, up or down, each step in a transaction of its
// own, and all of an empty schema in one. Only one process migrates at a time; others wait for it.
func (s *Schema) Migrate(ctx context.Context, to int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		if err := s.migrate(ctx, conn, to, false); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "select pg_notify($1, $2)", channelOf(s.name), "migration "+string(store.TopicSchema))
		return queryError("tell of the migration", err)
	})
}

// Plan answers the SQL that Migrate would run, in order.
func (s *Schema) Plan(ctx context.Context, to int) ([]string, error) {
	var sql []string
	err := s.with(ctx, func(conn *pgx.Conn) error {
		current, err := version(ctx, conn)
		if err != nil {
			return err
		}
		steps, err := path(current, to)
		for _, m := range steps {
			sql = append(sql, m.sql)
		}
		return err
	})
	return sql, err
}

// migrate runs under a lock of the session. With fromEmpty it does nothing if
// another process was faster.
func (s *Schema) migrate(ctx context.Context, conn *pgx.Conn, to int, fromEmpty bool) error {
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", migrationLock); err != nil {
		return queryError("wait for other migrations", err)
	}
	current, err := version(ctx, conn)
	if err != nil {
		return err
	}
	if fromEmpty && current > 0 {
		return nil
	}
	steps, err := path(current, to)
	if err != nil {
		return err
	}
	if current > 0 {
		return s.walk(ctx, conn, steps)
	}
	// Nobody is to see a new schema half way up, nor find one after a crash.
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.walk(ctx, tx, steps) })
}

// A beginner is a connection or a transaction.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

func (s *Schema) walk(ctx context.Context, on beginner, steps []move) error {
	for i := range steps {
		m := &steps[i]
		if err := m.run(ctx, on); err != nil {
			return queryError(fmt.Sprintf("migrate to version %d", m.leaves), err)
		}
		s.log.Info("schema migrated", "version", m.leaves)
	}
	return nil
}

// version creates nothing: a schema without the table is empty.
func version(ctx context.Context, conn *pgx.Conn) (int, error) {
	var there bool
	if err := conn.QueryRow(ctx, "select to_regclass(quote_ident(current_schema()) || '.migration') is not null").Scan(&there); err != nil {
		return 0, queryError("look for the schema's version", err)
	}
	if !there {
		return 0, nil
	}
	var v int
	err := conn.QueryRow(ctx, "select coalesce(max(version), 0) from migration").Scan(&v)
	return v, queryError("read the schema's version", err)
}

// A migration is one numbered pair of files.
type migration struct{ up, down string }

// A move is one migration in one direction.
type move struct {
	sql    string
	leaves int // the version afterwards
	record string
}

func (m *move) run(ctx context.Context, on beginner) error {
	return pgx.BeginFunc(ctx, on, func(tx pgx.Tx) error {
		for _, sql := range []string{
			"create table if not exists migration (version int primary key, at timestamptz not null default now())",
			m.sql, m.record,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// path answers the moves between two versions.
func path(from, to int) ([]move, error) {
	all := migrations()
	if to < 0 || to > len(all) {
		return nil, pawl.Errorf(pawl.Invalid, "schema version %d: want 0 to %d", to, len(all))
	}
	if from > len(all) {
		return nil, versionError(from, len(all))
	}
	var moves []move
	for v := from; v < to; v++ {
		moves = append(moves, move{all[v].up, v + 1, fmt.Sprintf("insert into migration (version) values (%d)", v+1)})
	}
	for v := from; v > to; v-- {
		record := fmt.Sprintf("delete from migration where version = %d", v)
		if v == 1 {
			record = "drop table migration"
		}
		moves = append(moves, move{all[v-1].down, v - 1, record})
	}
	return moves, nil
}

// migrations answers the embedded pairs, by version from 1 on. The files are
// part of the program: a missing half is a fault that a test finds.
func migrations() []migration {
	names, _ := fs.Glob(files, "migrations/*.up.sql")
	all := make([]migration, len(names))
	for i, name := range names {
		if !strings.HasPrefix(name, "migrations/"+fmt.Sprintf("%04d_", i+1)) {
			panic("postgres: " + name + " is not migration " + strconv.Itoa(i+1))
		}
		up, _ := files.ReadFile(name)
		down, _ := files.ReadFile(strings.Replace(name, ".up.", ".down.", 1))
		all[i] = migration{string(up), string(down)}
	}
	return all
}
