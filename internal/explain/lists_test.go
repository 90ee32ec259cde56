package explain

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// jobs makes n pending jobs of one step, after change was called with each, and returns
// their ids, newest first.
func (e *base) jobs(t *testing.T, n int, change func(i int, j *pawl.Job, b *storetest.Batch)) []string {
	t.Helper()
	def, err := workflow.Parse("one.yaml", []byte("name: one\nsteps: [{id: a, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, n)
	for from := 0; from < n; from += 1000 {
		err := e.db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
			b := storetest.NewBatch(f.Now)
			b.Definitions = []*pawl.Definition{{Key: definitions.KeyOf(def.Hash()), Hash: def.Hash(), Name: def.Name, Source: def.Canonical(), CreatedAt: f.Now}}
			for i := from; i < min(n, from+1000); i++ {
				j := &pawl.Job{ID: e.mint.ID(f.Now), Workspace: "w", Workflow: def.Name, Definition: definitions.KeyOf(def.Hash()), WorkerCount: 1, Open: 1}
				j.CreatedAt, ids[n-1-i] = f.Now, j.ID.Public(pawl.JobPrefix)
				b.AddJob(j)
				b.MoveJob(j, lifecycle.JobValidate)
				if change != nil {
					change(i, j, b)
				}
			}
			return &b.Changes, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// pages reads all pages of a list, and returns the ids of its jobs and the number of pages.
func (e *base) pages(t *testing.T, q pawl.JobQuery) (ids []string, pages int) {
	t.Helper()
	for {
		jobs, next, err := e.JobPage(t.Context(), q)
		if err != nil || jobs == nil {
			t.Fatalf("page %d: %v, %v", pages, jobs, err)
		}
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		if pages++; next == "" {
			return ids, pages
		}
		q.Before = next
	}
}

// TestARareStatusIsLookedForInPages: a page without a match ends after 20,000 jobs, and says
// where the next one begins (J4).
func TestARareStatusIsLookedForInPages(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const n = 60_000
	ids := e.jobs(t, n, nil)
	for name, q := range map[string]pawl.JobQuery{
		"ended":     {Statuses: []machine.State{lifecycle.JobFailed}},
		"in flight": {Statuses: []machine.State{lifecycle.JobPending}, Workspace: "none"},
	} {
		for page := range n / maxRows {
			jobs, next, err := e.JobPage(t.Context(), q)
			if err != nil || len(jobs) > 0 || next == "" {
				t.Fatalf("%s: page %d has %d jobs, next %q, %v", name, page, len(jobs), next, err)
			}
			at, err := pawl.ParseID(pawl.JobPrefix, next)
			last, _ := pawl.ParseID(pawl.JobPrefix, ids[(page+1)*maxRows-1])
			if err != nil || at.JobKey() != last.JobKey() {
				t.Errorf("%s: page %d ends at %d, %v; want it after %d jobs, at %d", name, page, at.JobKey(), err, maxRows, last.JobKey())
			}
			q.Before = next
		}
		if jobs, next, err := e.JobPage(t.Context(), q); err != nil || len(jobs) > 0 || next != "" {
			t.Errorf("%s: after all jobs: %d jobs, next %q, %v", name, len(jobs), next, err)
		}
	}
}

// TestJobPages: pages have what a list without a bound has, and the last one names no next.
func TestJobPages(t *testing.T) { // J4
	t.Parallel()
	e := newBase(t)
	depth := func(n int) *int { return &n }
	parent := e.jobs(t, 1, nil)[0]
	parentID, _ := pawl.ParseID(pawl.JobPrefix, parent)
	ids := e.jobs(t, 12, func(i int, j *pawl.Job, b *storetest.Batch) {
		j.Depth = i % 2
		if i%3 == 0 {
			j.Parent = parentID.JobKey()
		}
		if i%4 == 0 {
			j.Continues = parentID.JobKey()
			b.MoveJob(j, lifecycle.JobCancel)
		}
	})
	at := func(i int) pawl.Timestamp {
		id, _ := pawl.ParseID(pawl.JobPrefix, ids[i])
		j, err := e.db.Job(t.Context(), id.JobKey())
		if err != nil {
			t.Fatal(err)
		}
		return pawl.Timestamp(j.CreatedAt)
	}
	pick := func(is ...int) (list []string) {
		for _, i := range is {
			list = append(list, ids[len(ids)-1-i])
		}
		return list
	}
	for name, tt := range map[string]struct {
		q    pawl.JobQuery
		want []string
	}{
		"all":                    {pawl.JobQuery{}, append(append([]string{}, ids...), parent)},
		"depth 1":                {pawl.JobQuery{Depth: depth(1)}, pick(11, 9, 7, 5, 3, 1)},
		"depth 0":                {pawl.JobQuery{Depth: depth(0), Before: ids[9]}, append(pick(0), parent)},
		"parent":                 {pawl.JobQuery{Parent: parent}, pick(9, 6, 3, 0)},
		"continues":              {pawl.JobQuery{Continues: parent}, pick(8, 4, 0)},
		"status":                 {pawl.JobQuery{Parent: parent, Statuses: []machine.State{lifecycle.JobPending}}, pick(9, 6, 3)},
		"before":                 {pawl.JobQuery{Before: ids[9]}, append(pick(1, 0), parent)},
		"created before":         {pawl.JobQuery{CreatedBefore: at(0)}, []string{parent}},
		"created after":          {pawl.JobQuery{CreatedAfter: at(0)}, ids},
		"long before":            {pawl.JobQuery{CreatedBefore: 1}, nil},
		"before the end of time": {pawl.JobQuery{CreatedBefore: math.MaxInt64, Limit: 1}, append(append([]string{}, ids...), parent)},
		"long after":             {pawl.JobQuery{CreatedAfter: math.MaxInt64}, nil},
	} {
		for _, limit := range []int{0, 1, 2, 12} {
			tt.q.Limit = limit
			got, pages := e.pages(t, tt.q)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, by %d (-want +got):\n%s", name, limit, diff)
			}
			if want := max(1, (len(tt.want)+max(limit, 1)-1)/max(limit, 1)); limit != 0 && pages != want {
				t.Errorf("%s, by %d: %d pages, want %d", name, limit, pages, want)
			}
		}
		tt.q.Limit = 1000
		all, err := e.Jobs(t.Context(), tt.q)
		if err != nil || len(all) != len(tt.want) {
			t.Errorf("%s: a list has %d jobs, %v; want %d", name, len(all), err, len(tt.want))
		}
	}
	for _, q := range []pawl.JobQuery{{Limit: 1001}, {Limit: -1}, {Parent: "x"}, {Continues: "st_1"}, {Before: "j_"}} {
		if _, _, err := e.JobPage(t.Context(), q); !isInvalid(err) {
			t.Errorf("%+v: %v, want an error of kind Invalid", q, err)
		}
	}
}

func isInvalid(err error) bool { return pawl.KindOf(err) == pawl.Invalid }

// TestAPageOfLargeJobs ends with the job that brings the bodies to the limit, and the next
// one goes on from there (J4, T8).
func TestAPageOfLargeJobs(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	const n, size = 10, maxListBytes / 4
	ids := e.jobs(t, n, func(i int, j *pawl.Job, _ *storetest.Batch) {
		j.Inputs = json.RawMessage(fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", size)))
	})
	jobs, next, err := e.JobPage(t.Context(), pawl.JobQuery{})
	if err != nil || len(jobs) != 4 || next == "" {
		t.Fatalf("%d jobs, next %q, %v; want 4 of %d", len(jobs), next, err, n)
	}
	if got, pages := e.pages(t, pawl.JobQuery{}); !cmp.Equal(ids, got) || pages != 3 {
		t.Errorf("%d jobs in %d pages; want %d in 3", len(got), pages, n)
	}
}

// workers makes n workers, of which every one but those kept has ended, and returns their
// ids, newest first.
func (e *base) workers(t *testing.T, n, size int, kept func(i int) bool) []string {
	t.Helper()
	ids := make([]string, n)
	for from := 0; from < n; from += 1000 {
		err := e.db.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
			b := storetest.NewBatch(f.Now)
			for i := from; i < min(n, from+1000); i++ {
				w := &pawl.Worker{ID: e.mint.ID(f.Now), Workspace: []string{"w", "v"}[i%2], Name: "x", Host: "h", PID: 1, Capacity: 1}
				if size > 0 {
					w.Metadata = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
				}
				ids[n-1-i] = w.ID.Public(pawl.WorkerPrefix)
				if b.AddWorker(w); !kept(i) {
					b.MoveWorker(w, lifecycle.WorkerTerminate)
				}
			}
			return &b.Changes, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// workerPages reads all pages of a list, and returns the ids of its workers and the number of
// pages.
func (e *base) workerPages(t *testing.T, q pawl.WorkerQuery) (ids []string, pages int) {
	t.Helper()
	for {
		workers, next, err := e.WorkerPage(t.Context(), q)
		if err != nil || workers == nil {
			t.Fatalf("page %d: %v, %v", pages, workers, err)
		}
		for _, w := range workers {
			ids = append(ids, w.ID)
		}
		if pages++; next == "" {
			return ids, pages
		}
		q.Before = next
	}
}

// TestWorkerPages: pages of workers by state and workspace, newest first (J4).
func TestWorkerPages(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	ids := e.workers(t, 12, 0, func(i int) bool { return i%3 == 0 })
	pick := func(is ...int) (list []string) {
		for _, i := range is {
			list = append(list, ids[len(ids)-1-i])
		}
		return list
	}
	terminated := []machine.State{lifecycle.WorkerTerminated}
	for name, tt := range map[string]struct {
		q    pawl.WorkerQuery
		want []string
	}{
		"living":       {pawl.WorkerQuery{}, pick(9, 6, 3, 0)},
		"ended":        {pawl.WorkerQuery{Statuses: terminated}, pick(11, 10, 8, 7, 5, 4, 2, 1)},
		"idle":         {pawl.WorkerQuery{Statuses: []machine.State{lifecycle.WorkerIdle}, Workspace: "v"}, pick(9, 3)},
		"any of these": {pawl.WorkerQuery{Statuses: append(terminated, lifecycle.WorkerIdle)}, ids},
		"before":       {pawl.WorkerQuery{Before: ids[len(ids)-1-6]}, pick(3, 0)},
		"none":         {pawl.WorkerQuery{Workspace: "u"}, nil},
	} {
		for _, limit := range []int{0, 1, 2, 4} {
			tt.q.Limit = limit
			got, pages := e.workerPages(t, tt.q)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, by %d (-want +got):\n%s", name, limit, diff)
			}
			if want := max(1, (len(tt.want)+max(limit, 1)-1)/max(limit, 1)); limit != 0 && pages != want {
				t.Errorf("%s, by %d: %d pages, want %d", name, limit, pages, want)
			}
			list, err := e.Workers(t.Context(), tt.q)
			if want := min(len(tt.want), []int{50, 1, 2, 3, 4}[limit]); err != nil || len(list) != want {
				t.Errorf("%s: a list of %d has %d workers, %v; want %d", name, limit, len(list), err, want)
			}
		}
	}
	for _, q := range []pawl.WorkerQuery{{Limit: 1001}, {Limit: -1}, {Before: "j_1"}} {
		if _, _, err := e.WorkerPage(t.Context(), q); !isInvalid(err) {
			t.Errorf("%+v: %v, want an error of kind Invalid", q, err)
		}
	}
}

// TestManyEndedWorkersAreListedInPages: a page without a match ends after 20,000 workers, and
// one with much metadata at the limit of bytes (J4).
func TestManyEndedWorkersAreListedInPages(t *testing.T) {
	t.Parallel()
	e := newBase(t)
	ids := e.workers(t, maxRows+10, 0, func(i int) bool { return false })
	q := pawl.WorkerQuery{Statuses: []machine.State{lifecycle.WorkerFailed}}
	workers, next, err := e.WorkerPage(t.Context(), q)
	if err != nil || len(workers) > 0 || next != ids[maxRows-1] {
		t.Errorf("%d workers, next %q, %v; want none, next %q", len(workers), next, err, ids[maxRows-1])
	}
	if list, err := e.Workers(t.Context(), q); err != nil || len(list) > 0 {
		t.Errorf("a list has %d workers, %v", len(list), err)
	}
	large := e.workers(t, 6, maxListBytes/4, func(i int) bool { return true })
	if workers, next, err = e.WorkerPage(t.Context(), pawl.WorkerQuery{}); err != nil || len(workers) != 4 || next != large[3] {
		t.Errorf("%d workers, next %q, %v; want 4, next %q", len(workers), next, err, large[3])
	}
	if got, pages := e.workerPages(t, pawl.WorkerQuery{}); !cmp.Equal(large, got) || pages != 2 {
		t.Errorf("%d workers in %d pages; want 6 in 2", len(got), pages)
	}
}
