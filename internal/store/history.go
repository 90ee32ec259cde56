package store

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A HistoryPage collects a page of a job's history (Views.History) from its rows, which come
// in order.
type HistoryPage struct {
	Job  rowkey.Job
	Last HistoryPlace // of the last row

	entries []Entry
	bytes   int
}

// Row begins a row, and returns a function that adds its entries.
func (p *HistoryPage) Row() (add func(pawl.Ord, audit.Entry)) {
	first := true
	return func(ord pawl.Ord, e audit.Entry) {
		if first {
			p.Last, first = HistoryPlace{e.At, ord, e.Sequence}, false
		}
		p.entries = append(p.entries, Entry{StepEntity(pawl.StepKey{Job: p.Job, Ord: ord}), e})
		p.bytes += TrailBytes(&e)
	}
}

// Full reports whether the page takes no further row.
func (p *HistoryPage) Full() bool { return p.bytes >= TrailPageBytes }

// Entries returns the page.
func (p *HistoryPage) Entries() []Entry {
	slices.SortStableFunc(p.entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Ord, b.Ord), cmp.Compare(a.Sequence, b.Sequence))
	})
	return p.entries
}
