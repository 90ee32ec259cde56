package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// WholeJob reads a job with what belongs to it; see store.Views.
func (db *DB) WholeJob(ctx context.Context, key rowkey.Job) (*store.WholeJob, error) {
	var w *store.WholeJob
	err := db.read(ctx, "read job", func(c *conn) error {
		w = nil
		job, err := db.jobIn(c, key)
		if err != nil || job == nil {
			return err
		}
		w = &store.WholeJob{Job: job}
		return db.rest(c, w)
	})
	return found(w, err, "job", key)
}

// rest reads what belongs to a job.
func (db *DB) rest(c *conn, w *store.WholeJob) (err error) {
	key := w.Job.Key()
	if _, w.Sequence, _, err = jobSequenceIn(c, key); err != nil {
		return err
	}
	if w.Counts, err = stepCountsIn(c, key); err != nil {
		return err
	}
	if w.Children, err = db.jobsIn(c, store.JobFilter{Parent: key, Limit: store.MaxChildren, Bare: true}); err != nil {
		return err
	}
	if w.Steps, err = db.stepsIn(c, key, 0, store.ListPage); err != nil {
		return err
	}
	page := &store.TrailPage{Limit: store.ListPage}
	err = db.trailIn(c, store.JobEntity(key), page)
	w.Entries = page.Entries(w.Job.ID.Public(pawl.JobPrefix))
	return err
}
