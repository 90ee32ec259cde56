package local_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/internal/trail"
)

// A user is a program with a table of its own in the database of Pawl, "mine", and the
// kind of driver by which it reaches that.
type user struct {
	kind, where string
	begin       func(context.Context) (*userTx, error)
	close       func() error
}

// A userTx is a transaction of the user, in the form of its driver.
type userTx struct {
	tx               any
	exec             func(ctx context.Context, statement string) error
	count            func(ctx context.Context, query string) (n int, err error)
	commit, rollback func() error
}

// openUser connects a user of a kind: "sqlite", "pgx", or database/sql with another of two
// drivers: "sql" is pgx's, "pq" is lib/pq.
func openUser(ctx context.Context, kind, where string) (*user, error) {
	switch kind {
	case "sqlite":
		return openSQL(kind, where, "sqlite", "file:"+where+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	case "sql":
		return openSQL(kind, where, "pgx", where)
	case "pq":
		return openSQL(kind, where, "postgres", where)
	}
	pool, err := pgxpool.New(ctx, where)
	if err != nil {
		return nil, err
	}
	begin := func(ctx context.Context) (*userTx, error) { return beginPgx(ctx, pool, pgx.TxOptions{}) }
	return &user{kind: kind, where: where, begin: begin, close: func() error { pool.Close(); return nil }}, nil
}

func openSQL(kind, where, driver, source string) (*user, error) {
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	return &user{kind: kind, where: where, close: db.Close, begin: func(ctx context.Context) (*userTx, error) {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return nil, err
		}
		return &userTx{tx: tx, commit: tx.Commit, rollback: tx.Rollback,
			exec: func(ctx context.Context, statement string) error {
				_, err := tx.ExecContext(ctx, statement)
				return err
			},
			count: func(ctx context.Context, query string) (n int, err error) {
				return n, tx.QueryRowContext(ctx, query).Scan(&n)
			}}, nil
	}}, nil
}

// beginPgx begins a transaction on a pool, or on a connection.
func beginPgx(ctx context.Context, on interface {
	BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)
}, o pgx.TxOptions) (*userTx, error) {
	tx, err := on.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &userTx{tx: tx,
		commit:   func() error { return tx.Commit(context.Background()) },
		rollback: func() error { return tx.Rollback(context.Background()) },
		exec: func(ctx context.Context, statement string) error {
			_, err := tx.Exec(ctx, statement)
			return err
		},
		count: func(ctx context.Context, query string) (n int, err error) {
			return n, tx.QueryRow(ctx, query).Scan(&n)
		}}, nil
}

// onUsers runs f for each kind of user, with a database of its own.
func onUsers(t *testing.T, f func(t *testing.T, u *user)) {
	t.Helper()
	on := func(kind string, where func() string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			at := where()
			open(t, at, passive).Close() // makes the tables
			u, err := openUser(context.Background(), kind, at)
			must(t, err)
			t.Cleanup(func() { must(t, u.close()) })
			u.do(t, "create table mine (n bigint)")
			f(t, u)
			verified(t, at)
		}
	}
	t.Run("sqlite", on("sqlite", func() string { return filepath.Join(t.TempDir(), "pawl.db") }))
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []string{"pgx", "sql", "pq"} {
			t.Run(kind, on(kind, func() string { return pgtest.URL(t) }))
		}
	})
}

// shared reports whether an open transaction lets others write.
func (u *user) shared() bool { return u.kind != "sqlite" }

// open begins a transaction, which is rolled back at the end of the test at the latest.
func (u *user) open(t *testing.T) *userTx {
	t.Helper()
	tx, err := u.begin(context.Background())
	must(t, err)
	t.Cleanup(func() { _ = tx.rollback() })
	return tx
}

// do commits one statement.
func (u *user) do(t *testing.T, statement string) {
	t.Helper()
	tx := u.open(t)
	must(t, errors.Join(tx.exec(t.Context(), statement), tx.commit()))
}

// rows returns how many rows the user's table has.
func (u *user) rows(t *testing.T) int {
	t.Helper()
	tx := u.open(t)
	n, err := tx.count(t.Context(), "select count(*) from mine")
	must(t, errors.Join(err, tx.rollback()))
	return n
}

// verified checks all trails of a database (K6).
func verified(t *testing.T, where string) {
	t.Helper()
	ctx := context.Background()
	at, err := address.Parse(where)
	must(t, err)
	s, err := at.Open(ctx, 0, nil)
	must(t, err)
	defer s.Close()
	v := trail.Verifier{Views: s}
	err = s.Trails(ctx, 0, func(trail store.TrailOf) error {
		fault, err := v.Take(ctx, trail)
		if fault != nil {
			t.Errorf("%s: %v", trail.ID, fault)
		}
		return err
	})
	must(t, err)
	fault, err := v.End(ctx)
	must(t, err)
	if fault != nil {
		t.Error(fault)
	}
}

// holds fails the test unless an error is of a kind and says something.
func holds(t *testing.T, err error, kind any, says string) {
	t.Helper()
	if err == nil || kindOf(err) != kind || !strings.Contains(err.Error(), says) {
		t.Errorf("%v (%v); want an error of kind %v with %q", err, kindOf(err), kind, says)
	}
}
