package explain

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestMovesOfDenseAndEmptyTimes: pages have every move once, the newest first, though 4,000 rows
// lie in a fifth of a second, 400 entries have one time, and years lie between others; and a rare actor
// is found, over pages that may be empty.
func TestMovesOfDenseAndEmptyTimes(t *testing.T) { // K6
	t.Parallel()
	e := newBase(t)
	mint, now := storetest.NewMint(), pawl.Micros(time.Now())
	count := 0
	add := func(at int64, jobs int, actor string) {
		b := storetest.NewBatch(at)
		b.Actor = actor
		for range jobs {
			j := &pawl.Job{ID: mint.ID(at), Workspace: "w", Workflow: "flow", Inputs: []byte(`{}`), Metadata: []byte(`{}`)}
			b.AddJob(j)
			b.MoveJob(j, lifecycle.JobValidate)
			count += 2
		}
		if err := e.db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil }); err != nil {
			t.Fatal(err)
		}
	}
	hour := time.Hour.Microseconds()
	for i := range 20 {
		add(now-30*hour+int64(i)*10_000, 200, "api")
	}
	add(now-20_000*hour, 3, "ada")
	add(now-29*hour, 1, "ada")
	add(now-hour, 1, "bob")

	for _, size := range []int{90, 1000} {
		got := inPages(t, size, func(ctx context.Context, after string) ([]pawl.Move, string, error) {
			return e.MovePage(ctx, pawl.AuditQuery{After: after, Limit: size})
		})
		seen := map[string]bool{}
		for i := range got {
			seen[fmt.Sprint(got[i].Entity, got[i].Sequence)] = true
		}
		if len(got) != count || len(seen) != count || !slices.IsSortedFunc(got, func(a, b pawl.Move) int { return int(b.At - a.At) }) {
			t.Errorf("pages of %d have %d moves, %d of them different; want %d, the newest first", size, len(got), len(seen), count)
		}
	}
	var found []pawl.Move
	pages, after := 0, ""
	for {
		page, next, err := e.MovePage(t.Context(), pawl.AuditQuery{Actor: "ada", After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		found, pages, after = append(found, page...), pages+1, next
		if next == "" {
			break
		}
	}
	if len(found) != 8 || pages > 6 {
		t.Errorf("%d moves of ada in %d pages, want 8 in 6 at most", len(found), pages)
	}
}

// TestPlacesOfMoves: a place that no page has given is refused.
func TestPlacesOfMoves(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	for _, place := range []string{"1", "1.job.2.3", "1.job.2.3.x", "01.job.2.3.4", "x.job.2.3.4", "1.job.2.3.4.5"} {
		if _, _, err := e.MovePage(t.Context(), pawl.AuditQuery{After: place}); !isInvalid(err) {
			t.Errorf("%q: %v", place, err)
		}
	}
}
