package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

var _ store.Migrator = (*Schema)(nil)

//go:embed migrations/*.sql
var files embed.FS

// migrationLock is the advisory lock that migrations run under.
const migrationLock = 0x7061776c

// A Schema is the tables of one database, of any version. It keeps no connection.
type Schema struct {
	cfg  Config
	name string // of the schema that the tables live in
	log  *slog.Logger

	opened int // see DB.Opened
}

// OpenSchema connects and finds the schema, of any version: it is for migrations. The server
// must be PostgreSQL 15 or newer, with UTF8.
func OpenSchema(ctx context.Context, cfg Config) (*Schema, error) {
	if n := cfg.conns(); n < leastConns {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("MaxConns: %d: at least %d are needed", n, leastConns),
			Hint: fmt.Sprintf("one connection is for transactions, one for lookups; 0 means %d", defaultConns)}
	}
	s := &Schema{cfg: cfg, log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, s.with(ctx, func(conn *pgx.Conn) error {
		if err := s.inspect(ctx, conn); err != nil {
			return err
		}
		return s.cfg.sameTarget(ctx, conn)
	})
}

// channelOf returns the channel of hints.
func channelOf(schema string) string { return "pawl_" + schema }

// with runs f on a connection of its own.
func (s *Schema) with(ctx context.Context, f func(*pgx.Conn) error) error {
	conn, err := s.cfg.one(ctx, func(c *pgx.ConnConfig) { c.RuntimeParams["application_name"] = "pawl schema" })
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}

// errPooler is returned for a connection that another program, such as PgBouncer, opened to the
// server: the server's process is not the one that was announced when we connected.
var errPooler = &pawl.Error{Kind: pawl.Invalid,
	Message: "the address of the database is that of a connection pooler: want the server itself, since locks, notifications and prepared statements belong to sessions",
	Hint:    "give the host and port of PostgreSQL; pawl pools its connections itself, at most 11 for each process"}

func (s *Schema) inspect(ctx context.Context, conn *pgx.Conn) error {
	var version int
	var process uint32
	var shown, encoding string
	var schema *string
	err := conn.QueryRow(ctx, `select current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), current_schema()::text, pg_backend_pid()`).Scan(&version, &shown, &encoding, &schema, &process)
	switch {
	case err != nil:
		return queryError("ask the server for its version", err)
	case process != conn.PgConn().PID():
		return errPooler
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

// ready migrates an empty schema and refuses one that this program does not work on.
func (s *Schema) ready(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		v, err := version(ctx, conn)
		if err != nil {
			return err
		}
		if s.opened = v.Current; s.opened == 0 {
			s.opened = len(s.changes())
			return s.migrate(ctx, conn, s.opened, true)
		}
		return v.Check(s.changes())
	})
}

// changes returns all migrations that this program knows.
func (s *Schema) changes() []store.SchemaChange { return append(migrations(), s.cfg.Ahead...) }

// Version returns the schema's version (0 if empty) and the newest known.
func (s *Schema) Version(ctx context.Context) (current, newest int, err error) {
	v, err := s.at(ctx)
	return v.Current, len(s.changes()), err
}

// Fits returns nil if this program works on the schema; see store.Migrator.
func (s *Schema) Fits(ctx context.Context) error {
	v, err := s.at(ctx)
	if err != nil {
		return err
	}
	return v.Check(s.changes())
}

func (s *Schema) at(ctx context.Context) (v store.SchemaVersion, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		v, err = version(ctx, conn)
		return err
	})
	return v, err
}

// Migrate moves to the version, up or down, each step in its own transaction, and all steps of
// an empty schema in one. Only one process migrates at a time; others wait for it.
func (s *Schema) Migrate(ctx context.Context, to int) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		if err := s.migrate(ctx, conn, to, false); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "select pg_notify($1, $2)", channelOf(s.name), "migration "+string(store.TopicSchema))
		return queryError("tell of the migration", err)
	})
}

// Plan returns the SQL that Migrate would run, in order.
func (s *Schema) Plan(ctx context.Context, to int) ([]string, error) {
	var sql []string
	err := s.with(ctx, func(conn *pgx.Conn) error {
		current, err := version(ctx, conn)
		if err != nil {
			return err
		}
		steps, err := path(s.changes(), current.Current, to)
		for _, m := range steps {
			sql = append(sql, m.sql)
		}
		return err
	})
	return sql, err
}

// migrate runs under a lock of the session. With fromEmpty it does nothing if another process
// was faster.
func (s *Schema) migrate(ctx context.Context, conn *pgx.Conn, to int, fromEmpty bool) error {
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", migrationLock); err != nil {
		return queryError("wait for other migrations", err)
	}
	current, err := version(ctx, conn)
	if err != nil {
		return err
	}
	if fromEmpty && current.Current > 0 {
		return nil
	}
	steps, err := path(s.changes(), current.Current, to)
	if err != nil {
		return err
	}
	if current.Current > 0 {
		return s.walk(ctx, conn, steps)
	}
	// A new schema must not be visible half migrated, nor be left so by a crash.
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.walk(ctx, tx, steps) })
}

// A beginner is a connection or a transaction.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

func (s *Schema) walk(ctx context.Context, on beginner, steps []move) error {
	for i := range steps {
		m := &steps[i]
		if err := m.insist(ctx, on); err != nil {
			return queryError(fmt.Sprintf("migrate to version %d", m.leaves), err)
		}
		s.log.Info("schema migrated", "version", m.leaves)
	}
	return nil
}

// version creates nothing: a schema without the table is empty. Before the first rolling
// change, the table does not say which programs it supports.
func version(ctx context.Context, conn *pgx.Conn) (v store.SchemaVersion, err error) {
	var there bool
	if err := conn.QueryRow(ctx, "select to_regclass(quote_ident(current_schema()) || '.migration') is not null").Scan(&there); err != nil {
		return v, queryError("look for the schema's version", err)
	}
	if !there {
		return v, nil
	}
	err = conn.QueryRow(ctx, "select version, coalesce((to_jsonb(m)->>'oldest')::int, version) from migration m order by version desc limit 1").Scan(&v.Current, &v.Oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return v, queryError("read the schema's version", err)
}

// A move is one migration in one direction.
type move struct {
	sql     string
	leaves  int // the version afterwards
	rolling bool
	records []string
}

// Processes keep working during a rolling change. The change waits for a table only as long as
// they may wait behind it, and less than a server takes to look for a deadlock, so that the
// server aborts the change and not a process; then the change is retried.
const (
	rollingWait  = "300ms"
	rollingTries = 100
	rollingPause = 200 * time.Millisecond
)

// insist makes the move, and retries while others hold what it needs.
func (m *move) insist(ctx context.Context, on beginner) error {
	for try := 1; ; try++ {
		err := m.run(ctx, on)
		if c := code(err); !m.rolling || try == rollingTries || c != codeLockTimeout && c != codeDeadlock {
			return err
		}
		select {
		case <-time.After(rollingPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *move) run(ctx context.Context, on beginner) error {
	return pgx.BeginFunc(ctx, on, func(tx pgx.Tx) error {
		statements := append([]string{
			"create table if not exists migration (version int primary key, at timestamptz not null default now())",
			m.sql,
		}, m.records...)
		if m.rolling {
			statements = append([]string{"set local lock_timeout = '" + rollingWait + "'"}, statements...)
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// path returns the moves between two versions.
func path(all []store.SchemaChange, from, to int) ([]move, error) {
	if to < 0 || to > len(all) {
		return nil, pawl.Errorf(pawl.Invalid, "schema version %d: want 0 to %d", to, len(all))
	}
	if from > len(all) {
		return nil, store.SchemaVersion{Current: from, Oldest: from}.Check(all)
	}
	var moves []move
	for v := from; v < to; v++ {
		m := move{sql: all[v].Up, leaves: v + 1, rolling: all[v].Rolling(), records: []string{fmt.Sprintf("insert into migration (version) values (%d)", v+1)}}
		if m.rolling {
			m.records = []string{"alter table migration add column if not exists oldest int",
				fmt.Sprintf("insert into migration (version, oldest) values (%d, %d)", v+1, v)}
		}
		moves = append(moves, m)
	}
	for v := from; v > to; v-- {
		record := fmt.Sprintf("delete from migration where version = %d", v)
		if v == 1 {
			record = "drop table migration"
		}
		moves = append(moves, move{sql: all[v-1].Down, leaves: v - 1, rolling: all[v-1].Rolling(), records: []string{record}})
	}
	return moves, nil
}

// migrations returns the embedded pairs, by version from 1 on. A test finds a missing half.
func migrations() []store.SchemaChange {
	names, _ := fs.Glob(files, "migrations/*.up.sql")
	all := make([]store.SchemaChange, len(names))
	for i, name := range names {
		if !strings.HasPrefix(name, "migrations/"+fmt.Sprintf("%04d_", i+1)) {
			panic("postgres: " + name + " is not migration " + strconv.Itoa(i+1))
		}
		up, _ := files.ReadFile(name)
		down, _ := files.ReadFile(strings.Replace(name, ".up.", ".down.", 1))
		all[i] = store.SchemaChange{Up: string(up), Down: string(down)}
	}
	return all
}
