package keeper

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/supervisor"
)

// An owing is a Journal that holds up no stop: once the keeper ends, what the journal
// refuses is owed, and given to it before anything that follows. Without that a full
// disk would keep programs from being stopped in order, with their signal and their
// grace, until somebody kills them.
type owing struct {
	supervisor.Journal
	ending *atomic.Bool

	mu   sync.Mutex
	owed map[string][]audit.Entry // by entity
}

var (
	_ supervisor.Journal = (*owing)(nil)
	_ supervisor.Trailer = (*owing)(nil)
)

// Append implements supervisor.Journal. Those of one entity come one after another.
func (j *owing) Append(ctx context.Context, e audit.Entry) error {
	err := j.pay(ctx, e.Entity)
	if err == nil {
		err = j.Journal.Append(ctx, e)
	}
	if err == nil || !j.ending.Load() || errors.Is(err, supervisor.ErrConflict) {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owed == nil {
		j.owed = map[string][]audit.Entry{}
	}
	j.owed[e.Entity] = append(j.owed[e.Entity], e)
	return nil
}

// pay gives the journal what it is owed of an entity, oldest first.
func (j *owing) pay(ctx context.Context, entity string) error {
	for {
		j.mu.Lock()
		rest := j.owed[entity]
		j.mu.Unlock()
		if len(rest) == 0 {
			return nil
		}
		if err := j.Journal.Append(ctx, rest[0]); err != nil {
			return err
		}
		j.mu.Lock()
		j.owed[entity] = rest[1:]
		j.mu.Unlock()
	}
}

// settle pays what it can at the end, and answers how many entries are lost.
func (j *owing) settle(ctx context.Context) (lost int, err error) {
	j.mu.Lock()
	entities := make([]string, 0, len(j.owed))
	for entity := range j.owed {
		entities = append(entities, entity)
	}
	j.mu.Unlock()
	for _, entity := range entities {
		if failed := j.pay(ctx, entity); failed != nil {
			err = failed
		}
		lost += len(j.owed[entity]) // nobody appends any more
	}
	return lost, err
}

// Trail implements supervisor.Trailer, if the journal does.
func (j *owing) Trail(ctx context.Context, entity string) ([]audit.Entry, error) {
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		return t.Trail(ctx, entity)
	}
	return nil, nil
}

// Lives implements supervisor.Trailer, likewise.
func (j *owing) Lives(ctx context.Context, id string) (first, last int, err error) {
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		return t.Lives(ctx, id)
	}
	return 0, 0, nil
}
