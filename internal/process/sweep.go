package process

import (
	"context"
	"errors"
	"strings"
)

// Sweep kills the processes that a killed supervisor has left behind: those with an
// entry in their environment that begins with mark, NAME=VALUE. It answers how many
// there were, and an error if some are not gone when ctx ends. It is called before
// programs with that mark are started again. Elsewhere than on Linux it finds none.
func Sweep(ctx context.Context, mark string) (int, error) {
	if name, value, ok := strings.Cut(mark, "="); !ok || name == "" || value == "" {
		return 0, errors.New("sweep: mark has to be NAME=VALUE, with a value")
	}
	return killMarked(ctx, mark)
}
