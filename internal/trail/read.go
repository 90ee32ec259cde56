package trail

import (
	"context"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// entryPage is how many entries EachEntry reads at once.
const entryPage = 1000

// EachEntry calls f with the entries of one entity, by sequence, until f fails. It reads them
// in pages.
func EachEntry(ctx context.Context, v store.Views, k store.EntityKey, f func(*audit.Entry) error) error {
	return EachEntryAfter(ctx, v, k, 0, f)
}

// EachEntryAfter is EachEntry for the entries beyond a sequence.
func EachEntryAfter(ctx context.Context, v store.Views, k store.EntityKey, after int64, f func(*audit.Entry) error) error {
	for {
		page, err := v.Trail(ctx, k, after, entryPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Sequence
	}
}

// WithheldOf reads what is withheld according to the trail of a job.
func WithheldOf(ctx context.Context, v store.Views, job rowkey.Job) (*audit.Withheld, error) {
	by := &audit.Withheld{}
	k := store.JobEntity(job)
	err := EachEntry(ctx, v, k, func(e *audit.Entry) error { by.Note(e); return nil })
	return by, err
}
