package trail

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Comparer compares an older checkpoint with a newer one, leaf by leaf. It keeps counts
// for each day and none of the leaves.
type Comparer struct {
	Old, New *CheckpointReader

	// Row returns the hash of an entity's row in New at the sequence that the entity had in
	// Old, and whether that row exists. If Row is nil this is unknown: an entity that has
	// continued since is then not Checked.
	Row func(context.Context, *store.Leaf) (audit.Hash, bool, error)

	// Found is called with each difference that has no legitimate cause.
	Found func(Difference)

	Same, Checked, WentOn, Added, Removed int64 // entities; WentOn are those that continued and could not be checked

	anchored, missing map[removal]int64
}

// A removal is the kind and the day of creation of removed entities.
type removal struct{ kind, day string }

// The kinds of differences.
const (
	DifferenceMissing = "missing" // it is gone, and retention did not record that
	DifferenceBack    = "back"    // its sequence decreased
	DifferenceChanged = "changed" // its row has another hash
)

// A Difference is a difference that a Comparer finds. Entity is empty if only the count of a
// day is wrong.
type Difference struct {
	Kind     string `json:"difference"`
	Entity   string `json:"entity,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	Message  string `json:"message"`
}

// Run compares the two. Old must be older than New.
func (c *Comparer) Run(ctx context.Context) error {
	c.anchored, c.missing = map[removal]int64{}, map[removal]int64{}
	was, err := c.Old.Next()
	if err != nil {
		return fmt.Errorf("the old checkpoint: %w", err)
	}
	is, err := c.New.Next()
	if err != nil {
		return fmt.Errorf("the new checkpoint: %w", err)
	}
	for was != nil || is != nil {
		order := 0
		switch {
		case was == nil:
			order = 1
		case is == nil:
			order = -1
		default:
			order = compareLeaves(was, is)
		}
		if err := c.pair(ctx, was, is, order); err != nil {
			return err
		}
		if order <= 0 {
			if was, err = c.Old.Next(); err != nil {
				return fmt.Errorf("the old checkpoint: %w", err)
			}
		}
		if order >= 0 {
			if is, err = c.New.Next(); err != nil {
				return fmt.Errorf("the new checkpoint: %w", err)
			}
		}
	}
	c.count()
	return nil
}

// pair handles one leaf of the old checkpoint, one of the new, or the same leaf of both.
func (c *Comparer) pair(ctx context.Context, was, is *store.Leaf, order int) error {
	switch {
	case order < 0:
		c.gone(was)
	case order > 0:
		if c.Added++; is.Removed != nil {
			c.anchored[removalOf(is)] += is.Removed.Count
			c.Added--
		}
	case was.Removed != nil && is.Removed != nil:
		c.anchor(was, is)
	default:
		return c.entity(ctx, was, is)
	}
	return nil
}

func removalOf(l *store.Leaf) removal {
	if l.Removed != nil {
		return removal{strings.TrimPrefix(l.Kind, anchorKind), l.Removed.Day}
	}
	return removal{l.Kind, dayOf(l.Key)}
}

// gone handles an entity that no longer exists. Anchors come before entities.
func (c *Comparer) gone(was *store.Leaf) {
	if was.Removed != nil {
		c.found(DifferenceMissing, was, "it is missing")
		return
	}
	r := removalOf(was)
	if c.anchored[r] == 0 {
		c.found(DifferenceMissing, was, "it is missing, and no anchor says that retention has removed a %s of %s since", r.kind, r.day)
		return
	}
	c.missing[r]++
	c.Removed++
}

// anchor compares an anchor with its older state. Its counts may have grown, since an anchor
// can be continued.
func (c *Comparer) anchor(was, is *store.Leaf) {
	switch {
	case is.Removed.Count < was.Removed.Count || is.Removed.Day != was.Removed.Day:
		c.found(DifferenceBack, was, "it counted %d of %s, and counts %d of %s", was.Removed.Count, was.Removed.Day, is.Removed.Count, is.Removed.Day)
	case is.Removed.Count == was.Removed.Count && is.Head != was.Head:
		c.found(DifferenceChanged, was, "it has another hash, and counts the same")
	}
	c.anchored[removalOf(is)] += is.Removed.Count - was.Removed.Count
}

func (c *Comparer) entity(ctx context.Context, was, is *store.Leaf) error {
	switch {
	case was.ID != is.ID:
		c.found(DifferenceChanged, was, "%s is in its place", is.ID)
	case is.Sequence < was.Sequence:
		c.found(DifferenceBack, was, "it was at entry %d, and is at entry %d", was.Sequence, is.Sequence)
	case is.Sequence == was.Sequence && is.Head != was.Head:
		c.found(DifferenceChanged, was, "entry %d has another hash", was.Sequence)
	case is.Sequence == was.Sequence:
		c.Same++
	case c.Row == nil:
		c.WentOn++
	default:
		hash, there, err := c.Row(ctx, was)
		if err != nil {
			return err
		}
		c.Checked++
		switch {
		case !there:
			c.found(DifferenceMissing, was, "its entry %d is missing", was.Sequence)
		case hash != was.Head:
			c.found(DifferenceChanged, was, "entry %d has another hash", was.Sequence)
		}
	}
	return nil
}

// count finds days of which more entities are missing than retention removed.
func (c *Comparer) count() {
	by := func(a, b removal) int { return strings.Compare(a.kind+a.day, b.kind+b.day) }
	for _, r := range slices.SortedFunc(maps.Keys(c.missing), by) {
		if c.missing[r] > c.anchored[r] {
			c.Found(Difference{Kind: DifferenceMissing, Message: fmt.Sprintf("%ss of %s: %d are missing, and anchors say that retention has removed %d since", r.kind, r.day, c.missing[r], c.anchored[r])})
		}
	}
}

func (c *Comparer) found(kind string, l *store.Leaf, format string, args ...any) {
	c.Found(Difference{Kind: kind, Entity: l.ID, Sequence: l.Sequence, Message: fmt.Sprintf(format, args...)})
}

// RowOf returns a Comparer.Row for a database.
func RowOf(s store.Store) func(context.Context, *store.Leaf) (audit.Hash, bool, error) {
	return func(ctx context.Context, was *store.Leaf) (audit.Hash, bool, error) {
		page, err := s.Trail(ctx, store.EntityOf(was.Kind, was.Key), was.Sequence-1, 1)
		if err != nil {
			return audit.Hash{}, false, err
		}
		if len(page) > 0 && page[0].Sequence == was.Sequence {
			return page[0].Hash, true, nil
		}
		now, err := s.Heads(ctx, was.Kind, was.Key-1, 1)
		gone := len(now) == 0 || now[0].Key != was.Key
		return was.Head, gone, err // retention has just removed it
	}
}

// Comparison is the result of a comparison.
type Comparison struct {
	OK          bool         `json:"ok"`
	Same        int64        `json:"same"`
	Checked     int64        `json:"checked"` // continued since, with the old row unchanged
	WentOn      int64        `json:"went_on"` // continued since, and could not be checked
	Added       int64        `json:"added"`
	Removed     int64        `json:"removed"` // by retention
	Count       int64        `json:"differences_count"`
	Differences []Difference `json:"differences"` // the first 1000
}

// maxDifferences bounds the differences in JSON.
const maxDifferences = 1000

// Compare compares two checkpoints, and calls found with each difference.
func Compare(ctx context.Context, c *Comparer, found func(Difference)) (*Comparison, error) {
	r := &Comparison{Differences: []Difference{}}
	c.Found = func(d Difference) {
		if r.Count++; len(r.Differences) < maxDifferences {
			r.Differences = append(r.Differences, d)
		}
		found(d)
	}
	if err := c.Run(ctx); err != nil {
		return nil, err
	}
	r.OK, r.Same, r.Checked, r.WentOn, r.Added, r.Removed = r.Count == 0, c.Same, c.Checked, c.WentOn, c.Added, c.Removed
	return r, nil
}
