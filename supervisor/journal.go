package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Journal records the trails of services (S3, S12). A change is one entry of package
// audit, and so one commit: it holds the transition, the name of the user's state and
// the status of the action. A restart needs only the last entry of a trail.
//
// Its methods are called from many goroutines and may block: only services whose entry is
// being written wait for it.
type Journal interface {
	// Last returns the last entry of an entity's trail, or one with Sequence 0.
	Last(ctx context.Context, entity string) (audit.Entry, error)

	// Append adds an entry, or nothing. The entry follows the last of its trail: its
	// sequence is the next, and its hash covers the last one's. Appending an entry that is
	// there already succeeds, so that a call with an unknown outcome can be repeated.
	// Another entry in its place is [ErrConflict]. After other errors the same entry is
	// tried again until it succeeds.
	Append(ctx context.Context, e audit.Entry) error
}

// A Trailer is a Journal whose trails can be read. A Journal that deletes old lives must
// be one.
type Trailer interface {
	// Trail returns the entries of an entity, oldest first. Deleted ones are missing at
	// the beginning, nowhere else.
	Trail(ctx context.Context, entity string) ([]audit.Entry, error)

	// Lives returns the first and last life of a service that has a trail; last is 0 if
	// there is none.
	Lives(ctx context.Context, id string) (first, last int, err error)
}

// Trails returns the entries of a service in all its lives, oldest first.
func Trails(ctx context.Context, j Trailer, id string) ([]audit.Entry, error) {
	var all []audit.Entry
	life, last, err := j.Lives(ctx, id)
	for ; err == nil && life > 0 && life <= last; life++ {
		var trail []audit.Entry
		trail, err = j.Trail(ctx, Entity(id, life))
		all = append(all, trail...)
	}
	return all, err
}

// ErrConflict is returned by a Journal in which another writer has continued a trail. The
// service is then held for good: two supervisors run it.
var ErrConflict = errors.New("the trail has another entry in its place")

// follows checks that e may be appended after last. It returns true if e is there already,
// and ErrConflict if another entry is.
func follows(last, e audit.Entry) (known bool, err error) {
	switch {
	case e.Sequence == last.Sequence && e.Hash == last.Hash:
		return true, nil
	case e.Sequence != last.Sequence+1:
		return false, fmt.Errorf("entry %d of %s: %w", e.Sequence, e.Entity, ErrConflict)
	}
	sealed := e
	if sealed.Seal(last.Hash); sealed.Hash != e.Hash {
		return false, fmt.Errorf("entry %d of %s: %w", e.Sequence, e.Entity, ErrConflict)
	}
	return false, nil
}

// A MemoryJournal keeps trails in memory, for tests. The zero value is empty.
type MemoryJournal struct {
	mu     sync.Mutex
	trails map[string][]audit.Entry
}

// Last implements Journal.
func (j *MemoryJournal) Last(_ context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return last(j.trails[entity]), nil
}

// Append implements Journal.
func (j *MemoryJournal) Append(_ context.Context, e audit.Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	known, err := follows(last(j.trails[e.Entity]), e)
	if known || err != nil {
		return err
	}
	if j.trails == nil {
		j.trails = make(map[string][]audit.Entry)
	}
	j.trails[e.Entity] = append(j.trails[e.Entity], e)
	return nil
}

// Trail implements Trailer.
func (j *MemoryJournal) Trail(_ context.Context, entity string) ([]audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.trails[entity]), nil
}

// Lives implements Trailer.
func (j *MemoryJournal) Lives(_ context.Context, id string) (first, last int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.trails[Entity(id, last+1)]) > 0 {
		first, last = 1, last+1
	}
	return first, last, nil
}

func last(trail []audit.Entry) audit.Entry {
	if len(trail) == 0 {
		return audit.Entry{}
	}
	return trail[len(trail)-1]
}

// Entity returns the id of a service in a journal: sv_ and its id. A service that was
// removed and added again has a trail for each of its lives; the later ones end in ~2, ~3
// and so on.
func Entity(id string, life int) string {
	if life <= 1 {
		return "sv_" + id
	}
	return fmt.Sprintf("sv_%s~%d", id, life)
}

// A note is the metadata of an entry: what the columns do not say about a service.
type note struct {
	State  string        `json:"state"`
	Action *ActionStatus `json:"action,omitempty"`
	Fence  uint64        `json:"fence,omitzero"` // the highest of earlier lives, where there is no action
}

// A trail is the position of a service in its journal. The zero value is a service without
// a journal.
type trail struct {
	journal Journal
	actor   string
	entity  string
	seq     int64
	head    audit.Hash
	at      int64
	fence   uint64 // the highest of earlier lives
}

// seal completes e, which has a transition, a reason and perhaps an actor, as the next
// entry of the trail.
func (t *trail) seal(e *audit.Entry, n note, now time.Time) error {
	metadata, err := json.Marshal(n)
	if err != nil {
		return err
	}
	fill(&e.Actor, t.actor)
	e.Entity, e.Sequence, e.Metadata, e.At = t.entity, t.seq+1, metadata, max(now.UnixMicro(), t.at)
	e.Reason, e.Actor = truncate(e.Reason), truncate(e.Actor)
	e.Seal(t.head)
	return nil
}

// wrote advances to an entry that is in the journal.
func (t *trail) wrote(e audit.Entry) { t.seq, t.head, t.at = e.Sequence, e.Hash, e.At }

// open finds the trail of a service in its latest life, and returns the state and note of
// its last entry. It begins a trail for a service that has none.
func (t *trail) open(ctx context.Context, id string, initial userState) (machine.State, note, error) {
	first := 1
	if l, ok := t.journal.(Trailer); ok {
		_, last, err := l.Lives(ctx, id)
		if err != nil {
			return "", note{}, fmt.Errorf("load service %s: %w", id, err)
		}
		first = max(first, last)
	}
	for life := first; ; life++ {
		t.entity = Entity(id, life)
		e, err := t.journal.Last(ctx, t.entity)
		switch {
		case err != nil:
			return "", note{}, fmt.Errorf("load service %s: %w", id, err)
		case e.Sequence == 0:
			return t.begin(ctx, id, initial)
		}
		n, err := readNote(e)
		t.fence = max(t.fence, n.Fence)
		if err != nil || !lifecycle.Service.Ended(e.To) {
			t.wrote(e)
			return e.To, n, err
		}
		if n.Action != nil {
			t.fence = max(t.fence, n.Action.Fence)
		}
	}
}

func (t *trail) begin(ctx context.Context, id string, initial userState) (machine.State, note, error) {
	n, e := note{State: initial.name, Fence: t.fence}, audit.Entry{To: initial.phase, Event: lifecycle.Service.Create}
	err := t.seal(&e, n, time.Now())
	if err == nil {
		err = t.journal.Append(ctx, e)
	}
	if err != nil {
		return "", note{}, fmt.Errorf("add service %s: %w", id, err)
	}
	t.wrote(e)
	return initial.phase, n, nil
}

func readNote(e audit.Entry) (n note, err error) {
	d := json.NewDecoder(bytes.NewReader(e.Metadata))
	if err := d.Decode(&n); err != nil {
		return n, fmt.Errorf("entry %d of %s: metadata: %w", e.Sequence, e.Entity, err)
	}
	return n, nil
}

// truncate cuts a text off at MaxReason bytes.
func truncate(s string) string {
	if len(s) <= MaxReason {
		return s
	}
	end := MaxReason
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
