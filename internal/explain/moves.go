package explain

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

// maxMoves is the maximum number of its own moves in the view of a job or a worker; the
// last ones are kept. Their reasons and metadata are bounded by maxListBytes, except for
// the last move.
const maxMoves = 1000

// lastMoves keeps the last of the moves passed to it, in their order.
type lastMoves struct {
	list    []pawl.Transition
	bytes   int
	omitted int64 // moves before those kept
}

func (l *lastMoves) add(t pawl.Transition) {
	l.list = append(l.list, t)
	l.bytes += bytesOf(&t)
	for len(l.list) > maxMoves || l.bytes > maxListBytes && len(l.list) > 1 {
		l.bytes -= bytesOf(&l.list[0])
		l.list[0] = pawl.Transition{}
		l.list = l.list[1:]
		l.omitted++
	}
}

func bytesOf(t *pawl.Transition) int { return len(t.Reason) + len(t.Metadata) }

// moves calls f with the moves of one entity, oldest first, until f fails.
func (r *Reader) moves(ctx context.Context, k store.EntityKey, f func(pawl.Transition) error) error {
	return trail.EachEntry(ctx, r.store, k, func(entry *audit.Entry) error { return f(pawl.TransitionOf(entry)) })
}
