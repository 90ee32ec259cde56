package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// partLimit is how long the work may take to stop once the schema no longer fits this program:
// its calls to the database may fail forever. After that the process exits as if it were
// killed.
const partLimit = 3 * time.Second

// A Guard stops work on a database whose schema was migrated to a version that this program
// does not work on.
type Guard struct {
	Store    store.Store
	Migrated <-chan struct{} // signals a migration at once
	Every    time.Duration   // time between two checks
	Log      *slog.Logger
	Leave    func(error) // ends the process if the work takes too long to stop
}

// Run runs f until the schema has a version that this program does not work on. It then ends
// the context of f and returns a MigratedError.
func (g *Guard) Run(ctx context.Context, f func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { g.watch(ctx, end) })
	err := f(ctx)
	end(nil)
	watching.Wait()
	var moved *MigratedError
	if errors.As(context.Cause(ctx), &moved) {
		if err != nil {
			g.Log.Warn("stopping failed after the schema was migrated", "error", err)
		}
		return moved
	}
	return err
}

func (g *Guard) watch(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(g.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-g.Migrated:
		}
		var moved *MigratedError
		if err := fits(ctx, g.Store); errors.As(err, &moved) { // else out of reach, which the work reports
			time.AfterFunc(partLimit, func() { g.Leave(moved) })
			end(moved)
			return
		}
	}
}

// A MigratedError says that this program no longer works on the schema. It is of kind
// Conflict.
type MigratedError struct{ Current, Newest int }

func (e *MigratedError) Error() string { return e.Unwrap().Error() }

func (e *MigratedError) Unwrap() error {
	return pawl.Errorf(pawl.Conflict, "the database was migrated to schema version %d, and this process needs %d: it has stopped", e.Current, e.Newest)
}

// fits returns a MigratedError if the schema was migrated to a version that this program does
// not work on.
func fits(ctx context.Context, s store.Store) error {
	err := s.Fits(ctx)
	if pawl.KindOf(err) != pawl.Conflict {
		return err
	}
	current, newest, err := s.Version(ctx)
	if err != nil {
		return err
	}
	return &MigratedError{current, newest}
}
