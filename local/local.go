// Package local runs Pawl in this process: it opens a database, SQLite or PostgreSQL,
// and an engine on it, and returns a client of it.
//
// Open takes the name of the database, and OpenPool a pgxpool.Pool. There is no
// function for a *sql.DB. Open a SQLite file by its path: the program may use its own
// *sql.DB on that file at the same time, with any driver, but must not hold a write
// transaction open for long. A *sql.DB on PostgreSQL is mostly over a pgxpool.Pool
// (stdlib.OpenDBFromPool of pgx).
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/webhook"
)

// Config configures the engine. The zero value is ready to use.
type Config struct {
	// Client has the defaults for the requests of the client.
	Client client.Config

	// Passive leaves the evaluation of jobs, deadlines, schedules and the steps of dead
	// workers to other processes on the database: "pawl server", or an engine that is
	// not passive.
	Passive bool

	// QuietTx turns off the notification in transactions in which SubmitTx or
	// worker.CompleteTx was called, since PostgreSQL commits transactions that notify
	// one after the other. Call Hint after the commit instead.
	QuietTx bool

	// Retention is how long what has ended is kept; at least an hour. 0: for ever.
	Retention time.Duration

	// SecretKeyFile is the file with the keys that encrypt the secrets of webhooks in the
	// database, as "pawl server --secret-key-file" reads it. Default: none, and they are
	// stored as they are.
	SecretKeyFile string

	// Silence is how long a worker may be silent before it is taken for dead. All
	// processes on a database should have the same. Default 6 s.
	Silence time.Duration

	// Log gets the engine's log. Default: none.
	Log *slog.Logger
}

// Open opens a database and runs an engine on it, until the client is closed. The name
// is a path, "sqlite:///path?synchronous=normal", "sqlite::memory:", or a PostgreSQL
// URL. A missing or empty database is created; a database of another schema version is
// an error that names the command for it.
//
// Several processes may open the same database. Each evaluates jobs and fires
// deadlines, unless it is passive. Steps are run by a worker; see package worker.
func Open(ctx context.Context, name string, c Config) (*client.Client, error) {
	at, err := address.Parse(name)
	if err != nil {
		return nil, err
	}
	if err := at.Check(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := at.Open(ctx, c.Silence, c.Log)
	if err != nil {
		return nil, err
	}
	return run(s, at.Lanes(), c)
}

// OpenPool is Open for the PostgreSQL database that a pool connects to: with its
// servers, user, password and TLS, its dialer and its BeforeConnect. The engine has
// connections of its own, eleven at most, since it keeps locks, listeners and prepared
// statements in their sessions. OpenPool uses one connection of the pool once, does not
// change the pool, and Close leaves it open.
//
// The other hooks of the pool are not called for the engine, nor is its tracer. A pool
// whose hooks set another role or search_path is refused, and so is one whose
// DefaultQueryExecMode is for poolers that keep no session.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, c Config) (*client.Client, error) {
	if pool == nil {
		return nil, pawl.Errorf(pawl.Invalid, "pool: nil: want one that is open")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := postgres.Open(ctx, postgres.Config{Pool: pool, Silence: c.Silence, Log: c.Log})
	if err != nil {
		return nil, err
	}
	return run(s, address.PostgresLanes, c)
}

// run runs an engine on a store.
func run(s store.Store, lanes int, c Config) (*client.Client, error) {
	var ring *keyring.Ring
	if c.SecretKeyFile != "" {
		var err error
		if ring, err = keyring.Read(c.SecretKeyFile); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	e, err := engine.Open(engine.Config{Store: s, Webhooks: webhook.Config{Ring: ring}, Lanes: lanes, Passive: c.Passive, QuietTx: c.QuietTx, Node: node(c.Passive), Retention: c.Retention, Silence: c.Silence, Log: c.Log})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return client.Over(e, c.Client, func() error {
		e.Close()
		return s.Close()
	}), nil
}

// node returns what other processes on the database see of this one, with a new id: an
// engine that is not passive counts as a server.
func node(passive bool) pawl.Node {
	host, _ := os.Hostname()
	n := pawl.Node{ID: 1 + rand.Int64N(math.MaxInt64), Role: health.RoleServer, Host: host, PID: os.Getpid()}
	n.Name = fmt.Sprintf("%s/%d", host, n.PID)
	if passive {
		n.Role = health.RoleWorker
	}
	n.Version = version()
	return n
}

// version returns the version of Pawl in this program.
func version() string {
	const module = "github.com/pawl-dev/pawl"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				return m.Version
			}
		}
	}
	return "devel"
}
