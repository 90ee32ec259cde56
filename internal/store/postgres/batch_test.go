package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestBatchesWriteWhatIsGiven: what many rows are written by leaves the same as what few
// are written by.
func TestBatchesWriteWhatIsGiven(t *testing.T) {
	t.Parallel()
	for name, change := range batches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := make([]pawl.ID, fewRows+4)
			for i := range ids {
				ids[i] = newID()
			}
			large, small := fresh(t), fresh(t)
			writeBatch(t, large, ids, 0, change)
			for from := 0; from < len(ids); from += fewRows / 2 {
				writeBatch(t, small, ids[from:min(from+fewRows/2, len(ids))], from, change)
			}
			want, got := contents(t, small), contents(t, large)
			if diff := cmp.Diff(want, got); diff != "" || len(got) < 3*len(ids) {
				t.Errorf("%d rows (-small +large):\n%s", len(got), diff)
			}
		})
	}
}

// batches are jobs that differ in some of their fields.
var batches = map[string]func(i int, j *pawl.Job, s *pawl.Step){
	"alike": func(int, *pawl.Job, *pawl.Step) {},
	"odd texts": func(_ int, j *pawl.Job, _ *pawl.Step) {
		j.Description, j.Inputs, j.Metadata = "\x01 and \x00 and \xff", []byte(`"`+"\xff\x00"+`"`), []byte(" [ 1 ,2]")
	},
	"some null": func(i int, j *pawl.Job, s *pawl.Step) {
		if i%3 > 0 {
			j.Output, s.Output, s.Input = []byte("1"), []byte("{}"), []byte(`"`+strings.Repeat("x", i)+`"`)
		}
	},
	"the first is null": func(i int, j *pawl.Job, _ *pawl.Step) {
		if i > 0 {
			j.Metadata = []byte("1")
		}
	},
	"of two workflows": func(i int, j *pawl.Job, s *pawl.Step) {
		j.Workflow, j.Definition, s.Priority = fmt.Sprint("w", i%2), rowkey.Definition(i%2), i%2
	},
	"in two states": func(i int, j *pawl.Job, s *pawl.Step) { j.Active, s.Attempts = i/9, i%3 },
	"of all kinds": func(i int, j *pawl.Job, s *pawl.Step) {
		j.Workspace, j.Open, s.Route, s.Pool = fmt.Sprint(i), i, rowkey.Route(i), rowkey.Pool(i)
	},
	"in what is rare": func(i int, j *pawl.Job, s *pawl.Step) { j.Depth, s.Losses = i%2, i%3 },
}

// writeBatch makes jobs, takes their steps, and ends them: each once as what it has read,
// and once as what it knows.
func writeBatch(t *testing.T, db *DB, ids []pawl.ID, from int, change func(int, *pawl.Job, *pawl.Step)) {
	t.Helper()
	const now = 1_700_000_000_000_000
	q := &store.Query{}
	do(t, db, q, func(_ *store.Facts, d *draft) {
		d.now = now
		for i, id := range ids {
			j := d.newJobOf(id, 1)
			s := d.newStep(j, 1, 1)
			change(from+i, j, s)
		}
	})
	for _, id := range ids {
		q.Jobs, q.Steps = append(q.Jobs, id.JobKey()), append(q.Steps, pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)})
	}
	for round := range 4 {
		if round%2 == 0 {
			db.cache.clear()
		}
		do(t, db, q, func(f *store.Facts, d *draft) {
			d.now = now + int64(round)
			for _, k := range q.Steps {
				j, s := f.Jobs[k.Job], f.Steps[k]
				j.StartedAt = d.now
				d.moveJob(j, lifecycle.JobRunning, lifecycle.JobPause)
				if round < 2 {
					s.Claims++
				} else {
					s.CompletedAt, s.Output = d.now, []byte(`{"ok": true}`)
				}
				d.moveStep(j.ID, s, lifecycle.StepEnqueue, lifecycle.StepEnqueued)
			}
		})
	}
}

// contents returns all rows of jobs, steps and their trails.
func contents(t *testing.T, db *DB) (rows []string) {
	t.Helper()
	for _, sql := range []string{"select j::text from job j order by id", "select s::text from step s order by job, ord", "select a::text from audit a order by job, ord, seq"} {
		_, list, err := query(t.Context(), db.cfg.URL, sql)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			rows = append(rows, r[0])
		}
	}
	return rows
}
