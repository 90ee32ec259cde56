package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// Lines collects the result of Views.Lines, by route.
type Lines map[rowkey.Route]Line

// Add adds the enqueued, or the running steps of a route.
func (l Lines) Add(n Line) {
	was := l[n.Route]
	l[n.Route] = Line{Route: n.Route, Job: cmp.Or(was.Job, n.Job), Enqueued: was.Enqueued + n.Enqueued,
		Oldest: cmp.Or(was.Oldest, n.Oldest), Running: was.Running + n.Running}
}

// Sorted returns the lines by route.
func (l Lines) Sorted() []Line {
	return slices.SortedFunc(maps.Values(l), func(a, b Line) int { return cmp.Compare(a.Route, b.Route) })
}

// A Count collects the result of Views.Counts.
type Count struct {
	Counts
	newest int
	seen   map[*machine.Machine]int // of the newest
}

// NewCounts returns a Count of the newest so many workers and jobs.
func NewCounts(newest int) *Count {
	none := func() map[machine.State]int { return make(map[machine.State]int) }
	return &Count{Counts{Workers: none(), Jobs: none(), Steps: none()}, newest, make(map[*machine.Machine]int)}
}

// Newest adds some of the newest records of a machine to counts, if they are of the workspace
// and have ended: those that have not are counted apart.
func (c *Count) Newest(m *machine.Machine, counts map[machine.State]int, s machine.State, ofWorkspace bool, n int) {
	if c.seen[m] += n; c.seen[m] >= c.newest {
		c.More = true
	}
	if ofWorkspace && m.Ended(s) {
		counts[s] += n
	}
}

// Done returns the counts.
func (c *Count) Done() *Counts { return &c.Counts }
