package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// A database is where the jobs are, as the flag or the environment names it.
type database struct {
	address.Address
	fallback bool // nobody named it: the default file
}

// parseDatabase reads how the database is named. An empty name is the default
// file of the given state folder.
func parseDatabase(name, stateDir string) (database, error) {
	if name == "" {
		return database{Address: address.Address{Path: filepath.Join(stateDir, "pawl", "pawl.db")}, fallback: true}, nil
	}
	db, err := address.Parse(name)
	if e := (*pawl.Error)(nil); errors.As(err, &e) {
		return database{}, usage(e.Hint, "--database: %s", e.Message)
	}
	return database{Address: db}, err
}

// stateHome returns the folder of what this user's programs keep, or a path that is
// not absolute if nothing says where that is.
func (a *app) stateHome() string {
	if state := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return state
	}
	return filepath.Join(a.getenv("HOME"), ".local", "state")
}

// named returns the database that the flags and the environment name.
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
	if d.fallback {
		if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
			return &pawl.Error{Kind: kindOfFile(err), Message: fmt.Sprintf("cannot make the folder of the database: %v", err), Hint: "name another database with --database or PAWL_DATABASE"}
		}
		return nil
	}
	err := d.Check()
	if e := (*pawl.Error)(nil); errors.As(err, &e) {
		return usage(e.Hint+" with --database", "%s", e.Message)
	}
	return err
}

// existing returns an error if the database that was named is a file that is not there:
// who reads, or changes what is there, makes none.
func (a *app) existing() error {
	db, err := a.named()
	if err != nil || db.Postgres != "" || db.Memory() || exists(db.Path) {
		return err
	}
	hint := "pawl run, pawl submit and pawl dev make it"
	if !db.fallback {
		if err := db.prepare(); err != nil {
			return err
		}
		hint = "name another one with --database or PAWL_DATABASE; pawl run, pawl submit and pawl dev make a new one"
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no database " + console.Shell(db.Path), Hint: hint}
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
	s, err := db.Open(ctx, a.silence, a.log)
	return s, db, err
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
	if db.Postgres != "" {
		s, err := postgres.OpenSchema(ctx, postgres.Config{URL: db.Postgres, Log: a.log})
		return s, db, func() error { return nil }, err
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: db.Path, Synchronous: db.Synchronous, AnyVersion: true, Log: a.log})
	if err != nil {
		return nil, db, nil, fmt.Errorf("open the database for migration: %w", err)
	}
	return s, db, s.Close, nil
}
