package explain

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

// TestStuckJobsBehindMany: a page finds out of no more than 200 jobs why they do not move, and
// says where the next one begins, so that those behind many that rightly wait are found (J4, T9).
func TestStuckJobsBehindMany(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const waiting, stuck = maxStuckPages*maxInquiries + 50, 3
	ids := e.jobs(t, waiting+stuck, func(i int, j *pawl.Job, b *storetest.Batch) {
		step := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}}
		b.AddStep(j, step)
		j.Paused = i >= stuck
		j.UpdatedAt -= int64(time.Hour / time.Microsecond)
		step.UpdatedAt = j.UpdatedAt
	})
	q := pawl.JobQuery{Stuck: time.Minute, Limit: 2, Summary: true}
	var sizes []int
	var got []string
	for {
		page, next, err := e.JobPage(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page))
		for i := range page {
			got = append(got, page[i].ID)
		}
		if q.Before = next; next == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{0, 0, 0, 0, 0, 2, 1}) || !slices.Equal(got, ids[waiting:]) {
		t.Errorf("pages of %v jobs: %v; want %v", sizes, got, ids[waiting:])
	}
	for before, want := range map[string]int{"": 0, ids[100]: stuck} {
		list, err := e.Stuck(t.Context(), pawl.JobQuery{Stuck: time.Minute, Before: before}, 0)
		if err != nil || len(list) != want {
			t.Errorf("before %q: %d, %v; want %d of those that it looks at", before, len(list), err, want)
		}
	}
	if list, err := e.Stuck(t.Context(), pawl.JobQuery{Limit: 10}, time.Minute); err != nil || len(list) != 10 || list[0].ID != ids[0] {
		t.Errorf("%d jobs that do not move, %v", len(list), err)
	}
	if list, err := e.Jobs(t.Context(), pawl.JobQuery{Stuck: time.Minute}); err != nil || len(list) != stuck {
		t.Errorf("a list has %d, %v", len(list), err)
	}
}
