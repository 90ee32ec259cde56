package store

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
)

// A page of trails is full when it has this many rows or bytes.
const (
	TrailPageRows  = 10_000
	TrailPageBytes = 4 << 20
)

// TrailBytes returns the approximate size of an entry within a page.
func TrailBytes(e *audit.Entry) int {
	const fixed = 256
	n := fixed + len(e.Reason) + len(e.Actor) + len(e.RequestID) + len(e.Metadata)
	for i := range e.Seals {
		n += fixed + len(e.Seals[i].Payload)
	}
	return n
}

// A TrailRow is the place of a row in the trail of a job.
type TrailRow struct {
	Ord pawl.Ord
	Seq int64
}

// A LongTrail reads the trail of a job that is longer than a page. No method leaves a
// transaction open.
type LongTrail interface {
	// Records reads the job and its steps as of one moment, by Ord, without entries. The job
	// comes first, with Seq 0 if its record is gone.
	Records(ctx context.Context) ([]TrailOf, error)
	// Without returns the trail of a step that has no record, without entries.
	Without(ord pawl.Ord) TrailOf
	// Rows passes the entries of the rows after a place to f, by (Ord, Seq) of the row, until
	// a page is full. It returns the place of the last row, and whether there may be more.
	Rows(ctx context.Context, after TrailRow, f func(pawl.Ord, audit.Entry)) (last TrailRow, more bool, err error)
	// Seqs reads the current sequence of the job's record (Ord 0) and of the records of its
	// steps. It omits records that are gone.
	Seqs(ctx context.Context, ords []pawl.Ord) (map[pawl.Ord]int64, error)
}

// Walk passes the trails of a job to f, by Ord, as of the moment at which its records were
// read: trails only grow at their ends, so later entries are cut off. It holds in memory the
// records, one page, and entries stored in rows of earlier steps.
func Walk(ctx context.Context, l LongTrail, f func(TrailOf) error) error {
	records, err := l.Records(ctx)
	if err != nil {
		return err
	}
	w := longWalk{LongTrail: l, known: records[0].Record.Seq > 0, records: records, entries: map[pawl.Ord][]audit.Entry{}}
	for at, more := (TrailRow{Ord: -1}), true; more; {
		before := at
		at, more, err = l.Rows(ctx, at, func(ord pawl.Ord, e audit.Entry) { w.entries[ord] = append(w.entries[ord], e) })
		if err == nil && more && at == before {
			err = pawl.Errorf(pawl.Internal, "rows of a trail after ord %d, sequence %d cannot be read", at.Ord, at.Seq)
		}
		if err != nil {
			return err
		}
		until := pawl.Ord(math.MaxInt64)
		if more {
			until = at.Ord - 1 // the last row's trail, and any later one, may have entries in further rows
		}
		page, err := w.take(ctx, until)
		if err != nil {
			return err
		}
		for _, t := range page {
			if err := f(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// A longWalk holds what Walk has read and not yet passed on.
type longWalk struct {
	LongTrail
	known   bool // the job had a record
	records []TrailOf
	entries map[pawl.Ord][]audit.Entry
}

// take removes and returns the trails up to an ord.
func (w *longWalk) take(ctx context.Context, until pawl.Ord) ([]TrailOf, error) {
	n := 0
	for n < len(w.records) && w.records[n].Ord <= until {
		n++
	}
	page := slices.Clone(w.records[:n])
	w.records = w.records[n:]
	for i := range page {
		page[i].Entries = w.entries[page[i].Ord]
		delete(w.entries, page[i].Ord)
	}
	for ord, entries := range w.entries {
		if ord <= until {
			t := w.Without(ord)
			t.Entries = entries
			page = append(page, t)
			delete(w.entries, ord)
		}
	}
	page, err := w.cut(ctx, page)
	slices.SortFunc(page, func(a, b TrailOf) int { return cmp.Compare(a.Ord, b.Ord) })
	for _, t := range page {
		t.Complete()
	}
	return page, err
}

// cut removes entries that were added after the records had been read. An entry that its
// record does not know even now stays: it is a forgery.
func (w *longWalk) cut(ctx context.Context, page []TrailOf) ([]TrailOf, error) {
	ords := []pawl.Ord{0}
	for i := range page {
		if page[i].ahead() {
			ords = append(ords, page[i].Ord)
		}
	}
	now, err := w.Seqs(ctx, ords)
	if err != nil {
		return nil, err
	}
	if w.known && now[0] == 0 {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "retention removed a job while its trail was read", Hint: "run the command again"}
	}
	for i := range page {
		if t := &page[i]; t.ahead() && now[t.Ord] != t.Record.Seq {
			t.Entries = slices.DeleteFunc(t.Entries, t.unknown)
		}
	}
	return slices.DeleteFunc(page, func(t TrailOf) bool { return t.Record.Seq == 0 && len(t.Entries) == 0 }), nil
}

// ahead reports whether a trail has entries that its record does not know.
func (t *TrailOf) ahead() bool { return slices.ContainsFunc(t.Entries, t.unknown) }

func (t *TrailOf) unknown(e audit.Entry) bool { return e.Sequence > t.Record.Seq }
