package journal

import (
	"context"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/supervisor"
)

// maxMoves is how many entries of a service are kept without a journal.
const maxMoves = 200

// A Ring is the journal of a manager that was given none. It keeps the last maxMoves
// entries of each trail in memory. The zero value is empty.
type Ring struct {
	mu     sync.Mutex
	trails map[string][]audit.Entry
}

var (
	_ supervisor.Journal = (*Ring)(nil)
	_ supervisor.Trailer = (*Ring)(nil)
)

// Last implements supervisor.Journal.
func (j *Ring) Last(_ context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.trails[entity]
	if len(t) == 0 {
		return audit.Entry{}, nil
	}
	return t[len(t)-1], nil
}

// Append implements supervisor.Journal. There is no other writer, so it never conflicts.
func (j *Ring) Append(_ context.Context, e audit.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.trails == nil {
		j.trails = map[string][]audit.Entry{}
	}
	t := append(j.trails[e.Entity], e)
	if extra := len(t) - maxMoves; extra > 0 {
		t = slices.Delete(t, 0, extra)
	}
	j.trails[e.Entity] = t
	return nil
}

// Trail implements supervisor.Trailer.
func (j *Ring) Trail(_ context.Context, entity string) ([]audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.trails[entity]), nil
}

// Lives implements supervisor.Trailer.
func (j *Ring) Lives(_ context.Context, id string) (first, last int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.trails[supervisor.Entity(id, last+1)]) > 0 {
		first, last = 1, last+1
	}
	return first, last, nil
}
