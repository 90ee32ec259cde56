package worker

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// ending is a link by which some jobs have ended.
type ending struct {
	link.Worker
	jobs []pawl.ID
}

func (e *ending) EndedJobs(_ context.Context, asked []pawl.ID) ([]pawl.ID, error) {
	return slices.DeleteFunc(asked, func(job pawl.ID) bool { return !slices.Contains(e.jobs, job) }), nil
}

// TestFoldersOfWhichJobsGo: of those that have ended; never one that is named otherwise.
func TestFoldersOfWhichJobsGo(t *testing.T) { // T8
	t.Parallel()
	const open, ended = "j_019a3c7e5b7a7c1d8000000040a1b2c3", "j_019a3c7e5b7a7c1d80000000c0a1b2c3"
	id, err := pawl.ParseID(pawl.JobPrefix, ended)
	if err != nil {
		t.Fatal(err)
	}
	f := &folders{link: &ending{jobs: []pawl.ID{id}}}
	over, err := f.over(t.Context(), []string{open, ended, "notes"})
	if want := []string{ended}; err != nil || !slices.Equal(over, want) {
		t.Errorf("%q, %v; want %q", over, err, want)
	}
}
