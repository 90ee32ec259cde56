package explain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// move moves steps of a job by an event.
func (e *base) move(t *testing.T, id pawl.ID, event machine.Event, ords ...pawl.Ord) {
	t.Helper()
	q := &store.Query{Jobs: []rowkey.Job{id.JobKey()}}
	for _, ord := range ords {
		q.Steps = append(q.Steps, pawl.StepKey{Job: id.JobKey(), Ord: ord})
	}
	err := e.db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		for _, k := range q.Steps {
			b.MoveStep(f.Jobs[k.Job], f.Steps[k], event)
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stepKeys reads all pages of a list of steps, and returns their keys and the number of pages.
func (e *base) stepKeys(t *testing.T, id pawl.ID, q pawl.StepQuery) (keys []string, pages int) {
	t.Helper()
	for {
		steps, next, err := e.StepPage(t.Context(), id, q)
		if err != nil || steps == nil {
			t.Fatalf("page %d: %v, %v", pages, steps, err)
		}
		for _, s := range steps {
			keys = append(keys, s.Key)
		}
		if pages++; next == "" {
			return keys, pages
		}
		q.After = next
	}
}

// TestStepPages: the steps of a job by state, key and node, in the order of the workflow (J4).
func TestStepPages(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	id := e.largeSteps(t, 10, 10)
	e.move(t, id, lifecycle.StepSkip, pawl.MakeOrd(1, 3), pawl.MakeOrd(1, 7))
	all := []string{"a"}
	for i := range 9 {
		all = append(all, fmt.Sprintf("a[%d]", i))
	}
	after := func(i int) string { return id.Step(pawl.MakeOrd(1, i)).Public(pawl.StepPrefix) }
	for name, tt := range map[string]struct {
		q    pawl.StepQuery
		want []string
	}{
		"all":      {pawl.StepQuery{}, all},
		"status":   {pawl.StepQuery{Statuses: []machine.State{lifecycle.StepSkipped}}, []string{"a[2]", "a[6]"}},
		"no match": {pawl.StepQuery{Statuses: []machine.State{lifecycle.StepComplete}}, nil},
		"key":      {pawl.StepQuery{Key: "a[3]"}, []string{"a[3]"}},
		"node":     {pawl.StepQuery{Node: "a"}, all},
		"of node":  {pawl.StepQuery{Key: "a"}, all[:1]},
		"not made": {pawl.StepQuery{Key: "a[300]"}, nil},
		"after":    {pawl.StepQuery{After: after(8)}, all[9:]},
		"past it":  {pawl.StepQuery{Key: "a[3]", After: after(4)}, nil},
		"before":   {pawl.StepQuery{Key: "a[3]", After: after(2)}, []string{"a[3]"}},
	} {
		for _, limit := range []int{0, 1, 2, 10} {
			tt.q.Limit = limit
			got, pages := e.stepKeys(t, id, tt.q)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, by %d (-want +got):\n%s", name, limit, diff)
			}
			if want := max(1, (len(tt.want)+max(limit, 1)-1)/max(limit, 1)); limit != 0 && pages != want {
				t.Errorf("%s, by %d: %d pages, want %d", name, limit, pages, want)
			}
		}
	}
	other := e.largeSteps(t, 1, 1)
	for name, tt := range map[string]struct {
		q    pawl.StepQuery
		kind pawl.Kind
	}{
		"limit":         {pawl.StepQuery{Limit: 1001}, pawl.Invalid},
		"no such node":  {pawl.StepQuery{Node: "b"}, pawl.NotFound},
		"no such key":   {pawl.StepQuery{Key: "b[1]"}, pawl.NotFound},
		"no id":         {pawl.StepQuery{After: "st_"}, pawl.Invalid},
		"of other jobs": {pawl.StepQuery{After: other.Step(pawl.MakeOrd(1, 0)).Public(pawl.StepPrefix)}, pawl.Invalid},
	} {
		if _, _, err := e.StepPage(t.Context(), id, tt.q); pawl.KindOf(err) != tt.kind {
			t.Errorf("%s: %v, want kind %v", name, err, tt.kind)
		}
	}
	if _, _, err := e.StepPage(t.Context(), e.mint.ID(1), pawl.StepQuery{}); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("of no job: %v", err)
	}
}

// TestARareStateIsLookedForInPages: a page without a match ends after 20,000 steps (J4).
func TestARareStateIsLookedForInPages(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const n = 2*maxRows + 10
	id := e.largeSteps(t, n, 0)
	q := pawl.StepQuery{Statuses: []machine.State{lifecycle.StepSkipped}}
	e.move(t, id, lifecycle.StepSkip, pawl.MakeOrd(1, n-1))
	for page := range 2 {
		steps, next, err := e.StepPage(t.Context(), id, q)
		if want := id.Step(pawl.MakeOrd(1, (page+1)*maxRows-1)).Public(pawl.StepPrefix); err != nil || len(steps) > 0 || next != want {
			t.Fatalf("page %d has %d steps, next %s, %v; want none, next %s", page, len(steps), next, err, want)
		}
		q.After = next
	}
	if steps, next, err := e.StepPage(t.Context(), id, q); err != nil || len(steps) != 1 || next != "" {
		t.Errorf("%d steps, next %s, %v; want the last one", len(steps), next, err)
	}
}

// TestAPageOfLargeSteps ends with the step that brings the bodies to the limit, and the next
// one goes on from there (J4, T8).
func TestAPageOfLargeSteps(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const n = 10
	id := e.largeSteps(t, n, maxListBytes/4)
	steps, next, err := e.StepPage(t.Context(), id, pawl.StepQuery{})
	if err != nil || len(steps) != 4 || next != steps[3].ID {
		t.Fatalf("%d steps, next %q, %v; want 4 of %d", len(steps), next, err, n)
	}
	if got, pages := e.stepKeys(t, id, pawl.StepQuery{}); len(got) != n || pages != 3 {
		t.Errorf("%d steps in %d pages; want %d in 3", len(got), pages, n)
	}
}

// TestAStepByItsID is found with its job, and with its own moves (J4, J5).
func TestAStepByItsID(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	id := e.largeSteps(t, 3, 10)
	ord := pawl.MakeOrd(1, 2)
	e.move(t, id, lifecycle.StepEnqueue, ord)
	step := id.Step(ord)
	s, job, workspace, err := e.Step(t.Context(), step)
	if err != nil || job != id || workspace != "w" || s.Key != "a[1]" || s.ID != step.Public(pawl.StepPrefix) || s.Status != lifecycle.StepEnqueued || len(s.Output) == 0 {
		t.Errorf("%+v of %v in %s, %v", s, job, workspace, err)
	}
	err = e.db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		for i, why := range []string{"of another", "late"} {
			b.Refusals = append(b.Refusals, pawl.Refusal{StepKey: pawl.StepKey{Job: id.JobKey(), Ord: ord - 1 + pawl.Ord(i)}, At: f.Now, Event: lifecycle.StepSuccess, Why: why})
		}
		return &b.Changes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	err = e.StepHistory(t.Context(), step, func(m pawl.Transition) error {
		if m.Step != s.Key || m.Entity != s.ID {
			t.Errorf("a move of %s, %s", m.Step, m.Entity)
		}
		events = append(events, string(m.Event)+" "+string(m.To))
		return nil
	})
	if want := []string{"create pending", "enqueue enqueued", "success "}; err != nil || !slices.Equal(events, want) {
		t.Errorf("history %q, %v; want %q", events, err, want)
	}
	for name, id := range map[string]pawl.ID{
		"no such step":    id.Step(pawl.MakeOrd(1, 9)),
		"no such job":     e.mint.ID(1).Step(ord),
		"of another uuid": pawl.MakeID(id.Time(), uint32(id.JobKey()), 1<<40).Step(ord),
		"a job":           id.Step(0),
		"a node too many": id.Step(pawl.MakeOrd(900, 1)),
	} {
		if s, _, _, err := e.Step(t.Context(), id); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if err := e.StepHistory(t.Context(), id, func(pawl.Transition) error { return nil }); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("history of %s: %v", name, err)
		}
	}
}
