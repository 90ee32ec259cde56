package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// holds are names that live processes hold.
type holds interface {
	// hold takes a name, or fails with a *store.HeldError.
	hold(name string, note []byte) (release func(), err error)
	// beat notes the time at a name that is held.
	beat(name string) error
	// alive answers whether a name is held, and when its holder last beat.
	alive(name string) (held bool, beat time.Time, err error)
}

// workerName is the name that a worker's process holds.
func workerName(key int64) string { return "worker/" + strconv.FormatInt(key, 10) }

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

// Reap answers the living workers whose lock nobody holds, or that have not beaten
// for longer than silence. With a silence of 0 locks alone count.
func (db *DB) Reap(ctx context.Context, silence time.Duration) ([]store.Dead, error) {
	workers, err := db.Workers(ctx, true)
	if err != nil {
		return nil, err
	}
	var dead []store.Dead
	seen := make(map[int64]sighting, len(workers))
	db.sightings.Lock()
	defer db.sightings.Unlock()
	tells := db.sightings.look(db.cfg.Clock(), silence)
	for _, w := range workers {
		held, beat, err := db.holds.alive(workerName(w.Key()))
		if err != nil {
			return dead, fmt.Errorf("look for worker %d: %w", w.Key(), err)
		}
		now := db.cfg.Clock()
		seen[w.Key()] = db.sightings.of[w.Key()].next(beat, now, tells)
		quiet := seen[w.Key()].quiet(now)
		switch {
		case !held:
			dead = append(dead, store.Dead{Worker: w.Key(), Reason: "its process is gone"})
		case silence > 0 && quiet > silence:
			dead = append(dead, store.Dead{Worker: w.Key(), Reason: fmt.Sprintf("silent for %d s", int(quiet.Seconds()))})
		}
	}
	db.sightings.of = seen
	return dead, nil
}

// sightings are the beats that this process has seen. The wall clock tells how old
// the first one of a worker is, unless it was set of late, and nothing more after
// that: so a clock that is set makes nobody silent, and nobody live on who is (T10).
type sightings struct {
	sync.Mutex
	of     map[int64]sighting
	looked time.Time
	set    time.Time // when the wall clock was found to have been set
}

// maxDrift is by how much the wall clock and the monotonic one may differ between
// two looks.
const maxDrift = time.Second

// look reports whether the wall clock can tell the age of a beat: not for as long as
// silence after it was set, or the host was asleep.
func (s *sightings) look(now time.Time, silence time.Duration) bool {
	byWall := now.Round(0).Sub(s.looked.Round(0))
	if (byWall - now.Sub(s.looked)).Abs() > maxDrift {
		s.set = now
	}
	s.looked = now
	return s.set.IsZero() || now.Sub(s.set) > silence
}

// A sighting is the last beat of a worker, and when it was seen first.
type sighting struct {
	beat, at time.Time
	age      time.Duration // of the beat, at that moment
}

// next answers the sighting of a beat that is seen now.
func (s sighting) next(beat, now time.Time, tells bool) sighting {
	switch {
	case s.at.IsZero() && tells:
		return sighting{beat, now, max(now.Sub(beat), 0)}
	case s.at.IsZero() || !s.beat.Equal(beat):
		return sighting{beat: beat, at: now}
	}
	return s
}

func (s sighting) quiet(now time.Time) time.Duration { return s.age + now.Sub(s.at) }

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
