package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/address"
)

// A database is the location of the jobs, as the flag or the environment names it.
type database struct {
	address.Address
	fallback bool // the default file, since none was named
}

// parseDatabase parses the name of a database. An empty name is the default file of the given
// state folder.
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

// stateHome returns the folder for the data of this user's programs. If it cannot be
// determined, the error says what has no place, and carries the hint.
func (a *app) stateHome(hint, what string) (string, error) {
	if state := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return state, nil
	}
	state := filepath.Join(a.getenv("HOME"), ".local", "state")
	if !filepath.IsAbs(state) {
		return "", usage(hint, "neither XDG_STATE_HOME nor HOME says where %s", what)
	}
	return state, nil
}

// named returns the database that the flags and the environment name.
func (a *app) named() (database, error) {
	state, err := a.stateHome("name a database with --database or PAWL_DATABASE", "the database is")
	if a.database == "" && err != nil {
		return database{}, err
	}
	return parseDatabase(a.database, state)
}

// prepare makes the folder of the default file, private to this user, and checks the folder of
// any other file.
func (d database) prepare() error {
	if d.fallback {
		if err := os.MkdirAll(filepath.Dir(d.Path), 0o700); err != nil {
			return &pawl.Error{Kind: files.KindOf(err), Message: fmt.Sprintf("cannot create the folder of the database: %v", err), Hint: "name another database with --database or PAWL_DATABASE"}
		}
		return nil
	}
	err := d.Check()
	if e := (*pawl.Error)(nil); errors.As(err, &e) {
		return usage(e.Hint+" with --database", "%s", e.Message)
	}
	return err
}

// existing returns an error if the named database is a file that does not exist: commands that
// read or change existing data do not create one.
func (a *app) existing() error {
	db, err := a.named()
	if err != nil || db.Exists() {
		return err
	}
	hint := "pawl run, pawl submit and pawl dev create it"
	if !db.fallback {
		if err := db.prepare(); err != nil {
			return err
		}
		hint = "name another one with --database or PAWL_DATABASE; pawl run, pawl submit and pawl dev create a new one"
	}
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no database " + console.Shell(db.Path), Hint: hint}
}

// withStore runs f on the store of a database that exists.
func (a *app) withStore(ctx context.Context, f func(store.Store) error) (err error) {
	if err := a.existing(); err != nil {
		return err
	}
	s, _, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return f(s)
}

// openStore opens the named database, or creates it. The caller closes it.
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

// A ledger is the database and an engine on it, in this process.
type ledger struct {
	store    store.Store
	engine   *engine.Engine
	client   *client.Client // of the engine
	database database
	file     *durable.Presence // of the database; nil on PostgreSQL
	leave    func(error)       // ends this process at once
}

// openLedger opens the database and starts an engine on it. The caller closes it. A passive
// engine leaves all work to other processes.
func (a *app) openLedger(ctx context.Context, passive bool) (*ledger, error) {
	return a.openEngine(ctx, engine.Config{Passive: passive})
}

// openEngine opens the database and starts an engine on it with the configuration c.
func (a *app) openEngine(ctx context.Context, c engine.Config) (_ *ledger, err error) {
	if a.secretKey != "" {
		if c.Webhooks.Ring, err = keyring.Read(a.secretKey); err != nil {
			return nil, err
		}
	}
	s, db, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	var file *durable.Presence
	if db.Folder() != "" {
		if file, err = durable.Seen(db.Path); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	c.Store, c.Log = s, a.log
	c.Lanes = db.Lanes()
	e, err := engine.Open(c)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &ledger{store: s, engine: e, client: a.client(e), database: db, file: file, leave: func(err error) { a.exit(complain(a.stderr, err)) }}, nil
}

// client returns a client of an engine that acts for the user of this command.
func (a *app) client(e *engine.Engine) *client.Client {
	return client.Over(e, client.Config{Workspace: a.workspace, Actor: a.actor()}, nil)
}

func (l *ledger) close() error {
	l.engine.Close()
	return l.store.Close()
}

// onLedger runs f on the database with an engine; see openLedger. The context of f ends, and there is a
// *durable.GoneError, if the file of the database is gone.
func (a *app) onLedger(ctx context.Context, passive bool, f func(context.Context, *ledger) error) (err error) {
	l, err := a.openLedger(ctx, passive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return l.while(ctx, func(ctx context.Context) error { return f(ctx, l) })
}

// goneLimit is how long the work may take to stop once the file of the database is gone: each commit of it is
// lost.
const goneLimit = 3 * time.Second

// while runs f as long as the file of the database is there.
func (l *ledger) while(ctx context.Context, f func(context.Context) error) error {
	if l.file == nil {
		return f(ctx)
	}
	err := l.file.While(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			if gone := durable.Gone(ctx); gone != nil {
				time.AfterFunc(goneLimit, func() { l.leave(l.unrestored(gone)) })
			}
		})()
		return f(ctx)
	})
	if gone := (*durable.GoneError)(nil); errors.As(err, &gone) {
		return l.unrestored(gone)
	}
	return err
}

// unrestored returns the error with the hint how to put a file into the place of the one that is gone.
func (l *ledger) unrestored(gone *durable.GoneError) error {
	hinted := *gone
	log, index := console.Shell(l.database.Path+"-wal"), console.Shell(l.database.Path+"-shm")
	hinted.Hint = "before another file is in its place, and before anything starts on it: rm -f " + log + " " + index
	return &hinted
}

// with calls f with a client of the server, or of an existing database. The context of f ends, and there is a
// *durable.GoneError, if the file of that is gone.
func (a *app) with(ctx context.Context, f func(context.Context, *client.Client) error) error {
	if a.server != "" {
		return a.withNew(ctx, f)
	}
	if err := a.existing(); err != nil {
		return err
	}
	return a.withNew(ctx, f)
}

// withNew is with for commands that may create the database.
func (a *app) withNew(ctx context.Context, f func(context.Context, *client.Client) error) error {
	if a.server != "" {
		return a.onServer(ctx, func(cl *client.Client) error { return f(ctx, cl) })
	}
	return a.onLedger(ctx, true, func(ctx context.Context, l *ledger) error { return f(ctx, l.client) })
}

// A workdir says where submitted jobs have their folders, and how long these are kept.
type workdir struct {
	root string // empty: in the folder for the data of this user's programs
	keep bool
}

func (w *workdir) bind(c *cobra.Command) {
	c.Flags().StringVar(&w.root, "workdir", "",
		"the folder in which submitted jobs get theirs; default ~/.local/state/pawl/work")
	c.Flags().BoolVar(&w.keep, "keep-workdir", false, "keep the folders of jobs that have ended")
}

// of returns the parent folder of the folders of a database's jobs: no two databases share
// one.
func (w *workdir) of(a *app, db database) (string, error) {
	label, err := db.Label()
	if err != nil {
		return "", err
	}
	return w.named(a, label)
}

// named is of for what has a label: a database, or a server.
func (w *workdir) named(a *app, label string) (string, error) {
	root := w.root
	if root == "" {
		state, err := a.stateHome("name a folder with --workdir", "jobs get their folders")
		if err != nil {
			return "", err
		}
		root = filepath.Join(state, "pawl", "work")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find --workdir: %w", err)
	}
	return filepath.Join(root, label), nil
}
