package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// allForms answers the forms of all statements, in an order that stays.
func allForms() (list []*statement) {
	for _, fs := range forms {
		for _, f := range fs {
			list = append(list, f.statement)
		}
	}
	slices.SortFunc(list, func(a, b *statement) int { return strings.Compare(a.name, b.name) })
	return list
}

// withoutForm answers the statement that a statement is a form of, or else itself.
func withoutForm(s *statement) *statement {
	for of, fs := range forms {
		if slices.ContainsFunc(fs, func(f form) bool { return f.statement == s }) {
			return of
		}
	}
	return s
}

var scalar = regexp.MustCompile(`\$(\d+)::(\w+) as`)

// TestForms: a form and its statement say the same, of each statement there are few, each
// has an array, which says how many rows there are, and none is of the name of another.
func TestForms(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range slices.Concat(statements, allForms()) {
		if names[s.name] {
			t.Errorf("two statements are %s", s.name)
		}
		names[s.name] = true
	}
	for s, fs := range forms {
		if len(fs) == 0 || len(fs) > 4 {
			t.Errorf("%s has %d forms, want 1 to 4", s.name, len(fs))
		}
		if n := strings.Count(s.sql, "unnest("); n > 64 {
			t.Errorf("%s has %d columns: a mask has 64", s.name, n)
		}
		for _, f := range fs {
			if arrays := strings.Count(f.sql, "unnest("); arrays == 0 || arrays >= strings.Count(s.sql, "unnest(") {
				t.Errorf("%s takes %d arrays", f.name, arrays)
			}
			if sql := scalar.ReplaceAllString(f.sql, "unnest($$$1::$2[]) as"); sql != s.sql {
				t.Errorf("%s is not %s:\n%s", f.name, s.name, f.sql)
			}
		}
	}
}

// TestFormsWriteWhatIsGiven: what forms write are the rows that small batches write, which
// have none: of new records, of ones that were read, and of ones that are known.
func TestFormsWriteWhatIsGiven(t *testing.T) {
	t.Parallel()
	for name, b := range batches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids := make([]pawl.ID, fewRows+4)
			for i := range ids {
				ids[i] = newID()
			}
			large, small := fresh(t), fresh(t)
			b.write(t, large, ids, 0)
			for from := 0; from < len(ids); from += fewRows / 2 {
				b.write(t, small, ids[from:min(from+fewRows/2, len(ids))], from)
			}
			want, got := contents(t, small), contents(t, large)
			if diff := cmp.Diff(want, got); diff != "" || len(got) < 3*len(ids) {
				t.Errorf("%d rows (-small +large):\n%s", len(got), diff)
			}
			if used := strings.Join(latest(large), " "); !strings.Contains(used, b.forms) || b.forms == "" && strings.Contains(used, "new_jobs") {
				t.Errorf("forms: %s; want %s", used, b.forms)
			}
			if some := latest(small); len(some) > 0 {
				t.Errorf("small batches have the forms %v", some)
			}
		})
	}
}

// A batch is jobs that differ in some of what a form has one value of, and forms that they
// are written in, of which number 0 has the most columns.
type batch struct {
	change func(i int, j *pawl.Job, s *pawl.Step)
	forms  string
}

const everyForm = "end_steps_form_0 known_end_steps_form_0 known_move_jobs_form_0 known_take_steps_form_0 move_jobs_form_0 new_entries_form_0 new_jobs_form_0 new_steps_form_0 take_steps_form_0"

var batches = map[string]batch{
	"alike": {func(int, *pawl.Job, *pawl.Step) {}, everyForm},
	"odd texts": {func(_ int, j *pawl.Job, _ *pawl.Step) {
		j.Description, j.Inputs, j.Metadata = "\x01 and \x00 and \xff", []byte(`"`+"\xff\x00"+`"`), []byte(" [ 1 ,2]")
	}, everyForm},
	"some null": {func(i int, j *pawl.Job, s *pawl.Step) {
		if i%3 > 0 {
			j.Output, s.Output, s.Input = []byte("1"), []byte("{}"), []byte(`"`+strings.Repeat("x", i)+`"`)
		}
	}, everyForm},
	"the first is null": {func(i int, j *pawl.Job, _ *pawl.Step) {
		if i > 0 {
			j.Metadata = []byte("1")
		}
	}, "new_jobs_form_2 new_steps_form_0"},
	"of two workflows": {func(i int, j *pawl.Job, s *pawl.Step) {
		j.Workflow, j.Definition, s.Priority = fmt.Sprint("w", i%2), int64(i%2), i%2
	}, "new_jobs_form_2 new_steps_form_1"},
	"in two states": {func(i int, j *pawl.Job, s *pawl.Step) { j.Active, s.Attempts = i/9, i%3 }, "new_jobs_form_1 new_steps_form_2"},
	"of all kinds": {func(i int, j *pawl.Job, s *pawl.Step) {
		j.Workspace, j.Open, s.Route, s.Pool = fmt.Sprint(i), i, int64(i), int64(i)
	}, "new_jobs_form_3 new_steps_form_3"},
	"in what is rare": {func(i int, j *pawl.Job, s *pawl.Step) { j.Depth, s.Losses = i%2, i%3 }, ""},
}

// write makes jobs, takes their steps, and ends them: each once as what it has read, and
// once as what it knows.
func (b batch) write(t *testing.T, db *DB, ids []pawl.ID, from int) {
	t.Helper()
	const now = 1_700_000_000_000_000
	q := &store.Query{}
	do(t, db, q, func(_ *store.Facts, d *draft) {
		d.now = now
		for i, id := range ids {
			j := d.newJobOf(id, 1)
			s := d.newStep(j, 1, 1)
			b.change(from+i, j, s)
		}
	})
	for _, id := range ids {
		q.Jobs, q.Steps = append(q.Jobs, id.Key()), append(q.Steps, pawl.StepKey{Job: id.Key(), Ord: pawl.MakeOrd(1, 0)})
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

// contents answers all rows of jobs, steps and their trails.
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

// latest answers the names of the forms that the connections of a handle have prepared.
func latest(db *DB) []string {
	all := map[string]bool{}
	for _, conn := range db.pool.AcquireAllIdle(context.Background()) {
		for name := range latePrepared(conn.Conn().PgConn()) {
			if strings.Contains(name, "_form_") {
				all[name] = true
			}
		}
		conn.Release()
	}
	return slices.Sorted(maps.Keys(all))
}

// TestRowsThatAreAlike: the arrays are the same bytes whether columns of one value are
// watched for, as of many rows, or not, wherever the first other value comes.
func TestRowsThatAreAlike(t *testing.T) {
	t.Parallel()
	cs := columns("bigint a, text b, text c, bytea d, xid e, bool f")
	for n := range fewRows {
		for other := range n + 1 { // n: nowhere
			many, few := collect(cs, fewRows+1), collect(cs, 1)
			for _, r := range []*rows{many, few} {
				for i := range n {
					is := i == other
					r.num(int64(i / (other + 1)))
					r.text(map[bool]string{true: "\x00", false: quoted}[is])
					r.body(map[bool][]byte{true: []byte("{}")}[is])
					r.blob(map[bool][]byte{false: {}}[is])
					r.xid(map[bool]xid{true: 7}[is])
					r.flag(is)
				}
			}
			if diff := cmp.Diff(few.params(), many.params()); diff != "" {
				t.Fatalf("%d rows, of which %d is another (-few +many):\n%s", n, other, diff)
			}
		}
	}
}

// TestFormsOfAnyBatch: whatever the values are, a batch goes by its statement or one of
// the forms that are known beforehand.
func TestFormsOfAnyBatch(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for range 2000 {
		r, w := collect(stepTable.fresh, fewRows+1), &writing{}
		odd := rand.Uint64() | rand.Uint64() | rand.Uint64() | rand.Uint64() // few columns have one value, mostly none
		for n := range int64(fewRows + 1) {
			for i := range stepTable.fresh {
				r.num(n * int64(^odd>>i&1))
			}
		}
		w.addForm(newSteps, r)
		used[w.calls[0].statement.name] = true
		if len(w.calls[0].params) != len(stepTable.fresh) {
			t.Fatalf("%d parameters of %d columns", len(w.calls[0].params), len(stepTable.fresh))
		}
	}
	if len(used) < 2 || len(used) > 1+len(forms[newSteps]) {
		t.Errorf("statements %v", used)
	}
}

// TestFormThatIsNotPrepared (K5): what cannot be prepared fails the transaction as any
// other statement does, and nothing is written; the next one prepares it.
func TestFormThatIsNotPrepared(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"read": false, "known": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			jobs := submit(t, db, fewRows/2, 1)
			jobs = append(jobs, submit(t, db, fewRows, 1)...)
			if !known {
				db.cache.clear()
			}
			onAll(t, db, "prepare "+forms[newEntries][0].name+" as select 1")
			before, q := contents(t, db), &store.Query{Jobs: keysOf(jobs)}
			start := func(f *store.Facts, d *draft) {
				for _, j := range jobs {
					d.moveJob(f.Jobs[j.Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
				}
			}
			if err := try(db, q, start); err == nil || !strings.Contains(err.Error(), "prepare") {
				t.Fatalf("got %v, want that it could not be prepared", err)
			}
			if diff := cmp.Diff(before, contents(t, db)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
			onAll(t, db, "deallocate "+forms[newEntries][0].name)
			do(t, db, q, start)
			if names := latest(db); !slices.Contains(names, forms[newEntries][0].name) {
				t.Errorf("prepared are %v", names)
			}
		})
	}
}

// onAll executes a statement on each connection of a handle, of which none is in use.
func onAll(t *testing.T, db *DB, sql string) {
	t.Helper()
	for _, conn := range db.pool.AcquireAllIdle(t.Context()) {
		defer conn.Release()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}
