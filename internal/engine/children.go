package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A job that was submitted as the child of another is no step of it. If the parent is canceled,
// it stays marked in the commit that ends it, and an evaluator cancels those of its children
// that have not ended, one after another; if it dies, another one goes on. No child is
// submitted meanwhile, since both commits lock the parent.

// cancelChildren does that for a job that has ended with a mark, and ends the mark. It reports
// whether something else is to be done about the job.
func (e *Engine) cancelChildren(ctx context.Context, job rowkey.Job) (more bool, err error) {
	j, err := e.store.Job(ctx, job)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case !j.Children || j.State != lifecycle.JobCanceled:
		return true, nil
	}
	f := store.JobFilter{Parent: job, States: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, Limit: store.ListPage, Bare: true}
	for {
		page, err := e.store.Jobs(ctx, f)
		if err != nil {
			return false, err
		}
		for _, child := range page {
			if f.Before = child.Key(); child.ParentStep == 0 {
				if err := e.cancelChild(ctx, child.ID); err != nil {
					return false, err
				}
			}
		}
		if len(page) == 0 {
			break
		}
	}
	redacted, err := e.redacted(ctx, job)
	if err != nil {
		return false, err
	}
	seq := j.Seq
	return redacted, e.committer.one(ctx, &marking{job: job, do: func(_ *tx, j *pawl.Job) {
		if j.Children = false; !redacted && j.Seq == seq {
			j.Mark = pawl.Clear
		}
	}})
}

// cancelChild cancels a job because its parent was. One whose hooks run may end them.
func (e *Engine) cancelChild(ctx context.Context, id pawl.ID) error {
	job, err := e.recallID(ctx, id)
	if err != nil {
		if pawl.KindOf(err) == pawl.NotFound {
			return nil
		}
		return err
	}
	err = e.committer.one(ctx, &cancelJob{e: e, job: job, note: decide.Note{Reason: "its parent job was canceled"}, spare: true})
	if pawl.KindOf(err) == pawl.Conflict {
		return nil // it is already ending, or has ended
	}
	return err
}

// redacted reports whether payload of a job is withheld.
func (e *Engine) redacted(ctx context.Context, job rowkey.Job) (is bool, err error) {
	err = trail.EachEntry(ctx, e.store, store.JobEntity(job), func(entry *audit.Entry) error {
		is = is || entry.Event == lifecycle.JobRedact
		return nil
	})
	return is, err
}
