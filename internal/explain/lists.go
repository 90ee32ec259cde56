package explain

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// maxRows is how many records one page of a list looks at: it may be short, or empty, though
// there are more.
const maxRows = 20_000

// clockSlack is how far the clock of a process, which ids are made by, may differ from that
// of the database, which CreatedAt is of. A job of a process whose clock differs by more may
// be missing in lists by time.
const clockSlack = time.Minute

// limit returns the limit of a list.
func limit(requested int) (int, error) {
	if requested < 0 || requested > maxList {
		return 0, pawl.Errorf(pawl.Invalid, "limit %d: want 1 to %d", requested, maxList)
	}
	return cmp.Or(requested, defaultList), nil
}

// jobFilter returns the filter of a query, with the key of its schedule.
func (r *Reader) jobFilter(ctx context.Context, q pawl.JobQuery) (store.JobFilter, error) {
	f, err := jobFilter(q)
	if err == nil && q.Stuck != 0 {
		err = onlyUnfinished(&f)
	}
	if err == nil && q.Schedule != "" {
		var s *pawl.Schedule
		if s, err = store.FindSchedule(ctx, r.store, pawl.ScheduleName{Workspace: cmp.Or(q.Workspace, pawl.DefaultWorkspace), Name: q.Schedule}); err == nil {
			f.Schedule = s.Key()
		}
	}
	return f, err
}

// A Chosen is a job that a query selects.
type Chosen struct {
	ID    pawl.ID
	State machine.State
}

// maxLooks is how often a choice that has found nothing looks at maxRows further jobs.
const maxLooks = 50

// Choose returns the newest jobs that a query selects, at most so many. Like JobPage it looks at
// maxRows jobs, so that it may return few though there are more; it looks on while it has found
// none, maxLooks times in all. It reads no body. next is the Before of the next choice, empty after
// the last one.
func (r *Reader) Choose(ctx context.Context, q pawl.JobQuery, most int) (chosen []Chosen, next string, err error) {
	f, err := r.jobFilter(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for range maxLooks {
		f.Before, err = r.eachUpTo(ctx, q, f, most, true, func(j *pawl.Job) error {
			if selects(q, j) {
				chosen = append(chosen, Chosen{j.ID, j.State})
			}
			return nil
		})
		if err != nil || len(chosen) > 0 || f.Before == 0 {
			break
		}
	}
	return chosen, placeOf(f.Before), err
}

// eachUpTo calls each with the newest jobs of a filter, at most so many, and returns the key below
// which there may be more, or 0.
func (r *Reader) eachUpTo(ctx context.Context, q pawl.JobQuery, f store.JobFilter, most int, bare bool, each func(*pawl.Job) error) (rowkey.Job, error) {
	keys, end, err := r.keysUpTo(ctx, q, f, most)
	if err != nil {
		return 0, err
	}
	full, err := r.list(ctx, store.JobFilter{Keys: keys, Limit: len(keys), Bare: bare}, each)
	if full != 0 && full != keys[len(keys)-1] {
		end = full
	}
	return end, err
}

// keysUpTo finds the newest jobs of a filter, at most so many, and the key below which there may
// be more, or 0.
func (r *Reader) keysUpTo(ctx context.Context, q pawl.JobQuery, f store.JobFilter, most int) (keys []rowkey.Job, end rowkey.Job, err error) {
	f.Limit = most + 1 // shows whether there is another page
	if keys, end, err = r.keys(ctx, q, f); len(keys) > most {
		keys, end = keys[:most], keys[most-1]
	}
	return keys, end, err
}

// placeOf returns a key as the Before of a query: an id that need not be that of a job.
func placeOf(key rowkey.Job) string {
	if key == 0 {
		return ""
	}
	return pawl.MakeID(pawl.KeyTime(int64(key)), uint32(key), 0).Public(pawl.JobPrefix)
}

// jobFilter returns the filter of a query, without its schedule.
func jobFilter(q pawl.JobQuery) (f store.JobFilter, err error) {
	f = store.JobFilter{Workspace: q.Workspace, States: q.Statuses, TimedOut: q.TimedOut, Workflow: q.Workflow, Depth: q.Depth,
		MadeFrom: int64(q.CreatedAfter), MadeBefore: int64(q.CreatedBefore), Text: q.Text, Metadata: q.Metadata}
	if len(q.Metadata) > pawl.MaxMetadataFilter {
		return f, pawl.Errorf(pawl.Invalid, "metadata: %d members: want %d at most", len(q.Metadata), pawl.MaxMetadataFilter)
	}
	if q.Stuck < 0 {
		return f, pawl.Errorf(pawl.Invalid, "stuck %s: want a duration above 0", q.Stuck)
	}
	if f.Limit, err = limit(q.Limit); err != nil {
		return f, err
	}
	for _, id := range []struct {
		public string
		key    *rowkey.Job
	}{{q.Parent, &f.Parent}, {q.Continues, &f.Continues}, {q.Before, &f.Before}} {
		if id.public == "" {
			continue
		}
		parsed, err := pawl.ParseID(pawl.JobPrefix, id.public)
		if err != nil {
			return f, err
		}
		*id.key = parsed.JobKey()
	}
	if q.CreatedAfter != 0 {
		f.From = keyAt(q.CreatedAfter.Time().Add(-clockSlack))
	}
	if q.CreatedBefore != 0 {
		end := keyAt(q.CreatedBefore.Time().Add(clockSlack + time.Second))
		f.Before = min(cmp.Or(f.Before, end), end)
	}
	return f, nil
}

// keyAt returns the smallest key of a job made at or after the second of t, at least 1.
func keyAt(t time.Time) rowkey.Job {
	if t.After(pawl.KeyTime(math.MaxInt64)) {
		return math.MaxInt64
	}
	return rowkey.Job(max(1, pawl.KeyAt(t)))
}

// JobPage lists jobs as Jobs does, but looks at no more than maxRows of them, so that a
// page may be short, or empty, though there are more. next is the Before of the next page,
// empty after the last one.
func (r *Reader) JobPage(ctx context.Context, q pawl.JobQuery) (jobs []pawl.JobView, next string, err error) {
	f, err := r.jobFilter(ctx, q)
	if err != nil {
		return nil, "", err
	}
	jobs = []pawl.JobView{}
	end, err := r.eachUpTo(ctx, q, f, f.Limit, q.Summary, func(j *pawl.Job) error {
		if !selects(q, j) {
			return nil
		}
		v, _, err := r.view(ctx, j)
		if err == nil {
			v.Redacted = v.Redacted && !q.Summary // it is not known
			jobs = append(jobs, *v)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return jobs, placeOf(end), nil
}

// selects reports whether a job, which may have moved since its key was found, has a state
// that the query selects.
func selects(q pawl.JobQuery, j *pawl.Job) bool {
	if q.Stuck > 0 && lifecycle.Job.Ended(j.State) {
		return false
	}
	return len(q.Statuses) == 0 && !q.TimedOut || slices.Contains(q.Statuses, j.State) || q.TimedOut && j.State == lifecycle.JobCanceled
}
