package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// partly is a store that lists only some jobs, and returns an error for each other one.
type partly struct {
	store.Store
	listed []*pawl.Job
	others map[rowkey.Job]error
}

func (p *partly) Jobs(context.Context, store.JobFilter) ([]*pawl.Job, error) { return p.listed, nil }

func (p *partly) Job(_ context.Context, key rowkey.Job) (*pawl.Job, error) { return nil, p.others[key] }

// TestEndedJobs: it returns jobs that have ended and jobs that no longer exist, but not one
// that lists omit because it cannot be read.
func TestEndedJobs(t *testing.T) { // T8
	t.Parallel()
	id := func(text string) pawl.ID {
		id, err := pawl.ParseID(pawl.JobPrefix, text)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	open, ended := id("j_019a3c7e5b7a7c1d8000000040a1b2c3"), id("j_019a3c7e5b7a7c1d80000000c0a1b2c3")
	damaged, gone := id("j_019a3c7e5b7a7c1d8000000140a1b2c3"), id("j_019a3c7e5b7a7c1d80000001c0a1b2c3")
	listed := []*pawl.Job{{ID: open}, {ID: ended}}
	listed[0].State, listed[1].State = lifecycle.JobRunning, lifecycle.JobFailed
	e := &Engine{store: &partly{listed: listed, others: map[rowkey.Job]error{
		damaged.JobKey(): pawl.Errorf(pawl.Internal, "it cannot be read"), gone.JobKey(): store.ErrNotFound}}}
	over, err := e.EndedJobs(t.Context(), []pawl.ID{open, ended, damaged, gone})
	if want := []pawl.ID{ended, gone}; err != nil || !slices.Equal(over, want) {
		t.Errorf("%d, %v; want %d", over, err, want)
	}
}
