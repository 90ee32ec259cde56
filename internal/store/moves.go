package store

import (
	"cmp"
	"context"
	"maps"
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
	Machines   []string      // names of machines
	From, To   int64         // rows from this time on, and before this time
	Actor      string        // only entries of this actor, unless it is empty
	Event      machine.Event // only entries of this event, likewise
	State      machine.State // only entries that lead to this state, likewise
	Workspaces []string      // only these; none: all, and what belongs to no workspace
	Start      MoveRow       // only this row and those behind it; zero: all
	Most       int           // rows that may be looked at; 0: all
}

// The parts in which rows are read, each by an index of its own. In front of these two are the kinds of
// moveParts, each a part.
const (
	PartDistant = "distant" // of the trail of jobs and steps, by time
	PartNear    = "near"    // of that trail, those that are not Distant, by the keys of their jobs
)

// moveParts are all parts in their order, which is also that of their numbers in a MoveRow, from 1.
var moveParts = []string{lifecycle.Worker.Name, lifecycle.Schedule.Name, lifecycle.QueuePause.Name, lifecycle.Token.Name, lifecycle.Webhook.Name, PartDistant, PartNear}

// A MoveRow is the place of a row in the order in which Moves reads rows. Within a part it is by time,
// newest first, or, in the near part, by the key, highest first. The zero value is before all.
type MoveRow struct {
	Part int
	At   int64
	pawl.StepKey
	Seq int64
}

// Compare orders rows as they are read.
func (r MoveRow) Compare(o MoveRow) int {
	at := cmp.Compare(o.At, r.At)
	if r.Part == len(moveParts) {
		at = 0
	}
	return cmp.Or(cmp.Compare(r.Part, o.Part), at, o.StepKey.Compare(r.StepKey), cmp.Compare(o.Seq, r.Seq))
}

// PartOf returns the number of a part.
func PartOf(name string) int { return slices.Index(moveParts, name) + 1 }

// Parts returns the parts that are to be read, by their numbers.
func (f *MoveFilter) Parts() map[int]string {
	jobs := slices.Contains(f.Machines, lifecycle.Job.Name) || slices.Contains(f.Machines, lifecycle.Step.Name)
	parts := map[int]string{}
	for i, name := range moveParts {
		if own := name == PartDistant || name == PartNear; i+1 >= f.Start.Part && (own && jobs || slices.Contains(f.Machines, name)) {
			parts[i+1] = name
		}
	}
	return parts
}

// Keys returns the range of keys of the jobs whose rows are not Distant: from, and before.
func (f *MoveFilter) Keys() (from, before rowkey.Job) {
	first, last := pawl.Time(max(f.From, 0)).Add(-near), pawl.Time(min(f.To, lastKeyAt)).Add(near+time.Second)
	return rowkey.Job(pawl.KeyAt(first)), rowkey.Job(pawl.KeyAt(last))
}

// Moves are entries of trails that were written in a span of time.
type Moves struct {
	List []Moved // in the order in which they were read; see Moved.Compare
	Rows int     // that were looked at, whatever is in the list
	Last MoveRow // the row that was looked at last, if as many were as may be; zero: all were
}

// A Moved is an entry of a trail, without From, and what it is about.
type Moved struct {
	Event
	Row MoveRow // that has the entry
}

// Compare orders entries as they are read: by row, and those of one row the last place first.
func (m *Moved) Compare(o *Moved) int {
	return cmp.Or(m.Row.Compare(o.Row), o.Place().Compare(m.Place()))
}

// Read reads the parts of a filter, until as many rows were looked at as may be. read looks at up to most
// rows of a part (0: all), from start on unless that is of no part, calls looked for each, and adds
// entries.
func (m *Moves) Read(f *MoveFilter, read func(part string, start MoveRow, most int, looked func(rows int, last MoveRow)) error) error {
	parts := f.Parts()
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		start, most, last := MoveRow{}, 0, MoveRow{}
		if n == f.Start.Part {
			start = f.Start
		}
		if f.Most > 0 {
			most = f.Most - m.Rows
		}
		err := read(parts[n], start, most, func(rows int, r MoveRow) {
			m.Rows += rows
			if r.Part = n; last.Part == 0 || last.Compare(r) < 0 {
				last = r
			}
		})
		if err != nil {
			return err
		}
		if f.Most > 0 && m.Rows >= f.Most {
			m.Last = last
			break
		}
	}
	slices.SortFunc(m.List, func(a, b Moved) int { return a.Compare(&b) })
	return nil
}

// A MovePlace is the place of an entry in the order by time. The zero value is before all.
type MovePlace struct {
	At int64 // of the row
	EntityKey
	Seq int64
}

// Place returns the place of the entry.
func (m *Moved) Place() MovePlace { return MovePlace{m.Row.At, m.EntityKey, m.Sequence} }

// Compare orders places by time, and those of one time by kind, key and sequence.
func (p MovePlace) Compare(o MovePlace) int {
	return cmp.Or(cmp.Compare(p.At, o.At), cmp.Compare(p.Kind, o.Kind), p.StepKey.Compare(o.StepKey), cmp.Compare(p.Seq, o.Seq))
}

// Add adds an entry of a row, if the filter selects it.
func (m *Moves) Add(f *MoveFilter, e Event, row MoveRow) {
	if slices.Contains(f.Machines, e.Kind) && (f.Actor == "" || f.Actor == e.Actor) && (f.Event == "" || f.Event == e.Entry.Event) &&
		(f.State == "" || f.State == e.To) && (len(f.Workspaces) == 0 || slices.Contains(f.Workspaces, e.Workspace)) {
		m.List = append(m.List, Moved{e, row})
	}
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
