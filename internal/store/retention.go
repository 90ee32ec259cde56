package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Retention removes entities that ended long ago, each with its whole trail (K6), and records
// the removal. A job is removed with its steps, its signals, its refused facts and its logs, a
// worker with its beats. Answers to requests stay until they expire, definitions and
// registered versions stay forever.
//
// A job stays while an unfinished job needs it: its parent, its child, or a job that continues
// it.
type Retention interface {
	// Retain does one bounded step from a place: it removes some entities in one transaction,
	// or finds that there are none. The caller continues from Removed.Next until it is Done,
	// and may stop or die at any point: the next retention finds what is left. Many processes
	// may call it at once.
	Retain(ctx context.Context, p *Policy, from Place) (Removed, error)

	// Prospects returns, for each kind, what Retain would remove and what would stay. It reads
	// every record from before that time.
	Prospects(ctx context.Context, before int64) ([]pawl.Prospect, error)

	// Anchors returns the anchors of all removals, by kind and sequence.
	Anchors(ctx context.Context) ([]audit.Anchor, error)
}

// A Policy says what is removed, and who ordered it.
type Policy struct {
	Before int64 // entities that ended before this time, in microseconds
	Actor  string
	Reason string
}

// A Place is the progress of retention. The zero Place is its beginning.
type Place struct {
	Kind string // of the next entities
	Key  int64  // the search continues above this key
}

// Removed is the result of one step of Retain.
type Removed struct {
	Kind    string // of the entities
	Count   int64  // of the entities; 0 if the step found none, or only cleaned up
	Steps   int64  // of removed jobs
	Entries int64  // audit rows
	Busy    string // what others are working on and so could not be removed now; or empty
	Next    Place
	Done    bool // there is nothing after this
}

// retained are the kinds of entities that retention removes, in its order.
var retained = []string{lifecycle.Job.Name, lifecycle.Worker.Name, lifecycle.Schedule.Name, lifecycle.Token.Name, lifecycle.QueuePause.Name, lifecycle.Webhook.Name}

// Settled returns the place with the kind set, which the zero Place leaves empty.
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

// Day returns the beginning of the UTC day on which the record with that key was created, in
// microseconds.
func Day(key int64) int64 {
	return pawl.Micros(pawl.KeyTime(key).Truncate(24 * time.Hour))
}

// NextAnchor returns the anchor that includes the entity with that key, and the hash of the
// anchor before it. newest are the last two anchors of the kind, or fewer if there are fewer,
// the last one first. The last one is continued if it has the same day and smaller keys, and
// if it has the same policy or is open: the removal that it was begun for is not complete.
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
