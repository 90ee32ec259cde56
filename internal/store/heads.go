package store

import (
	"context"

	"github.com/pawl-dev/pawl/audit"
)

// Heads reads the ends of trails.
type Heads interface {
	// Heads reads the records of a kind (job, worker, schedule, token, queue_pause, webhook) in the order of their keys:
	// those beyond the key after, at most limit.
	Heads(ctx context.Context, kind string, after int64, limit int) ([]Leaf, error)
}

// A Leaf is the end of a trail, or an anchor of retention.
type Leaf struct {
	Kind     string     `json:"kind"` // job, queue_pause, schedule, token, webhook, worker; for an anchor, that with the prefix "anchor."
	Key      int64      `json:"key"`
	ID       string     `json:"id"` // public
	Sequence int64      `json:"sequence"`
	Head     audit.Hash `json:"head"`
	Removed  *Removals  `json:"removed,omitempty"` // of an anchor
}

// Removals are the counts of an anchor.
type Removals struct {
	Day   string `json:"day"` // of their creation, in UTC
	Count int64  `json:"count"`
}
