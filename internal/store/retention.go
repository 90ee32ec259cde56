package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Retention removes what ended long ago, each entity with its whole trail (K6),
// and writes down that it did. A job goes with its steps, its signals, its refused
// facts and its logs, a worker with its beats; answers to requests stay until they
// expire, definitions and registered versions for ever.
//
// A job stays while one that has not ended needs it: its parent, its child, or a
// job that continues it.
type Retention interface {
	// Retain goes one bounded step from a place: it removes some entities in one
	// transaction, or finds that there are none there. The caller goes on from
	// Removed.Next until it is Done, and may stop anywhere, or die: the next
	// retention finds what is left. Many processes may call it at once.
	Retain(ctx context.Context, p *Policy, from Place) (Removed, error)

	// Prospects returns, for each kind, what Retain would remove and what would stay.
	// It reads every record from before that time.
	Prospects(ctx context.Context, before int64) ([]pawl.Prospect, error)

	// Anchors returns what was removed, by kind and sequence.
	Anchors(ctx context.Context) ([]audit.Anchor, error)
}

// A Policy says what is removed, and on whose account.
type Policy struct {
	Before int64 // what ended before this time, in microseconds
	Actor  string
	Reason string
}

// A Place is how far retention has come. The zero Place is its beginning.
type Place struct {
	Kind string // of the entities that are next
	Key  int64  // above which they are looked for
}

// Removed is what one step of Retain did.
type Removed struct {
	Kind    string // of the entities
	Count   int64  // of the entities; 0 if the step found none, or tidied up
	Steps   int64  // of removed jobs
	Entries int64  // audit rows
	Busy    string // what could not be done now, since others are working on it; or empty
	Next    Place
	Done    bool // there is nothing after this
}

// retained are the kinds of entities that retention removes, in its order.
var retained = []string{lifecycle.Job.Name, lifecycle.Worker.Name, lifecycle.Schedule.Name}

// Settled returns the place with its kind, which the zero Place leaves open.
func (p Place) Settled() Place {
	if p.Kind == "" {
		p.Kind = retained[0]
	}
	return p
}

// Past returns the step that found nothing more of a kind.
func Past(kind string) Removed {
	r := Removed{Kind: kind, Done: kind == retained[len(retained)-1]}
	for i, k := range retained[:len(retained)-1] {
		if k == kind {
			r.Next = Place{Kind: retained[i+1]}
		}
	}
	return r
}

// Day returns the beginning of the UTC day on which the record of that key was
// created, in microseconds.
func Day(key int64) int64 {
	return pawl.Micros(pawl.KeyTime(key).Truncate(24 * time.Hour))
}

// NextAnchor returns the anchor that takes the entity of that key in, and the
// hash of the one before it. Newest are the last two anchors of the kind, the
// last one first, as far as there are any. The last one is continued if it is
// of the same day, of smaller keys, and either of the same policy or open: not
// all is removed that it was begun for.
func NextAnchor(newest []audit.Anchor, kind string, key, now int64, p *Policy, open bool) (a audit.Anchor, prev audit.Hash) {
	if len(newest) == 0 {
		newest = []audit.Anchor{{}}
	}
	last := newest[0]
	if last.Count == 0 || last.Day != Day(key) || last.Last >= key || !open && (last.Actor != p.Actor || last.Reason != p.Reason) {
		return audit.Anchor{Kind: kind, Sequence: last.Sequence + 1, Day: Day(key), At: now, Actor: p.Actor, Reason: p.Reason}, last.Hash
	}
	last.At = now
	if len(newest) > 1 {
		prev = newest[1].Hash
	}
	return last, prev
}
