package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
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

// guarded runs f until the schema is of a version that this program does not work on:
// its context ends then, and the error says so.
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

// A movedError says that this program no longer works on the schema.
type movedError struct{ error }

func (a *app) guard(ctx context.Context, l *ledger, end context.CancelCauseFunc) {
	every := guardPostgres
	if l.database.Postgres == "" {
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
		if err := l.moved(ctx); pawl.KindOf(err) == pawl.Conflict { // else it is out of reach; whoever needs it says so
			time.AfterFunc(partLimit, func() { a.exit(complain(a.stderr, err)) })
			end(&movedError{err})
			return
		}
	}
}

// moved returns an error of kind Conflict if the schema was migrated to a version that
// this program does not work on.
func (l *ledger) moved(ctx context.Context) error {
	err := l.store.Fits(ctx)
	if pawl.KindOf(err) != pawl.Conflict {
		return err
	}
	current, newest, err := l.store.Version(ctx)
	if err != nil {
		return err
	}
	hint := "start the newer pawl"
	if current < newest {
		hint = "run pawl migrate up, and start it again"
	}
	return &pawl.Error{Kind: pawl.Conflict, Hint: hint,
		Message: fmt.Sprintf("the database was migrated to schema version %d, and this process needs %d: it has stopped", current, newest)}
}

// A living schema can say who uses the database.
type living interface {
	// Unfit names those whose programs would not work while it is migrated to a
	// version, or after that.
	Unfit(ctx context.Context, to int) ([]string, error)
}

var (
	_ living = (*postgres.Schema)(nil)
	_ living = (*sqlite.DB)(nil)
)

// unused refuses to migrate a database that processes use which that would stop.
func (a *app) unused(ctx context.Context, m store.Migrator, word string, to int) error {
	names, err := m.(living).Unfit(ctx, to)
	if err != nil || len(names) == 0 {
		return err
	}
	const most = 3
	shown := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		shown += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: "processes use the database that do not work with that version: " + shown,
		Hint: fmt.Sprintf("stop them first; or migrate all the same, and they stop by themselves: pawl migrate %s --to %d --force%s", word, to, a.given)}
}
