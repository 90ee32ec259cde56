package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
)

// settings returns the settings of connections: from the URL, or those of the user's pool. The
// caller may change them.
func (c *Config) settings() (*pgxpool.Config, error) {
	if c.Pool != nil {
		return ownSettings(c.Pool.Config())
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, badURL(err)
	}
	reach(&pc.ConnConfig.Config)
	return pc, nil
}

// ownSettings turns the settings of a user's pool into those of the handle's connections. It
// keeps the server and the user, and BeforeConnect, which may fetch a password. It drops what
// is meant for the user's own statements.
func ownSettings(pc *pgxpool.Config) (*pgxpool.Config, error) {
	conn := pc.ConnConfig
	if mode := conn.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		return nil, &pawl.Error{Kind: pawl.Invalid,
			Message: fmt.Sprintf("DefaultQueryExecMode of the pool: %s: want cache statement, cache describe or describe exec", mode),
			Hint:    "Pawl keeps prepared statements, locks and listeners in sessions; if the pool goes through a pooler that has none, give Pawl one that goes to the server"}
	}
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if conn.StatementCacheCapacity <= 0 {
		conn.StatementCacheCapacity = statementCache
	}
	conn.Tracer, conn.OnNotice, conn.OnNotification, conn.AfterConnect = nil, nil, nil, nil
	reachBy(&conn.Config, conn.DialFunc)
	pc.MinConns, pc.MinIdleConns = 0, 0
	pc.AfterConnect, pc.PrepareConn, pc.AfterRelease, pc.BeforeClose, pc.ShouldPing = nil, nil, nil, nil, nil
	pc.BeforeAcquire = nil //lint:ignore SA1019 a pool may still have it
	return pc, nil
}

// statementCache is how many statements a connection remembers, the default.
const statementCache = 512

// one opens a connection outside the pools, with the changes that set makes to its settings.
func (c *Config) one(ctx context.Context, set func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	pc, err := c.settings()
	if err != nil {
		return nil, err
	}
	set(pc.ConnConfig)
	if pc.BeforeConnect != nil {
		if err := pc.BeforeConnect(ctx, pc.ConnConfig); err != nil {
			return nil, connectError(err)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, pc.ConnConfig)
	if err != nil {
		return nil, connectError(err)
	}
	return conn, nil
}

// A target says which tables a connection reaches.
type target struct{ database, user, schema string }

func (t target) String() string {
	return fmt.Sprintf("database %s, role %s, schema %s", t.database, t.user, t.schema)
}

const selectTarget = "select current_database()::text, current_user::text, coalesce(current_schema()::text, 'none')"

// sameTarget returns an error if the pool's own connections reach other tables than those of
// the handle, which does not call the pool's hooks.
func (c *Config) sameTarget(ctx context.Context, conn *pgx.Conn) error {
	if c.Pool == nil {
		return nil
	}
	var theirs, ours target
	if err := c.Pool.QueryRow(ctx, selectTarget).Scan(&theirs.database, &theirs.user, &theirs.schema); err != nil {
		return connectError(err)
	}
	if err := conn.QueryRow(ctx, selectTarget).Scan(&ours.database, &ours.user, &ours.schema); err != nil {
		return queryError("ask the server for the schema", err)
	}
	if theirs != ours {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("hooks of the pool change where its connections work: %s; Pawl, which does not call them, works on %s", theirs, ours),
			Hint: "set role and search_path in ConnConfig.RuntimeParams of the pool, or in BeforeConnect"}
	}
	return nil
}
