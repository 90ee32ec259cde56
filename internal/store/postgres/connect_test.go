package postgres

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// userPool makes the pool of a user, with what set changes.
func userPool(t *testing.T, url string, set func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	set(pc)
	pool, err := pgxpool.NewWithConfig(t.Context(), pc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// An eavesdropper traces what runs on a user's pool.
type eavesdropper struct{ t *testing.T }

func (e eavesdropper) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL != selectTarget {
		e.t.Errorf("the tracer of the pool sees a statement of Pawl: %s", d.SQL)
	}
	return ctx
}

func (eavesdropper) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestPool: a handle on a pool reaches the server as the pool does, on connections of its own
// that nothing disturbs of what the pool does with its own; and the pool stays open and as it
// is.
func TestPool(t *testing.T) {
	t.Parallel()
	var dialed, asked, mine atomic.Int64
	passwordless := func(_ context.Context, c *pgx.ConnConfig) error {
		asked.Add(1)
		c.RuntimeParams["search_path"] = "public"
		return nil
	}
	pool := userPool(t, pgtest.URL(t), func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed.Add(1)
			return dial(ctx, network, address)
		}
		c.BeforeConnect = passwordless
		c.AfterConnect = func(context.Context, *pgx.Conn) error { mine.Add(1); return nil }
		c.BeforeClose = func(*pgx.Conn) { mine.Add(-1) }
		c.AfterRelease = func(*pgx.Conn) bool { return true }
		c.ConnConfig.Tracer = eavesdropper{t}
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { t.Error("the pool hears hints of Pawl") }
		c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.StatementCacheCapacity = pgx.QueryExecModeCacheDescribe, 0
		c.MaxConns, c.MinConns = 1, 0
	})
	before := pool.Config()
	db, err := Open(t.Context(), Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	held, err := pool.Acquire(t.Context()) // all that the pool has: Pawl needs none of it
	if err != nil {
		t.Fatal(err)
	}
	release, err := db.Hold(t.Context(), "worker/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), Config{URL: pool.Config().ConnString()})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan store.Topic, len(topics))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- db.Listen(ctx, func(h store.Hint) { heard <- h.Topic; cancel() }) }()
	eventually(t, "the handle hears hints", db.Hears)
	other.Wake(0, store.TopicMarks)
	if err := <-over; err != nil || len(heard) != 1 {
		t.Errorf("%d hints were heard of another handle, %v", len(heard), err)
	}
	release()
	held.Release()
	for _, db := range []*DB{db, other} {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if dialed.Load() < 5 || asked.Load() != dialed.Load() || mine.Load() != 1 {
		t.Errorf("%d connections were dialed, BeforeConnect was called for %d, and %d were taken for the pool's; want all of Pawl's dialed and asked, and one", dialed.Load(), asked.Load(), mine.Load())
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool does not work any more: %v", err)
	}
	if after := pool.Config(); after.MaxConns != before.MaxConns || after.AfterConnect == nil || after.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheDescribe {
		t.Errorf("the pool has changed: %+v", after)
	}
}

func TestPoolRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		set  func(*pgxpool.Config)
		want string
	}{
		"simple protocol": {func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
			"DefaultQueryExecMode of the pool: simple protocol: want cache statement, cache describe or describe exec"},
		"exec": {func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
			"DefaultQueryExecMode of the pool: exec: want"},
		"another schema": {func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "create schema if not exists other; set search_path to other")
				return err
			}
		}, "schema other; Pawl, which does not call them, works on"},
		"a password that cannot be had": {func(c *pgxpool.Config) {
			c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return context.DeadlineExceeded }
		}, "cannot connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := Open(t.Context(), Config{Pool: userPool(t, pgtest.URL(t), tt.set)})
			if err == nil {
				db.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || name != "a password that cannot be had" && pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("%v; want an error with %q", err, tt.want)
			}
		})
	}
}
