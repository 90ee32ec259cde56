package store

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/audit"
)

// A TrailPage collects a page of the trail of one entity (Views.Trail) from the entries that a
// store reads. They may come in any order, since some entries of a step are in rows of earlier
// steps; it never holds more than two pages.
type TrailPage struct {
	After int64 // only entries of a later sequence; the entry at After supplies the From of the first
	Limit int   // 0: no limit

	entries []audit.Entry
	before  *audit.Entry // the one at After
	bytes   int
}

// Add adds an entry of the entity, without its Entity and From.
func (p *TrailPage) Add(e audit.Entry) {
	switch {
	case e.Sequence == p.After:
		p.before = &e
	case e.Sequence > p.After:
		p.entries = append(p.entries, e)
		p.bytes += TrailBytes(&e)
		if p.full(2) {
			p.cut()
		}
	}
}

// Full reports whether the page needs no more entries if they come in sequence.
func (p *TrailPage) Full() bool { return p.full(1) }

func (p *TrailPage) full(times int) bool {
	return p.Limit > 0 && (len(p.entries) >= times*p.Limit || p.bytes >= times*PageBytes)
}

// cut drops the entries that are not on the page.
func (p *TrailPage) cut() {
	slices.SortStableFunc(p.entries, func(a, b audit.Entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	all := p.entries
	p.entries, p.bytes = nil, 0
	for i := 0; i < len(all) && !p.full(1); i++ {
		p.entries = all[:i+1]
		p.bytes += TrailBytes(&all[i])
	}
	clear(all[len(p.entries):])
}

// Entries returns the page, for the entity with that public id.
func (p *TrailPage) Entries(id string) []audit.Entry {
	p.cut()
	Chain(id, p.entries)
	if len(p.entries) > 0 && p.before != nil {
		p.entries[0].From = p.before.To
	}
	return p.entries
}
