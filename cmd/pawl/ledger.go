package main

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
)

// A ledger is the database and an engine on it, in this process.
type ledger struct {
	store    store.Store
	engine   *engine.Engine
	client   *client.Client // of the engine
	database database
}

// openLedger opens the database and starts an engine on it. The caller closes
// it. A passive engine leaves all work to other processes.
func (a *app) openLedger(ctx context.Context, passive bool) (*ledger, error) {
	return a.openEngine(ctx, engine.Config{Passive: passive})
}

// openEngine opens the database and starts an engine on it as c says.
func (a *app) openEngine(ctx context.Context, c engine.Config) (*ledger, error) {
	s, db, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	c.Store, c.Log = s, a.log
	c.Lanes = db.Lanes()
	e, err := engine.Open(c)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &ledger{store: s, engine: e, client: a.client(e), database: db}, nil
}

// client returns a client of an engine on behalf of who calls this command.
func (a *app) client(e *engine.Engine) *client.Client {
	return client.Over(e, client.Config{Workspace: a.workspace, Actor: a.actor()}, nil)
}

func (l *ledger) close() error {
	l.engine.Close()
	return l.store.Close()
}

// with reaches a database that exists, for the length of f.
func (a *app) with(ctx context.Context, f func(*client.Client) error) error {
	if err := a.existing(); err != nil {
		return err
	}
	return a.withNew(ctx, f)
}

// withNew is with for commands that may be the first on their database.
func (a *app) withNew(ctx context.Context, f func(*client.Client) error) (err error) {
	l, err := a.openLedger(ctx, true)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.close(); err == nil {
			err = e
		}
	}()
	return f(l.client)
}
