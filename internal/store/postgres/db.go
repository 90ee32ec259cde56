package postgres

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

var _ store.Store = (*DB)(nil)

// A Config says where the database is and how to use it.
type Config struct {
	// URL is a connection string, postgres://USER:PASSWORD@HOST/DATABASE or key=value words;
	// the PG* variables of the environment supply what it omits. Tables are in the first
	// schema of its search_path that exists.
	URL string

	// Pool, in place of URL, is a pool whose connections reach the database. The handle makes
	// its own connections in the same way, BeforeConnect included, and calls none of the other
	// hooks. It leaves the pool unchanged and open.
	Pool *pgxpool.Pool

	// MaxConns bounds the connections that transactions and lookups use at once: half each, so
	// that neither waits for the other. A handle uses up to three more: for locks and beats,
	// for hints to others, and for hints from others. 0 means 8; the minimum is 2.
	MaxConns int

	// Silence is how long a worker of this process may go without a beat. A beat, and an
	// attempt to connect for it, takes at most a third of it. Default 6 s.
	Silence time.Duration

	// Log receives what no caller gets. nil discards it.
	Log *slog.Logger

	// Ahead are changes of the schema after those of this program, for tests of programs of
	// two versions that share a database.
	Ahead []store.SchemaChange
}

// A DB is a handle on one database. It is safe for concurrent use.
type DB struct {
	*Schema
	pool            *pgxpool.Pool // for transactions
	lookups         *pgxpool.Pool // for reads outside of transactions
	log             *slog.Logger
	handle          string                 // of this DB, to distinguish its own hints from others'
	own             atomic.Pointer[string] // see whichDatabase; nil until first needed
	channel         string
	session         *session
	wire            *wire
	hears           atomic.Bool
	key             ownKey
	lost            lost
	faults          store.Faults
	counts          counts
	lookback        lookback
	ears            ears
	life            context.Context // for work without a particular caller
	die             context.CancelFunc
	cache           rowCache
	rooms           rooms
	running         runningRows
	fusedStatements fusedStatements
	alikeStatements alikeStatements
	silence         time.Duration // see Config.Silence
	spare           bool          // there is a processor to spare for waiting on the server
	awaiting        atomic.Bool   // one is waiting
	patience        time.Duration // for one reading half

	retainRecords int // of a step of retention; fewer in tests
	close         sync.Once
}

type counts struct{ commits, inserts, updates, entries, rollbacks atomic.Int64 }

// Open connects to the database. It migrates an empty schema to the newest version. A schema
// of an older version is an error of kind Conflict (run pawl migrate up), and so is one made
// by a newer Pawl.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	schema, err := OpenSchema(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := schema.ready(ctx); err != nil {
		return nil, err
	}
	db := &DB{
		Schema: schema, log: schema.log, channel: channelOf(schema.name),
		handle: strconv.FormatUint(rand.Uint64(), 36), patience: readLimit, retainRecords: retainRecords,
		silence: cmp.Or(cfg.Silence, health.Silence),
		spare:   runtime.GOMAXPROCS(0) > 1,
	}
	if db.pool, err = db.connect(ctx, cfg, db.Transactions()); err != nil {
		return nil, err
	}
	if db.lookups, err = db.connect(ctx, cfg, cfg.conns()-db.Transactions()); err != nil {
		db.pool.Close()
		return nil, err
	}
	db.life, db.die = context.WithCancel(context.Background())
	db.lookback.db = db
	db.session = newSession(db)
	db.wire = newWire(db)
	if err := db.Maintain(ctx); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// The default and minimum number of connections of a handle. The minimum is one for
// transactions and one for lookups.
const (
	defaultConns = 8
	leastConns   = 2
)

func (c Config) conns() int {
	if c.MaxConns == 0 {
		return defaultConns
	}
	return c.MaxConns
}

// Transactions returns how many transactions can run at once; see store.Ledger.
func (db *DB) Transactions() int { return (db.cfg.conns() + 1) / 2 }

// connect makes a pool of at most conns connections, and opens the first.
func (db *DB) connect(ctx context.Context, cfg Config, conns int) (*pgxpool.Pool, error) {
	pc, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	pc.MaxConns = int32(conns)
	db.tune(pc.ConnConfig)
	pc.PingTimeout = sessionLimit // for an idle connection; otherwise the ping may delay Close for a minute
	pc.AfterConnect = compressing("lz4")
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, connectError(err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, connectError(err)
	}
	return pool, nil
}

// tune sets what all connections of the handle have in common. Tables are reached only through
// their indexes: a plan made while a table was empty must not read all of it when it has
// grown.
func (db *DB) tune(c *pgx.ConnConfig) {
	for k, v := range map[string]string{
		"application_name": db.application(),
		"timezone":         "UTC",
		"plan_cache_mode":  "force_generic_plan",
		"enable_seqscan":   "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off", "enable_material": "off",
		"jit":                           "off",
		"default_transaction_isolation": "read committed",
		// A host that has vanished must not keep its locks for hours.
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
		// Nor must a process that was stopped between reading and writing.
		"idle_in_transaction_session_timeout": "5s",
	} {
		c.RuntimeParams[k] = v
	}
}

// Close closes every connection. This frees all held names.
func (db *DB) Close() error {
	db.close.Do(func() {
		if db.wire != nil {
			db.wire.stop()
		}
		if db.session != nil {
			db.session.stop()
		}
		db.die()
		db.lookback.stop()
		db.pool.Close()
		db.lookups.Close()
	})
	return nil
}

// Stats returns counts of the writes through this handle.
func (db *DB) Stats(context.Context) (store.Stats, error) {
	return store.Stats{
		Commits: db.counts.commits.Load(), Inserts: db.counts.inserts.Load(), Updates: db.counts.updates.Load(),
		Entries: db.counts.entries.Load(), Rollback: db.counts.rollbacks.Load(),
	}, nil
}

func badURL(err error) error {
	return &pawl.Error{Kind: pawl.Invalid, Message: "database url is not valid", Hint: "write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE", Err: err}
}
