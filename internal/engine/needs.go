package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A decision reads nothing: it is made under row locks, on one of the few connections
// that transactions have. A command that meets a definition that is not in memory is
// refused with a *need. The committer reads the definition afterwards, as the caller
// who waits for the command, and then decides it anew.

// maxNeeds bounds how often one call reads definitions for its commands. Once is
// enough, unless so many others are used meanwhile that they are forgotten again.
const maxNeeds = 8

// A need is the refusal of a command whose definitions are not in memory.
type need struct{ definitions []rowkey.Definition }

func (n *need) Error() string {
	return fmt.Sprintf("the definitions %d are not in memory", n.definitions)
}

// do commits the commands together and returns the error of each. It returns early,
// with the commands still on their way, only if ctx ends. Those that need definitions
// are committed again when these have been read; the others stand.
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

// refuse gives some commands an error that is not of their making.
func refuse(errs []error, some []int, err error) []error {
	for _, i := range some {
		errs[i] = &link.CommitError{Err: err}
	}
	return errs
}

// needy returns the commands that need definitions, and which.
func needy(errs []error) (commands []int, keys []rowkey.Definition) {
	for i, err := range errs {
		var n *need
		if errors.As(err, &n) {
			commands, keys = append(commands, i), append(keys, n.definitions...)
		}
	}
	slices.Sort(keys)
	return commands, slices.Compact(keys)
}

// supply reads definitions into memory. One that cannot be read is a fault: the
// commands are decided without it. An error means that the database is away.
func (e *Engine) supply(ctx context.Context, keys []rowkey.Definition, faults map[rowkey.Definition]error) error {
	for _, key := range keys {
		switch _, err := e.defs.get(ctx, key); {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case unreadable(err):
			faults[key] = err
		default:
			return err
		}
	}
	return nil
}
