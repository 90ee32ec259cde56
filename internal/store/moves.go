package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Distant is the SQL condition that a row of the trail of jobs and steps was written more than
// ten seconds from the second in which its job was made, which the key of the job says. The
// index audit_distant has these rows by time. All others are found by the keys of their jobs,
// so that a job that ends within ten seconds is in no index by time.
const Distant = "(at - ((job >> 32) + 1704067200) * 1000000 NOT BETWEEN -10000000 AND 10000000)"

// near is the distance in Distant.
const near = 10 * time.Second

// lastKeyAt is a time near the end of those that keys can have, in 2092.
const lastKeyAt = 3_850_000_000_000_000

// A MoveFilter selects rows of trails by time. A row has the time of its first entry; those of
// one commit have the same, unless a clock was set back.
type MoveFilter struct {
	Machines   []string // names of machines
	From, To   int64    // rows from this time on, and before this time
	Actor      string   // only rows with an entry of this actor, unless it is empty
	Workspaces []string // only these; none: all, and what belongs to no workspace
	Most       int      // rows that may be looked at; 0: all
}

// Keys returns the range of keys of the jobs whose rows are not Distant: from, and before.
func (f *MoveFilter) Keys() (from, before rowkey.Job) {
	first, last := pawl.Time(max(f.From, 0)).Add(-near), pawl.Time(min(f.To, lastKeyAt)).Add(near+time.Second)
	return rowkey.Job(pawl.KeyAt(first)), rowkey.Job(pawl.KeyAt(last))
}

// Moves are entries of trails that were written in a span of time.
type Moves struct {
	List []Moved // newest first; see Moved.Compare
	Rows int     // that were looked at
	Over bool    // there are more than MoveFilter.Most; List is empty
}

// A Moved is an entry of a trail, without From, and what it is about. RowAt is the time of its
// row.
type Moved struct {
	Event
	RowAt int64
}

// A MovePlace is the place of an entry in the order by time. The zero value is before all.
type MovePlace struct {
	At int64 // of the row
	EntityKey
	Seq int64
}

// Place returns the place of the entry.
func (m *Moved) Place() MovePlace { return MovePlace{m.RowAt, m.EntityKey, m.Sequence} }

// Compare orders places by time, and those of one time by kind, key and sequence.
func (p MovePlace) Compare(o MovePlace) int {
	return cmp.Or(cmp.Compare(p.At, o.At), cmp.Compare(p.Kind, o.Kind), p.StepKey.Compare(o.StepKey), cmp.Compare(p.Seq, o.Seq))
}

// Add adds an entry, if the filter selects its machine and actor.
func (m *Moves) Add(f *MoveFilter, e Event, rowAt int64) {
	if slices.Contains(f.Machines, e.Kind) && (f.Actor == "" || f.Actor == e.Actor) {
		m.List = append(m.List, Moved{e, rowAt})
	}
}

// Sort puts the entries in order.
func (m *Moves) Sort() {
	slices.SortFunc(m.List, func(a, b Moved) int { return b.Place().Compare(a.Place()) })
}

// Precede sets the From of entries: from one another, from the tables, or from the trails.
func Precede(ctx context.Context, v Views, list []Moved) error {
	type place struct {
		EntityKey
		seq int64
	}
	known := make(map[place]machine.State, len(list))
	for i := range list {
		known[place{list[i].EntityKey, list[i].Sequence}] = list[i].To
	}
	for i := range list {
		e := &list[i].Event
		if e.Sequence == 1 {
			continue
		}
		if e.From = cmp.Or(known[place{e.EntityKey, e.Sequence - 1}], OnlyFrom(e.Kind, e.Entry.Event, e.To)); e.From != "" {
			continue
		}
		before, err := v.Trail(ctx, e.EntityKey, e.Sequence-2, 1)
		if err != nil {
			return err
		}
		if len(before) > 0 && before[0].Sequence == e.Sequence-1 {
			e.From = before[0].To
		}
	}
	return nil
}

// OnlyFrom returns the one state from which an event of a machine leads to another, or "" if
// there are several.
func OnlyFrom(kind string, event machine.Event, to machine.State) (from machine.State) {
	m := lifecycle.ByName(kind)
	if m == nil {
		return ""
	}
	for s, row := range m.Table {
		if row[event] != to {
			continue
		}
		if from != "" {
			return ""
		}
		from = s
	}
	return from
}
