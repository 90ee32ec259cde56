package runner

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// partly is a store that lists some jobs only, and returns an error for each other one.
type partly struct {
	store.Store
	listed []*pawl.Job
	others map[int64]error
}

func (p *partly) Jobs(context.Context, store.JobFilter) ([]*pawl.Job, error) { return p.listed, nil }

func (p *partly) Job(_ context.Context, key int64) (*pawl.Job, error) { return nil, p.others[key] }

// TestFoldersOfWhichJobsGo: of those that have ended, and those that are no more; not of
// one that is listed nowhere since it cannot be read.
func TestFoldersOfWhichJobsGo(t *testing.T) { // T8
	t.Parallel()
	const open, ended, damaged, gone = "j_019a3c7e5b7a7c1d8000000040a1b2c3", "j_019a3c7e5b7a7c1d80000000c0a1b2c3", "j_019a3c7e5b7a7c1d8000000140a1b2c3", "j_019a3c7e5b7a7c1d80000001c0a1b2c3"
	id := func(text string) pawl.ID {
		id, err := pawl.ParseID(pawl.JobPrefix, text)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	job := func(text string) *pawl.Job { return &pawl.Job{ID: id(text)} }
	listed := []*pawl.Job{job(open), job(ended)}
	listed[0].State, listed[1].State = lifecycle.JobRunning, lifecycle.JobFailed
	f := &folders{store: &partly{listed: listed, others: map[int64]error{
		id(damaged).Key(): pawl.Errorf(pawl.Internal, "it cannot be read"), id(gone).Key(): store.ErrNotFound}}}
	over, err := f.over(t.Context(), []string{open, ended, damaged, gone, "notes"})
	slices.Sort(over)
	if want := []string{ended, gone}; err != nil || !slices.Equal(over, want) {
		t.Errorf("%q, %v; want %q", over, err, want)
	}
}
