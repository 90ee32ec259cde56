package engine

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// readings are the records that commands read besides jobs and their steps, and how they
// ask for them.
var readings = []struct {
	name, field string
	ask         func(*store.Query)
	read        func(*tx)
}{
	{"a job", "Jobs", func(q *store.Query) { q.Jobs = []rowkey.Job{7} }, func(t *tx) { t.job(7) }},
	{"a step", "Steps", func(q *store.Query) { q.Steps = []pawl.StepKey{{Job: 7, Ord: 9}} }, func(t *tx) { t.step(pawl.StepKey{Job: 7, Ord: 9}) }},
	{"a worker", "Workers", func(q *store.Query) { q.Workers = []rowkey.Worker{7} }, func(t *tx) { t.worker(7) }},
	{"a worker that is watched", "Workers", func(q *store.Query) { q.Watched = []rowkey.Worker{7} }, func(t *tx) { t.worker(7) }},
	{"a schedule", "Schedules", func(q *store.Query) { q.Schedules = []rowkey.Schedule{7} }, func(t *tx) { t.schedule(7) }},
	{"a workflow", "Names", func(q *store.Query) { q.Names = []pawl.WorkflowName{{Name: "w"}} }, func(t *tx) { t.newest(pawl.WorkflowName{Name: "w"}) }},
	{"what a worker holds", "Held", func(q *store.Query) { q.Held = []rowkey.Worker{7} }, func(t *tx) { t.held(7) }},
	{"a pool", "Pools", func(q *store.Query) { q.Pools = []store.Pool{{Kind: store.PoolJobs, Key: 7}} }, func(t *tx) { t.used(store.Pool{Kind: store.PoolJobs, Key: 7}) }},
	{"an answer", "Keys", func(q *store.Query) { q.Keys = []store.IdempotencyKey{{Workspace: "w", Key: "k"}} }, func(t *tx) { t.answered(store.IdempotencyKey{Workspace: "w", Key: "k"}) }},
}

// An asking is a script with a query of its own.
type asking struct {
	script
	ask func(*store.Query)
}

func (a *asking) query(q *store.Query) { a.ask(q) }

// TestWhatWasNotAskedForIsAnError: a command that reads something its query did not ask for
// is refused with an error that names it, even if the command ignores the result; a record
// that was asked for and does not exist is none.
func TestWhatWasNotAskedForIsAnError(t *testing.T) {
	e := testEngine(t)
	for _, r := range readings {
		t.Run(r.name, func(t *testing.T) {
			read := func(tx *tx) error { r.read(tx); return nil }
			if err := e.committer.one(t.Context(), &asking{script{f: read}, r.ask}); err != nil {
				t.Errorf("asked for, and there is none: %v", err)
			}
			err := e.committer.one(t.Context(), &asking{script{f: read}, func(*store.Query) {}})
			var unasked *decide.NotAskedError
			if !errors.As(err, &unasked) || unasked.Field != r.field {
				t.Errorf("not asked for: %v; want an error that names %s", err, r.field)
			}
		})
	}
	t.Run("dereferenced", func(t *testing.T) {
		err := e.committer.one(t.Context(), &asking{script{f: func(t *tx) error { t.job(7).Open++; return nil }}, func(*store.Query) {}})
		if want := "job 7 was read, but the query did not ask for it (Jobs)"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// TestABoardTellsNoneFromNotAsked: each read of a decision about a job that the query did
// not ask for is an error.
func TestABoardTellsNoneFromNotAsked(t *testing.T) {
	e := testEngine(t)
	key := e.submitOne(t).JobKey()
	ord := pawl.MakeOrd(1, 3)
	reads := map[string]struct {
		set  decide.ReadSet
		read func(jobTx) error
	}{
		"Steps":   {decide.ReadSet{Steps: []pawl.Ord{ord}}, func(b jobTx) error { _, err := b.Step(ord); return err }},
		"Open":    {decide.ReadSet{Open: true}, jobTx.Open},
		"Waiting": {decide.ReadSet{Waiting: 1}, func(b jobTx) error { _, err := b.Waiting(); return err }},
		"Signals": {decide.ReadSet{Signals: true}, func(b jobTx) error { _, err := b.Signals(); return err }},
		"Parent":  {decide.ReadSet{Parent: true}, func(b jobTx) error { b.Job().Parent, b.Job().ParentStep = 8, ord; _, err := b.Parent(); return err }},
	}
	for field, r := range reads {
		do := func(set decide.ReadSet) error {
			return e.committer.one(t.Context(), &asking{script{f: func(t *tx) error { return r.read(jobTx{e: e, t: t, key: key}) }},
				func(q *store.Query) { ask(q, key, pawl.StepKey{Job: 8, Ord: ord}, set) }})
		}
		if err := do(r.set); err != nil {
			t.Errorf("%s was asked for: %v", field, err)
		}
		var unasked *decide.NotAskedError
		if err := do(decide.ReadSet{}); !errors.As(err, &unasked) || unasked.Field != field {
			t.Errorf("%s was not asked for: %v", field, err)
		}
	}
	err := e.committer.one(t.Context(), &asking{script{f: func(t *tx) error {
		s, err := jobTx{e: e, t: t, key: key}.Step(pawl.MakeOrd(3, 2))
		if s != nil {
			t.missed("", "it is there")
		}
		return err
	}}, func(q *store.Query) { q.Jobs = []rowkey.Job{key} }})
	if want := "step 3.2 was read, but the query did not ask for it (Steps)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestQueriesAboutJobsComeFromReadSets: package decide alone (decide.ReadSet) determines what
// a transaction reads of a job, so no command names it.
func TestQueriesAboutJobsComeFromReadSets(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if name == "reads.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for _, left := range assign.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok && isQuery(s.X) && slices.Contains([]string{"Steps", "Waiting", "Open", "Nodes", "Signals"}, s.Sel.Name) {
					t.Errorf("%s asks for %s by itself; want a read set", name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

func isQuery(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "q"
}
