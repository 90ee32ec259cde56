package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// A database is what the members share.
type database interface {
	// open opens it for the harness, unaffected by faults of the network.
	open(ctx context.Context) (store.Store, error)
	// name is the database's name for a process, through its proxy if there is one; direct is
	// its name without proxies.
	name(p *proxy) string
	direct() string
	// host is where a new process runs, and clock is the host whose clock the database uses.
	host() *host
	clock() *host
	// inspect fails with a final error if a query could overlook a record. That must never be
	// so, whatever was killed.
	inspect(ctx context.Context) error
	// proxy makes a proxy to it, or nil.
	proxy() (*proxy, error)
	close() error // when all processes have ended
}

// A postgresDatabase is a database on a PostgreSQL of its own.
type postgresDatabase struct {
	cluster *pgtest.Cluster
	url     *url.URL
	steps   bool  // the clocks of its processes may be stepped
	own     *host // of the database
}

// newPostgres makes an empty database on the cluster.
func newPostgres(ctx context.Context, c *config, name string) (*postgresDatabase, error) {
	u, err := url.Parse(c.cluster.URL)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, c.cluster.URL)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{"drop database if exists " + name + " with (force)", "create database " + name + " template template0"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	u.Path = "/" + name
	return &postgresDatabase{cluster: c.cluster, url: u, steps: c.steps, own: newHost(false)}, nil
}

func (d *postgresDatabase) direct() string { return d.url.String() }

func (d *postgresDatabase) name(p *proxy) string {
	u := *d.url
	u.Host = p.address()
	return u.String()
}

func (d *postgresDatabase) open(ctx context.Context) (store.Store, error) {
	return postgres.Open(ctx, postgres.Config{URL: d.direct()})
}

func (d *postgresDatabase) inspect(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, d.direct())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	wrong, err := pgtest.Misplaced(ctx, conn)
	if err == nil && len(wrong) > 0 {
		return pawl.Errorf(pawl.Invalid, "out of line: %s", strings.Join(wrong, "; "))
	}
	return err
}

func (d *postgresDatabase) host() *host  { return newHost(d.steps) }
func (d *postgresDatabase) clock() *host { return d.own }

func (d *postgresDatabase) proxy() (*proxy, error) { return newProxy(d.url.Host) }

func (d *postgresDatabase) close() error { return nil }

// crash kills PostgreSQL and starts it again on the same data.
func (d *postgresDatabase) crash(ctx context.Context, away time.Duration) error {
	d.cluster.Kill()
	sleep.For(ctx, away)
	var err error
	for range 5 { // resources shared with its dead processes may not be free yet
		if err = d.cluster.Restart(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// A sqliteDatabase is a file, on a small disk of its own if possible.
type sqliteDatabase struct {
	dir  string
	disk *disk
	own  *host // of all
}

func newSQLite(c *config, dir string) (*sqliteDatabase, error) {
	d := &sqliteDatabase{dir: filepath.Join(dir, "disk"), own: newHost(c.steps)}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return nil, err
	}
	d.disk = mountDisk(d.dir)
	return d, nil
}

func (d *sqliteDatabase) path() string                { return filepath.Join(d.dir, "pawl.db") }
func (d *sqliteDatabase) direct() string              { return "sqlite://" + d.path() }
func (d *sqliteDatabase) name(*proxy) string          { return d.direct() }
func (d *sqliteDatabase) host() *host                 { return d.own }
func (d *sqliteDatabase) clock() *host                { return d.own }
func (*sqliteDatabase) inspect(context.Context) error { return nil }
func (*sqliteDatabase) proxy() (*proxy, error)        { return nil, nil }

func (d *sqliteDatabase) open(ctx context.Context) (store.Store, error) {
	return sqlite.Open(ctx, sqlite.Config{Path: d.path(), Clock: d.own.now})
}

// close leaves a copy where the disk was mounted, to investigate a failure.
func (d *sqliteDatabase) close() error {
	if !d.disk.mounted {
		return nil
	}
	return errors.Join(os.CopyFS(d.dir+"-copy", os.DirFS(d.dir)), d.disk.unmount())
}

// eventually retries until do succeeds, ctx ends, or the error is final.
func eventually(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || final(err) {
			return err
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
}
