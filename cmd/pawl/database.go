package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// A database is where the jobs are, as the flag or the environment names it.
type database struct {
	postgres    string // URL; empty for SQLite
	path        string // of the SQLite file, or :memory:
	synchronous string // empty is the default
	fallback    bool   // nobody named it: the default file
}

const databaseHint = "want sqlite:///path, sqlite::memory:, a path, or postgres://user@host/database"

// parseDatabase reads how the database is named. An empty name is the default
// file of the given state folder.
func parseDatabase(name, stateDir string) (database, error) {
	if name == "" {
		return database{path: filepath.Join(stateDir, "pawl", "pawl.db"), fallback: true}, nil
	}
	if strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://") {
		_, rest, _ := strings.Cut(name, "://")
		rest, _, _ = strings.Cut(rest, "?")
		if authority, _, _ := strings.Cut(rest, "/"); strings.Count(rest, "@") > 1 || strings.Contains(rest, "@") && !strings.Contains(authority, "@") {
			return database{}, usage("write @ as %40, / as %2F and ? as %3F in a user or a password", "--database: the URL has an unescaped character in its user or password")
		}
		return database{postgres: name}, nil
	}
	if rest, ok := strings.CutPrefix(name, "sqlite:"); ok {
		return parseSQLite(strings.TrimPrefix(rest, "//"))
	}
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return database{}, usage(databaseHint, "--database: %q is not a kind of database", scheme)
	}
	return database{path: name}, nil
}

func parseSQLite(rest string) (database, error) {
	path, query, _ := strings.Cut(rest, "?")
	if path == "" {
		return database{}, usage(databaseHint, "--database names no file")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return database{}, usage(databaseHint, "--database: %q is not a query", query)
	}
	db := database{path: path}
	for key := range values {
		if key != "synchronous" {
			return db, usage("known is synchronous=full and synchronous=normal", "--database: unknown parameter %q", key)
		}
		db.synchronous = strings.ToLower(values.Get(key))
	}
	if s := db.synchronous; s != "" && s != sqlite.Full && s != sqlite.Normal {
		return db, usage("", "--database: synchronous %q: want %s or %s", s, sqlite.Full, sqlite.Normal)
	}
	return db, nil
}

// String names the database for people, without the password.
func (d database) String() string {
	if d.postgres == "" {
		return d.path
	}
	u, err := url.Parse(d.postgres)
	if err != nil {
		return "postgres"
	}
	return u.Redacted()
}

func (d database) memory() bool { return d.path == ":memory:" }

// stateHome answers the folder of what this user's programs keep, or a path that is
// not absolute if nothing says where that is.
func (a *app) stateHome() string {
	if state := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return state
	}
	return filepath.Join(a.getenv("HOME"), ".local", "state")
}

// named answers the database that the flags and the environment name.
func (a *app) named() (database, error) {
	state := a.stateHome()
	if a.database == "" && !filepath.IsAbs(state) {
		return database{}, usage("name a database with --database or PAWL_DATABASE", "neither XDG_STATE_HOME nor HOME says where the database is")
	}
	return parseDatabase(a.database, state)
}

// prepare makes the folder of the default file, which nobody else may enter,
// and checks the folder of any other.
func (d database) prepare() error {
	if d.postgres != "" || d.memory() {
		return nil
	}
	dir := filepath.Dir(d.path)
	if d.fallback {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return &pawl.Error{Kind: kindOfFile(err), Message: fmt.Sprintf("cannot make the folder of the database: %v", err), Hint: "name another database with --database or PAWL_DATABASE"}
		}
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usage("make it, or name another database with --database", "the folder of the database does not exist: %s", dir)
	}
	if info, err := os.Stat(d.path); err == nil && info.IsDir() {
		return usage("name a file in it with --database", "the database %s is a folder", d.path)
	}
	return nil
}

// existing returns an error if the database that was named is a file that is not there:
// who reads, or changes what is there, makes none.
func (a *app) existing() error {
	db, err := a.named()
	if err != nil || db.postgres != "" || db.memory() || exists(db.path) {
		return err
	}
	hint := "pawl run, pawl submit and pawl dev make it"
	if !db.fallback {
		if err := db.prepare(); err != nil {
			return err
		}
		hint = "name another one with --database or PAWL_DATABASE; pawl run, pawl submit and pawl dev make a new one"
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no database " + shell(db.path), Hint: hint}
}

// openExisting opens a database that exists. The caller closes it.
func (a *app) openExisting(ctx context.Context) (store.Store, error) {
	if err := a.existing(); err != nil {
		return nil, err
	}
	s, _, err := a.openStore(ctx)
	return s, err
}

// openStore opens the database that was named, or makes it. The caller closes it.
func (a *app) openStore(ctx context.Context) (store.Store, database, error) {
	db, err := a.named()
	if err != nil {
		return nil, db, err
	}
	if err := db.prepare(); err != nil {
		return nil, db, err
	}
	if db.postgres != "" {
		s, err := postgres.Open(ctx, postgres.Config{URL: db.postgres, Silence: a.silence, Log: a.log})
		if err != nil {
			return nil, db, err
		}
		return s, db, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: db.path, Synchronous: db.synchronous, Log: a.log})
	if err != nil {
		return nil, db, err
	}
	return s, db, nil
}

// openSchema opens the database for migrations, whatever its version. The
// caller calls done.
func (a *app) openSchema(ctx context.Context) (m store.Migrator, db database, done func() error, err error) {
	if db, err = a.named(); err != nil {
		return nil, db, nil, err
	}
	if err := db.prepare(); err != nil {
		return nil, db, nil, err
	}
	if db.postgres != "" {
		s, err := postgres.OpenSchema(ctx, postgres.Config{URL: db.postgres, Log: a.log})
		return s, db, func() error { return nil }, err
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: db.path, Synchronous: db.synchronous, AnyVersion: true, Log: a.log})
	if err != nil {
		return nil, db, nil, fmt.Errorf("open the database for migration: %w", err)
	}
	return s, db, s.Close, nil
}
