package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// holds are names that live processes hold.
type holds interface {
	// hold takes a name, or fails with a *store.HeldError.
	hold(name string, note []byte) (release func(), err error)
	// beat notes the time at a name that is held.
	beat(name string) error
	// alive reports whether a name is held, and when its holder last beat.
	alive(name string) (held bool, beat time.Time, err error)
}

// workerName is the name that a worker's process holds.
func workerName(key rowkey.Worker) string { return "worker/" + strconv.FormatInt(int64(key), 10) }

// Hold takes the name until release or the death of this process, whichever is
// first; see store.Ledger. Closing the database does not release it.
func (db *DB) Hold(ctx context.Context, name string, note []byte) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, pawl.Errorf(pawl.Invalid, "name to hold is empty: want any other text")
	}
	free, err := db.holds.hold(name, note)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(free), nil
}

// Observe returns the workers that live according to their record; see store.Ledger. The
// kernel frees a lock only when its process has died or released it, so a free lock is proof.
func (db *DB) Observe(ctx context.Context) (*health.Report, error) {
	workers, err := db.Workers(ctx, store.WorkerFilter{Living: true})
	if err != nil {
		return nil, err
	}
	r := &health.Report{Workers: make([]health.Sighting, len(workers))}
	for i, w := range workers {
		if r.Workers[i], err = db.sight(ctx, w); err != nil {
			return nil, fmt.Errorf("look for worker %d: %w", w.Key(), err)
		}
	}
	r.Now = db.now() // after the beats: none of them is from the future
	return r, nil
}

// sight observes a worker: a local one by the lock of its name, a remote one by its beats.
func (db *DB) sight(ctx context.Context, w *pawl.Worker) (health.Sighting, error) {
	s := health.Sighting{Worker: w.Key(), Beat: w.CreatedAt, Lock: health.None, Silence: w.Silence}
	if w.Remote() {
		err := db.read(ctx, "look for a remote worker", func(c *conn) error {
			at, err := remoteBeatOf(c, w.Key())
			s.Beat = max(at, w.CreatedAt)
			return err
		})
		return s, err
	}
	held, beat, err := db.holds.alive(workerName(w.Key()))
	if s.Lock = health.Held; !held {
		s.Lock = health.Free
	}
	s.Beat = max(pawl.Micros(beat), w.CreatedAt)
	return s, err
}

// memoryHolds are the holds of a database in memory.
type memoryHolds struct {
	clock func() time.Time

	mu    sync.Mutex
	notes map[string][]byte
	beats map[string]time.Time
}

func newMemoryHolds(clock func() time.Time) *memoryHolds {
	return &memoryHolds{clock: clock, notes: map[string][]byte{}, beats: map[string]time.Time{}}
}

func (h *memoryHolds) hold(name string, note []byte) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, taken := h.notes[name]; taken {
		return nil, &store.HeldError{Name: name, Note: slices.Clone(old)}
	}
	h.notes[name] = slices.Clone(note)
	h.beats[name] = h.clock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.notes, name)
		delete(h.beats, name)
	}, nil
}

func (h *memoryHolds) beat(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.notes[name]; held {
		h.beats[name] = h.clock()
	}
	return nil
}

func (h *memoryHolds) alive(name string) (bool, time.Time, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.notes[name]
	return held, h.beats[name], nil
}
