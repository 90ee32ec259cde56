package explain

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const (
	// maxInquiries is of how many jobs that do not move one page of a list finds out why.
	maxInquiries = 200

	// maxStuckPages is how many such pages Stuck reads, if it leaves out jobs that rightly
	// do not move.
	maxStuckPages = 5
)

// unfinished are the states of jobs that may be stuck.
var unfinished = []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}

// onlyUnfinished restricts a filter to jobs that have not ended.
func onlyUnfinished(f *store.JobFilter) error {
	if f.TimedOut {
		return pawl.Errorf(pawl.Invalid, "timed_out: a job that has ended is not stuck")
	}
	if i := slices.IndexFunc(f.States, lifecycle.Job.Ended); i >= 0 {
		return pawl.Errorf(pawl.Invalid, "status %s: a job that has ended is not stuck", f.States[i])
	}
	if len(f.States) == 0 {
		f.States = unfinished
	}
	return nil
}

// keys finds the newest jobs of a filter, as the store's JobKeys does, and leaves out those
// that are not stuck if the query wants only these. Then it looks at no more than maxInquiries
// jobs that do not move.
func (r *Reader) keys(ctx context.Context, q pawl.JobQuery, f store.JobFilter) (keys []rowkey.Job, next rowkey.Job, err error) {
	if q.Stuck == 0 {
		return r.store.JobKeys(ctx, f, maxRows)
	}
	sc, err := r.survey(ctx)
	if err != nil {
		return nil, 0, err
	}
	most := f.Limit
	f.Still, f.Limit = sc.now-q.Stuck.Microseconds(), maxInquiries
	quiet, next, err := r.store.JobKeys(ctx, f, maxRows)
	if err != nil || len(quiet) == 0 {
		return nil, next, err
	}
	jobs, err := r.store.Jobs(ctx, store.JobFilter{Keys: quiet, Bare: true})
	if err != nil {
		return nil, 0, err
	}
	for _, j := range jobs {
		is, err := r.isStuck(ctx, sc, j, f.Still)
		if err != nil {
			return nil, 0, err
		}
		if !is {
			continue
		}
		if keys = append(keys, j.Key()); len(keys) == most {
			return keys, j.Key(), nil
		}
	}
	return keys, next, nil
}

// isStuck reports whether a job has not ended, has not moved since a time, and ought to.
func (r *Reader) isStuck(ctx context.Context, sc *scene, j *pawl.Job, still int64) (bool, error) {
	if lifecycle.Job.Ended(j.State) {
		return false, nil
	}
	q, err := r.inquire(ctx, sc, j)
	if store.Unreadable(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	reasons, err := q.reasons()
	return err == nil && q.last < still && health.Stuck(pawl.MainReason(reasons)), err
}

// Stuck returns the unfinished jobs that have not changed for at least still, newest first,
// each with its most blocking reason. The statuses of the query must be those of unfinished
// jobs; none means all of these. Where Stuck of the query is set, it looks at a bounded number
// of jobs.
func (r *Reader) Stuck(ctx context.Context, query pawl.JobQuery, still time.Duration) ([]pawl.StuckJob, error) {
	if still < 0 {
		return nil, pawl.Errorf(pawl.Invalid, "for %s: want a duration of 0 or more", still)
	}
	query.TimedOut, still = false, max(still, query.Stuck)
	if query.Stuck > 0 {
		query.Stuck = still
	}
	f, err := r.jobFilter(ctx, query)
	if err == nil {
		err = onlyUnfinished(&f)
	}
	if err != nil {
		return nil, err
	}
	sc, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	f.Still = sc.now - still.Microseconds()
	stuck, most := make([]pawl.StuckJob, 0, f.Limit), f.Limit
	for page := 0; query.Stuck == 0 || page < maxStuckPages; page++ {
		f.Limit = most - len(stuck)
		keys, next, err := r.keys(ctx, query, f)
		if err != nil {
			return nil, err
		}
		full, err := r.list(ctx, store.JobFilter{Keys: keys, Limit: len(keys)}, func(j *pawl.Job) error {
			if lifecycle.Job.Ended(j.State) {
				return nil
			}
			s, err := r.stuck(ctx, sc, j)
			if err == nil {
				stuck = append(stuck, *s)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if full != 0 || next == 0 || len(stuck) == most {
			break
		}
		f.Before = next
	}
	return stuck, nil
}

func (r *Reader) stuck(ctx context.Context, sc *scene, j *pawl.Job) (*pawl.StuckJob, error) {
	v, _, err := r.view(ctx, j)
	if err != nil {
		return nil, err
	}
	q, err := r.inquire(ctx, sc, j)
	if store.Unreadable(err) {
		reason := undefined(j, err)
		return &pawl.StuckJob{JobView: *v, Still: pawl.Timestamp(j.UpdatedAt), Reason: &reason}, nil
	}
	if err != nil {
		return nil, err
	}
	q.all = true
	reasons, err := q.reasons()
	if err != nil {
		return nil, err
	}
	return &pawl.StuckJob{JobView: *v, Still: pawl.Timestamp(q.last), Reason: pawl.MainReason(reasons)}, nil
}
