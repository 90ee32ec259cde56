package sqlite

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A desk is a file with a job of one step in it, and who writes to it.
type desk struct {
	t    *testing.T
	path string
	mint *storetest.Mint
	job  rowkey.Job
	step pawl.StepKey
}

func newDesk(t *testing.T) (*desk, *DB) {
	t.Helper()
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "pawl.db"), mint: storetest.NewMint()}
	db := d.open()
	d.do(db, &store.Query{}, func(f *store.Facts, b *storetest.Batch) { d.add(f, b, `{"n":1}`) })
	return d, db
}

func (d *desk) open() *DB {
	d.t.Helper()
	db, err := Open(d.t.Context(), Config{Path: d.path, Synchronous: Normal})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { db.Close() })
	return db
}

// add adds a job of one step, which is the desk's from now on.
func (d *desk) add(f *store.Facts, b *storetest.Batch, inputs string) {
	j := &pawl.Job{ID: d.mint.ID(f.Now), Workspace: "default", Workflow: "w", Route: 5, Open: 1, Inputs: json.RawMessage(inputs)}
	s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}, Route: 5}
	b.AddJob(j)
	b.AddStep(j, s)
	d.job, d.step = j.Key(), s.StepKey
}

func (d *desk) do(db *DB, q *store.Query, decide func(*store.Facts, *storetest.Batch)) {
	d.t.Helper()
	if err := try(d.t, db, q, decide); err != nil {
		d.t.Fatal(err)
	}
}

func try(t *testing.T, db *DB, q *store.Query, decide func(*store.Facts, *storetest.Batch)) error {
	return db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		decide(f, b)
		return &b.Changes, nil
	})
}

func (d *desk) both() *store.Query {
	return &store.Query{Jobs: []rowkey.Job{d.job}, Steps: []pawl.StepKey{d.step}}
}

// bump raises the counters of the job and its step, which shows who has seen what.
func (d *desk) bump(db *DB) {
	d.t.Helper()
	d.do(db, d.both(), func(f *store.Facts, b *storetest.Batch) { raise(b, f.Jobs[d.job], f.Steps[d.step]) })
}

func raise(b *storetest.Batch, j *pawl.Job, s *pawl.Step) {
	j.Active++
	s.Unmet++
	b.Jobs = append(b.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
	b.Steps = append(b.Steps, store.Update[*pawl.Step]{Record: s, Was: s.Seq})
}

// want has db see the job and its step raised n times.
func (d *desk) want(db *DB, n int) {
	d.t.Helper()
	d.do(db, d.both(), func(f *store.Facts, _ *storetest.Batch) {
		if j, s := f.Jobs[d.job], f.Steps[d.step]; j == nil || s == nil || j.Active != n || s.Unmet != n {
			d.t.Errorf("facts %+v and %+v, want both raised %d times", j, s, n)
		}
	})
}

// What another connection has committed is seen, however well the records were
// known; processes know each other in no other way.
func TestKnownUntilAnotherWrites(t *testing.T) {
	t.Parallel()
	d, a := newDesk(t)
	b := d.open()
	for n := range 4 {
		d.bump([]*DB{a, b}[n%2])
		d.want(a, n+1)
		d.want(b, n+1)
	}
	if len(a.writer.conn.cache.jobs) != 1 || len(b.writer.conn.cache.steps) != 1 {
		t.Error("nothing is known of what was read a moment ago")
	}
}

// What was decided and not committed is not known, whoever undid it.
func TestKnownForgetsWhatWasUndone(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	undone := errors.New("undone")
	err := db.Do(t.Context(), d.both(), func(f *store.Facts) (*store.Changes, error) {
		raise(storetest.NewBatch(f.Now), f.Jobs[d.job], f.Steps[d.step])
		return nil, undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	d.want(db, 0)
	err = try(t, db, d.both(), func(f *store.Facts, b *storetest.Batch) {
		raise(b, f.Jobs[d.job], f.Steps[d.step])
		b.Steps[0].Was++
	})
	if !errors.Is(err, store.ErrStale) {
		t.Fatalf("a step at another version: %v, want ErrStale", err)
	}
	d.want(db, 0)
	d.bump(db)
	d.want(db, 1)
}

// Records that were read are the caller's own.
func TestKnownIsNobodyElses(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	for range 2 { // the second time after a commit of these records
		d.do(db, d.both(), func(f *store.Facts, _ *storetest.Batch) { f.Jobs[d.job].Active, f.Steps[d.step].Unmet = 7, 7 })
		d.want(db, 0)
		d.do(db, d.both(), func(f *store.Facts, b *storetest.Batch) {
			f.Jobs[d.job].Active, f.Steps[d.step].Unmet = -1, -1
			raise(b, f.Jobs[d.job], f.Steps[d.step])
		})
	}
	claim := &store.Query{Claims: []store.ClaimQuery{{Worker: 1, Routes: []rowkey.Route{5}, Limit: 1}}}
	d.do(db, d.both(), func(f *store.Facts, b *storetest.Batch) { b.MoveJob(f.Jobs[d.job], lifecycle.JobValidate) })
	for range 2 {
		d.do(db, claim, func(f *store.Facts, _ *storetest.Batch) {
			inputs := f.Jobs[d.job].Inputs
			if string(inputs) != `{"n":1}` {
				t.Errorf("inputs %s", inputs)
			}
			inputs[1] = 'x'
		})
	}
}

// What this process writes by other ways than Do is seen (retention).
func TestKnownForgetsOtherWrites(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	err := db.writer.transact(t.Context(), func(c *conn) error {
		return c.run(removeJob, func(r *row) { r.int(int64(d.job)) })
	})
	if err != nil {
		t.Fatal(err)
	}
	d.do(db, d.both(), func(f *store.Facts, _ *storetest.Batch) {
		if f.Jobs[d.job] != nil {
			t.Error("a job that was removed is answered")
		}
	})
}

// What is known is bounded.
func TestKnownIsBounded(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	for key := range rowkey.Job(maxCached) {
		db.writer.conn.cache.jobs[key] = cachedJob{job: &pawl.Job{}}
	}
	d.want(db, 0)
	if n := len(db.writer.conn.cache.jobs); n > 1 {
		t.Errorf("%d jobs are known, want the one that was read", n)
	}
	d.do(db, &store.Query{}, func(f *store.Facts, b *storetest.Batch) {
		d.add(f, b, `{"s":"`+strings.Repeat("x", cachedBodyLength)+`"}`)
	})
	if db.writer.conn.cache.jobs[d.job].bodies {
		t.Error("long inputs are kept")
	}
}

// Columns that nobody changes once a record is made.
var fixed = []string{"ID", "Workspace", "Workflow", "Description", "Parent", "ParentStep", "Continues", "Schedule", "Depth",
	"Private", "CreatedAt", "Job", "Ord", "Step"}

// Whichever field changes, alone or with a move, known or not, is in the database
// afterwards: no narrow statement leaves it out.
func TestEveryFieldIsWritten(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	other := d.open()
	for _, known := range []bool{true, false} {
		for _, path := range append(fields(reflect.TypeFor[pawl.Job](), "Job"), fields(reflect.TypeFor[pawl.Step](), "Step")...) {
			if !known {
				d.bump(other)
			}
			var j *pawl.Job
			var s *pawl.Step
			d.do(db, d.both(), func(f *store.Facts, b *storetest.Batch) {
				j, s = f.Jobs[d.job], f.Steps[d.step]
				raise(b, j, s)
				j.Active--
				s.Unmet--
				of := reflect.ValueOf(j).Elem()
				if path[0] == "Step" {
					of = reflect.ValueOf(s).Elem()
				}
				change(t, of.FieldByName(path[1]))
			})
			gotJob, err1 := other.Job(t.Context(), d.job)
			gotSteps, err2 := other.Steps(t.Context(), d.job, 0, 0)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			bodies := cmp.FilterPath(func(p cmp.Path) bool {
				name := strings.TrimPrefix(p.Last().String(), ".")
				isBody := slices.Contains([]string{"Inputs", "Output", "Error", "Metadata", "Input"}, name)
				return isBody && (len(p) != 3 || path != [2]string{p.Index(1).Type().Name(), name})
			}, cmp.Ignore())
			if diff := cmp.Diff(j, gotJob, bodies) + cmp.Diff(s, gotSteps[0], bodies); diff != "" {
				t.Errorf("%v of %v, known %v: %s", path[1], path[0], known, diff)
			}
		}
	}
}

// fields returns the fields of a record that may change, embedded ones too.
func fields(of reflect.Type, kind string) (paths [][2]string) {
	for _, f := range reflect.VisibleFields(of) {
		if !f.Anonymous && !slices.Contains(fixed, f.Name) {
			paths = append(paths, [2]string{kind, f.Name})
		}
	}
	return paths
}

// change gives a field another value that the schema allows.
func change(t *testing.T, v reflect.Value) {
	switch v.Interface().(type) {
	case pawl.Mark:
		v.Set(reflect.ValueOf(pawl.Attention))
		return
	case json.RawMessage:
		v.SetBytes([]byte(`{"new":true}`))
		return
	case *pawl.Tree:
		v.Set(reflect.ValueOf(&pawl.Tree{Tree: audit.Tree{N: 3, Acc: audit.Hash{1}}, Owed: &pawl.Owed{Salt: audit.Salt{2}}}))
		return
	case *pawl.Failure:
		v.Set(reflect.ValueOf(&pawl.Failure{Class: "exit", Message: "it broke"}))
		return
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() + 1)
	case reflect.String:
		v.SetString(map[string]string{"SUBMITTED": "RUNNING", "RUNNING": "PENDING", "pending": "in_progress", "in_progress": "enqueued", "": "FAILED"}[v.String()])
	default:
		t.Fatalf("a field of type %v", v.Type())
	}
}

// Records are inserted many at once, each with its own values, whatever was bound
// before; or none is, if one exists.
func TestInsertMany(t *testing.T) {
	t.Parallel()
	d, db := newDesk(t)
	bodies := []string{`{}`, `{"a":1}`, `{"a":1}`, `{"long":"` + strings.Repeat("x", 100) + `"}`, `{"a":1}`, ``, `{"a":1}`}
	var b *storetest.Batch
	make := func(n int) func(*store.Facts, *storetest.Batch) {
		return func(f *store.Facts, batch *storetest.Batch) {
			b = batch
			for i := range n {
				d.add(f, b, bodies[i%len(bodies)])
				j, s := b.NewJobs[i], b.NewSteps[i]
				if len(j.Inputs) == 0 {
					j.Inputs = nil
				}
				j.Priority, s.Input = i%3, j.Inputs
				b.MoveJob(j, lifecycle.JobValidate)
			}
		}
	}
	for _, n := range []int{1, 7, 8, 9, 30} {
		d.do(db, &store.Query{}, make(n))
		for i, j := range b.NewJobs {
			got, err1 := db.Job(t.Context(), j.Key())
			steps, err2 := db.Steps(t.Context(), j.Key(), 0, 0)
			trail, err3 := db.Trail(t.Context(), storetest.JobKey(j), 0, 0)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(j, got) + cmp.Diff([]*pawl.Step{b.NewSteps[i]}, steps); diff != "" {
				t.Fatalf("job %d of %d: %s", i, n, diff)
			}
			if len(trail) != 2 || trail[1].Hash != j.Head {
				t.Fatalf("trail of job %d of %d: %+v", i, n, trail)
			}
		}
	}
	err := try(t, db, &store.Query{}, func(f *store.Facts, batch *storetest.Batch) {
		old := b.NewSteps[3]
		make(20)(f, batch)
		batch.NewSteps[9] = old
	})
	if !errors.Is(err, store.ErrStale) {
		t.Fatalf("a step that exists: %v, want ErrStale", err)
	}
	for _, j := range b.NewJobs {
		if _, err := db.Job(t.Context(), j.Key()); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("job of a transaction that failed: %v, want ErrNotFound", err)
		}
	}
}
