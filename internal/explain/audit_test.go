package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
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

	for _, size := range []int{400, 1000} {
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

// A counting source counts what is looked at.
type counting struct {
	Source
	rows, jobs int
}

func (c *counting) Moves(ctx context.Context, f store.MoveFilter) (*store.Moves, error) {
	m, err := c.Source.Moves(ctx, f)
	if err == nil {
		c.rows += m.Rows
	}
	return m, err
}

// JobKeys counts the jobs that may be looked at.
func (c *counting) JobKeys(ctx context.Context, f store.JobFilter, rows int) ([]rowkey.Job, rowkey.Job, error) {
	c.jobs += rows
	return c.Source.JobKeys(ctx, f, rows)
}

// TestAPageOfMovesIsBounded: however many rows a database writes in a second, a page looks at no more than it
// may, and at about what it returns, and the pages together have every move once, each page the newest first.
func TestAPageOfMovesIsBounded(t *testing.T) { // K6
	t.Parallel()
	e := newBase(t)
	count := &counting{Source: e.store}
	e.store, e.look = count, 600
	mint, begun := storetest.NewMint(), pawl.Micros(time.Now())-30*time.Minute.Microseconds()
	want := map[string]int{}
	do := func(at int64, actor string, change func(b *storetest.Batch)) {
		b := storetest.NewBatch(at)
		b.Actor = actor
		change(b)
		if err := e.db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 { // 100 jobs every 2 s, which move again when they are made, 5 s later, or 15 s later
		at, actor := begun+int64(i)*2_000_000, "api"
		if i == 7 {
			actor = "ada"
		}
		jobs := make([]*pawl.Job, 100)
		do(at, actor, func(b *storetest.Batch) {
			for n := range jobs {
				jobs[n] = &pawl.Job{ID: mint.ID(at), Workspace: "w", Workflow: "flow", Inputs: []byte(`{}`), Metadata: []byte(`{}`)}
				b.AddJob(jobs[n])
			}
		})
		do(at+[]int64{0, 5_000_000, 15_000_000}[i%3], actor, func(b *storetest.Batch) {
			for _, j := range jobs {
				b.MoveJob(j, lifecycle.JobValidate)
			}
		})
		want[""] += 200
		want[actor] += 200
	}
	for _, size := range []int{25, 1000} {
		for actor, n := range want {
			seen, after, looked := map[string]bool{}, "", 0
			for pages := 0; ; pages++ {
				count.rows = 0
				page, next, err := e.MovePage(t.Context(), pawl.AuditQuery{Actor: actor, From: pawl.Timestamp(begun - 1), After: after, Limit: size})
				if err != nil || count.rows > e.look || pages > 1500 {
					t.Fatalf("page %d has looked at %d rows, want %d at most: %v", pages, count.rows, e.look, err)
				}
				looked += count.rows
				if len(page) > size || !slices.IsSortedFunc(page, func(a, b pawl.Move) int { return int(b.At - a.At) }) {
					t.Errorf("a page of %d has %d moves, or is not sorted", size, len(page))
				}
				for i := range page {
					if key := fmt.Sprint(page[i].Entity, page[i].Sequence); seen[key] || actor != "" && page[i].Actor != actor {
						t.Errorf("%s comes twice, or is by %s", key, page[i].Actor)
					} else {
						seen[key] = true
					}
				}
				if after = next; next == "" {
					break
				}
			}
			if len(seen) != n {
				t.Errorf("pages of %d have %d moves of %q, want %d", size, len(seen), actor, n)
			}
			if actor == "" && looked > 10*n { // whatever the size: a page that continues a slice reads about what it returns
				t.Errorf("pages of %d have looked at %d rows for %d moves", size, looked, n)
			}
		}
	}
}

// TestAChoiceIsBounded: a choice looks at no more jobs than a page of a list once it has found some, looks on
// while it has found none, and goes on from where it has stopped.
func TestAChoiceIsBounded(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	count := &counting{Source: e.store}
	e.store = count
	b := storetest.NewBatch(1)
	for i := range maxRows + 10 {
		j := &pawl.Job{ID: e.mint.ID(1_800_000_000_000_000), Workspace: "w", Workflow: "flow"}
		if i == 0 || i == maxRows+9 {
			j.Workflow = "rare"
		}
		b.AddJob(j)
	}
	if err := e.db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil }); err != nil {
		t.Fatal(err)
	}
	first, next, err := e.Choose(t.Context(), pawl.JobQuery{Workflow: "rare"}, 2000)
	if err != nil || len(first) != 1 || next == "" || count.jobs != maxRows {
		t.Errorf("%d jobs are chosen, next %q, of %d, %v; want the newest one, of %d", len(first), next, count.jobs, err, maxRows)
	}
	rest := first[0].ID.Public(pawl.JobPrefix)
	if older, _, err := e.Choose(t.Context(), pawl.JobQuery{Workflow: "rare", Before: rest}, 2000); err != nil || len(older) != 1 {
		t.Errorf("%d jobs are chosen behind the newest one, %v; want the oldest one, though %d lie between them", len(older), err, maxRows)
	}
	second, next, err := e.Choose(t.Context(), pawl.JobQuery{Workflow: "rare", Before: next}, 2000)
	if err != nil || len(second) != 1 || next != "" {
		t.Errorf("%d jobs are chosen, next %q, %v; want the last one", len(second), next, err)
	}
	many, next, err := e.Choose(t.Context(), pawl.JobQuery{Workflow: "flow"}, 2000)
	if err != nil || len(many) != 2000 || next == "" {
		t.Errorf("%d jobs are chosen, next %q, %v; want 2000", len(many), next, err)
	}
}

// TestPlacesOfMoves: a place that no page has given is refused.
func TestPlacesOfMoves(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	for _, place := range []string{"1", "1.job.2.3", "1.job.2.3.x", "01.job.2.3.4", "x.job.2.3.4", "1.job.2.3.4.5", "1.job.2.3.4.5.-1.1.2.3.4.1.job.2.3.4", "1.job.2.3.4.5.1.1.2.3.4.1.job.2.3.x"} {
		if _, _, err := e.MovePage(t.Context(), pawl.AuditQuery{After: place}); !isInvalid(err) {
			t.Errorf("%q: %v", place, err)
		}
	}
}

// TestMovesThatNoMachineHas: an event or a state that none of the machines of a query has is refused, with
// their names, though another machine has it.
func TestMovesThatNoMachineHas(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	for want, q := range map[string]pawl.AuditQuery{
		`event "explode": want an event of job, step,`:       {Event: "explode"},
		`event "validate": want an event of step, token`:     {Event: lifecycle.JobValidate, Machines: []string{"step", "token"}},
		`state "in_progress": want a state of job`:           {State: lifecycle.StepInProgress, Machines: []string{"job"}},
		`machine "member": want job, step, worker, schedule`: {Machines: []string{"member"}},
	} {
		if _, _, err := e.MovePage(t.Context(), q); !isInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if _, _, err := e.MovePage(t.Context(), pawl.AuditQuery{State: lifecycle.StepInProgress, Machines: []string{"job", "step"}}); err != nil {
		t.Error(err)
	}
}
