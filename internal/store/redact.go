package store

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A Redactor removes payload of ended jobs permanently (K6). It decides nothing: the trail of
// the job records what may be removed before any of it is.
type Redactor interface {
	// Redact does one bounded step from a place: one transaction, with the record of the job
	// locked. The caller continues from Redacted.Next until it is Done, and may stop or die at
	// any point: the next redaction finds what is left. Many processes may call it at once.
	Redact(ctx context.Context, r *Redaction, from RedactPlace) (Redacted, error)

	// Taken returns the sequences of the signals of a job that steps in a range have taken.
	Taken(ctx context.Context, job rowkey.Job, from, to pawl.Ord) ([]int64, error)

	// Scrub overwrites, as far as it can, the traces of removed or replaced values in the
	// database. It returns what is left for an operator to do, or "".
	Scrub(ctx context.Context, job rowkey.Job) (advice string, err error)
}

// A Redaction says what is removed from a job: the bodies of records, the data of signals and
// refused facts, logs, and what Entry removes.
type Redaction struct {
	Job      rowkey.Job
	From, To pawl.Ord // of the steps; From 0 means the job itself, with all of them
	Error    bool     // of the job, though the job itself is kept

	// Entry removes the payload of an entry, which has no Entity, and reports whether there
	// was any.
	Entry func(ord pawl.Ord, e *audit.Entry) bool
}

// A RedactPlace is the progress of a redaction. The zero RedactPlace is its beginning.
type RedactPlace struct {
	Stage RedactStage
	Ord   pawl.Ord // the next step continues after it
	Seq   int64    // likewise, for entries and rows with a number
}

// A RedactStage is the kind of rows redacted at a place. Records come before the entries that
// seal their payload: payload may be missing while its random bytes exist, but not the other
// way round.
type RedactStage int

// The stages, in order.
const (
	RedactRecords RedactStage = iota
	RedactSignals
	RedactRefusals
	RedactLogs
	RedactEntries
	RedactDone
)

// Redacted is the result of one step of Redact.
type Redacted struct {
	Records int64 // whose bodies were removed
	Entries int64 // of the trail
	Beside  int64 // signals, refused facts and pieces of logs
	Next    RedactPlace
	Done    bool
}

// Bounds of one step of a redaction: changed rows, and bytes of payload, which the last row
// may exceed.
const (
	RedactRows  = 500
	RedactBytes = 4 << 20
)

// After returns the step that has reached the end of a stage.
func (r *Redacted) After(stage RedactStage) {
	r.Next = RedactPlace{Stage: stage + 1}
	r.Done = r.Next.Stage == RedactDone
}

// Whole reports whether the job itself is redacted, with all its steps.
func (r *Redaction) Whole() bool { return r.From == 0 }

// A RedactPage limits the rows of one step by their number and size.
type RedactPage struct{ Rows, Bytes int }

// Take counts a row, and reports whether the page is full.
func (p *RedactPage) Take(size int64) (full bool) {
	p.Rows++
	p.Bytes += int(size)
	return p.Rows >= RedactRows || p.Bytes >= RedactBytes
}

// A RedactRow is a row of the trail: its own entry, and the list of its other entries.
type RedactRow struct {
	Ord   pawl.Ord
	Entry audit.Entry
	More  []byte
}

// Take removes the payload of a row's entries, and returns how many of them had any.
func (r *Redaction) Take(row *RedactRow) (n int64, err error) {
	if r.Entry(row.Ord, &row.Entry) {
		n++
	}
	if row.More == nil {
		return n, nil
	}
	var list []Entry
	inside := int64(0)
	err = Unpack(row.More, func(ord pawl.Ord, e audit.Entry) {
		if r.Entry(ord, &e) {
			inside++
		}
		list = append(list, Entry{EntityKey{StepKey: pawl.StepKey{Ord: ord}}, e})
	})
	if err != nil || inside == 0 {
		return n, err
	}
	row.More = nil
	for i := range list {
		row.More = appendPacked(row.More, &list[i], i > 0)
	}
	return n + inside, nil
}
