package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A decision reads nothing, since it runs under row locks on one of the few connections for
// transactions. A command that needs a definition that is not in memory is refused with a
// *need. The goroutine that waits for the command then reads the definition, outside the
// transaction, and has the command decided again.

// maxNeeds bounds how often one call reads definitions for its commands. Once is enough,
// unless so many other definitions are used meanwhile that these are evicted.
const maxNeeds = 8

// A need is the refusal of a command whose definitions are not in memory.
type need struct{ definitions []rowkey.Definition }

func (n *need) Error() string {
	return fmt.Sprintf("the definitions %d are not in memory", n.definitions)
}

// do commits the commands together and returns the error of each. It returns early, with
// the commands still in progress, only if ctx ends. Commands that need definitions are
// committed again once these have been read; the others stand.
func (c *committer) do(ctx context.Context, cmds ...command) ([]error, error) {
	errs, err := c.together(ctx, cmds, nil)
	faults := make(map[rowkey.Definition]error)
	for range maxNeeds {
		again, keys := needy(errs)
		if err != nil || len(again) == 0 {
			return errs, err
		}
		if err := c.supply(ctx, keys, faults); err != nil {
			return refuse(errs, again, err), ctx.Err()
		}
		rest := make([]command, len(again))
		for i, at := range again {
			rest[i] = cmds[at]
		}
		var further []error
		if further, err = c.together(ctx, rest, faults); err != nil {
			return nil, err
		}
		for i, at := range again {
			errs[at] = further[i]
		}
	}
	if again, _ := needy(errs); len(again) > 0 {
		refuse(errs, again, &pawl.Error{Kind: pawl.Unavailable, Message: "too many workflows are in use at once", Hint: "try again"})
	}
	return errs, err
}

// refuse sets an error for some commands that they did not cause themselves.
func refuse(errs []error, some []int, err error) []error {
	for _, i := range some {
		errs[i] = &link.CommitError{Err: err}
	}
	return errs
}

// needy returns the commands that need definitions, and the keys of these.
func needy(errs []error) (commands []int, keys []rowkey.Definition) {
	for i, err := range errs {
		if err == nil {
			continue // errors.As has to allocate n
		}
		var n *need
		if errors.As(err, &n) {
			commands, keys = append(commands, i), append(keys, n.definitions...)
		}
	}
	slices.Sort(keys)
	return commands, slices.Compact(keys)
}

// supply reads definitions into memory. A definition that cannot be read is a fault: the
// commands are decided without it. An error means that the database is unavailable.
func (e *Engine) supply(ctx context.Context, keys []rowkey.Definition, faults map[rowkey.Definition]error) error {
	for _, key := range keys {
		switch _, err := e.defs.Get(ctx, key); {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case store.Unreadable(err):
			faults[key] = err
		default:
			return err
		}
	}
	return nil
}
