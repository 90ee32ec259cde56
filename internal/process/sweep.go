package process

import (
	"context"
	"errors"
	"strings"
)

// Sweep kills the processes that a killed supervisor has left behind: those with an entry
// in their environment that begins with mark, NAME=VALUE. It returns how many there were,
// and an error if some still exist when ctx ends. Call it before programs with that mark
// are started again. Outside Linux it finds none.
func Sweep(ctx context.Context, mark string) (int, error) {
	if name, value, ok := strings.Cut(mark, "="); !ok || name == "" || value == "" {
		return 0, errors.New("sweep: want mark as NAME=VALUE, with a value")
	}
	return killMarked(ctx, mark)
}
