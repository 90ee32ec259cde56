package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const (
	// How often a process looks whether the schema is still its own. On PostgreSQL
	// a hint tells it at once.
	guardSQLite   = 2 * time.Second
	guardPostgres = 2 * time.Minute
	// partLimit is how long it may take to stop when it is not: what it says to
	// the database may fail for ever. It leaves then, as if it were killed.
	partLimit = 3 * time.Second
)

// guarded runs f until the schema is of another version than this program's: its
// context ends then, and the error says so.
func (a *app) guarded(ctx context.Context, l *ledger, f func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var guard sync.WaitGroup
	guard.Go(func() { a.guard(ctx, l, end) })
	err := f(ctx)
	end(nil)
	guard.Wait()
	var moved *movedError
	if errors.As(context.Cause(ctx), &moved) {
		if err != nil {
			a.log.Warn("stopping failed after the schema was migrated", "error", err)
		}
		return moved.error
	}
	return err
}

// A movedError says that the schema is no longer of this program's version.
type movedError struct{ error }

func (a *app) guard(ctx context.Context, l *ledger, end context.CancelCauseFunc) {
	every := guardPostgres
	if l.database.postgres == "" {
		every = guardSQLite
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.engine.Migrated():
		}
		current, newest, err := l.store.Version(ctx)
		switch {
		case err != nil: // the database is away; whoever needs it says so
		case current != newest:
			err := moved(current, newest)
			time.AfterFunc(partLimit, func() { a.exit(complain(a.stderr, err)) })
			end(&movedError{err})
			return
		}
	}
}

func moved(current, newest int) error {
	hint := "start the newer pawl"
	if current < newest {
		hint = "run pawl migrate up, and start it again"
	}
	return &pawl.Error{Kind: pawl.Conflict, Hint: hint,
		Message: fmt.Sprintf("the database was migrated to schema version %d, and this process needs %d: it has stopped", current, newest)}
}

// A living schema can say who uses the database.
type living interface {
	Alive(ctx context.Context) ([]string, error)
}

var (
	_ living = (*postgres.Schema)(nil)
	_ living = (*sqlite.DB)(nil)
)

// unused refuses to migrate a database that processes use.
func (a *app) unused(ctx context.Context, m store.Migrator, word string) error {
	names, err := m.(living).Alive(ctx)
	if err != nil || len(names) == 0 {
		return err
	}
	const most = 3
	shown := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		shown += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: "processes use the database: " + shown,
		Hint: fmt.Sprintf("stop them first; or migrate all the same, and they stop by themselves: pawl migrate %s --force%s", word, a.given)}
}
