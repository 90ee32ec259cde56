package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// An eager store has the reports of an exchange decided before it adds what is claimed, and the inputs
// and metadata that come with a claim, as a store may, and checks that what they have changed early
// stays as it is.
type eager struct {
	*testing.T
	early []int // how many records each transaction has changed early
}

func (s *eager) do(ctx context.Context, db store.Store, q *store.Query, judge func(*store.Facts) (*store.Changes, error)) error {
	return db.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		if q.Early == nil || len(q.Jobs) == 0 {
			return judge(f)
		}
		all := *f
		f.Claims, f.Workers, f.Jobs, f.Steps = nil, nil, map[rowkey.Job]*pawl.Job{}, map[pawl.StepKey]*pawl.Step{}
		whole := map[rowkey.Job]pawl.Job{}
		for _, k := range q.Jobs {
			j := all.Jobs[k]
			f.Jobs[k], whole[k] = j, *j
			j.Inputs, j.Metadata = nil, nil
		}
		for _, k := range q.Steps {
			f.Steps[k] = all.Steps[k]
		}
		heads := headsOf(q.Early(f))
		s.early = append(s.early, len(heads))
		f.Claims, f.Workers = all.Claims, all.Workers
		maps.Copy(f.Jobs, all.Jobs)
		for k, j := range whole {
			f.Jobs[k].Inputs, f.Jobs[k].Metadata = j.Inputs, j.Metadata
		}
		maps.Copy(f.Steps, all.Steps)
		f.Now += 5
		ch, err := judge(f)
		if err != nil {
			return ch, err
		}
		final := headsOf(ch)
		for k, head := range heads {
			if final[k] != head {
				s.Errorf("%v was changed early to %x, and then to %x", k, head, final[k])
			}
		}
		return ch, err
	})
}

func headsOf(c *store.Changes) map[store.EntityKey]audit.Hash {
	heads := map[store.EntityKey]audit.Hash{}
	if c == nil {
		return heads
	}
	for _, u := range c.Jobs {
		heads[store.JobEntity(u.Record.Key())] = u.Record.Head
	}
	for _, u := range c.Steps {
		heads[store.StepEntity(u.Record.StepKey)] = u.Record.Head
	}
	return heads
}

// eagerEngine returns an engine on such a store, and a worker that has claimed the first step of a
// job.
func eagerEngine(t *testing.T, steps string) (*Engine, *eager, *pawl.Worker, link.Assignment) {
	t.Helper()
	e, s := interposedEngine(t)
	w, first := e.claimFirstOf(t, steps)
	x := &eager{T: t}
	s.do = func(ctx context.Context, q *store.Query, judge func(*store.Facts) (*store.Changes, error)) error {
		return x.do(ctx, s.Store, q, judge)
	}
	return e, x, w, first
}

// claimFirstOf submits a job, and then another one, and lets a new worker claim the first step.
func (e *Engine) claimFirstOf(t *testing.T, steps string, options ...string) (*pawl.Worker, link.Assignment) {
	t.Helper()
	lines := append(options, "name: some", "inputs: {n: {type: integer}}", "steps: ["+steps+"]")
	def, err := workflow.Parse("test.yaml", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Inputs: json.RawMessage(`{"n":1}`), Actor: "test"}); err != nil || a[0].Err != nil {
		t.Fatal(a, err)
	}
	return e.claimOne(t)
}

// verified checks the trails of a job and its steps against their records.
func (e *Engine) verified(t *testing.T, key rowkey.Job) *pawl.Job {
	t.Helper()
	job, err := e.store.Job(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := e.store.Steps(t.Context(), key, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[store.EntityKey]audit.Hash{store.JobEntity(key): job.Head}
	for _, s := range steps {
		ends[store.StepEntity(s.StepKey)] = s.Head
	}
	for k, end := range ends {
		trail, err := e.store.Trail(t.Context(), k, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		var head audit.Hash
		for i := range trail {
			want := trail[i]
			want.Seal(head)
			if head = trail[i].Hash; want.Hash != head {
				t.Errorf("entry %d of %v is not sealed", i, k)
			}
		}
		if head != end {
			t.Errorf("the trail of %v ends at %x, the record at %x", k, head, end)
		}
	}
	return job
}

const noMore = "{id: a, handler: nobody}"

// TestReportsAreDecidedEarly (T3, K5): of a job that ends with a report, its end and that of its step
// are decided before what is claimed is known, and are final; a job that goes on is written at the end,
// once, with the claim of its next step.
func TestReportsAreDecidedEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps string
		early int
		state string // of the job afterwards
		own   bool   // the claim gets a step of the same job
	}{
		"the job ends":                 {noMore, 2, "COMPLETED", false},
		"a step becomes ready":         {noMore + ", {id: b, handler: nobody, needs: [a]}", 0, "RUNNING", true},
		"another step is in the queue": {noMore + ", {id: b, handler: nobody}", 0, "RUNNING", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, x, w, first := eagerEngine(t, c.steps)
			got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(first, `{"n": 1}`)}, Free: 1})
			if err != nil || len(got) != 1 {
				t.Fatalf("claimed %v, %v; want a step", got, err)
			}
			if diff := cmp.Diff([]int{c.early}, x.early); diff != "" {
				t.Errorf("records changed early (-want +got):\n%s", diff)
			}
			if j := e.verified(t, first.Step.Job); string(j.State) != c.state {
				t.Errorf("the job is %s, want %s", j.State, c.state)
			}
			if s := e.stepOf(t, first.Step.StepKey); string(s.Output) != `{"n": 1}` {
				t.Errorf("the output of the step is %s", s.Output)
			}
			if own := got[0].Step.Job == first.Step.Job; own != c.own {
				t.Errorf("claimed %v, of the same job: %v", got[0].Step, own)
			}
			e.verified(t, got[0].Step.Job)
		})
	}
}

// TestAReportThatIsRefusedEarly (T5): what the fence refuses is kept as a refused fact, and changes
// nothing early; the claim is made.
func TestAReportThatIsRefusedEarly(t *testing.T) {
	t.Parallel()
	e, x, w, first := eagerEngine(t, noMore)
	late := success(first, "1")
	late.Claim++
	got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{late}, Free: 1})
	if err != nil || len(got) != 1 || got[0].Step.Job == first.Step.Job {
		t.Fatalf("claimed %v, %v; want a step of another job", got, err)
	}
	refusals, err := e.store.Refusals(t.Context(), first.Step.Job, store.RefusalPlace{}, 0)
	if err != nil || len(refusals) != 1 {
		t.Errorf("refused facts: %v, %v", refusals, err)
	}
	if diff := cmp.Diff([]int{0}, x.early); diff != "" {
		t.Errorf("records changed early (-want +got):\n%s", diff)
	}
	if j := e.verified(t, first.Step.Job); j.State != lifecycle.JobRunning {
		t.Errorf("the job is %s", j.State)
	}
}

// TestWhatWasWrittenEarlyIsNotChangedAgain (K5): a commit in which a later command comes back to a
// record that was written early is decided again as a whole.
func TestWhatWasWrittenEarlyIsNotChangedAgain(t *testing.T) {
	t.Parallel()
	e, x, _, first := eagerEngine(t, noMore)
	again := &script{q: store.Query{Jobs: []rowkey.Job{first.Step.Job}}, f: func(t *tx) error {
		return t.moveJob(t.job(first.Step.Job), lifecycle.JobRedact, decide.Note{})
	}}
	r := success(first, "1")
	errs, err := e.committer.do(t.Context(), e.newReport(&r), again)
	if err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	if diff := cmp.Diff([]int{2}, x.early); diff != "" {
		t.Errorf("records changed early (-want +got):\n%s", diff)
	}
	if j := e.verified(t, first.Step.Job); j.State != lifecycle.JobCompleted || j.Seq != 5 {
		t.Errorf("the job is %s at %d; want both moves, once", j.State, j.Seq)
	}
}

// TestAWorkerIsNotReadEarly: that a worker is not among early facts does not mean that there is none.
func TestAWorkerIsNotReadEarly(t *testing.T) {
	t.Parallel()
	q, f := &store.Query{Watched: []rowkey.Worker{7}, Claims: make([]store.ClaimQuery, 1)}, &store.Facts{}
	early := newTx(q, f, 0, list{})
	early.worker(7)
	if _, err := early.changes(); !errors.Is(err, store.ErrStale) {
		t.Errorf("before claims are read: %v, want ErrStale", err)
	}
	f.Claims = make([]store.ClaimFacts, 1)
	whole := newTx(q, f, 0, list{})
	whole.worker(7)
	if _, err := whole.changes(); err != nil {
		t.Errorf("after claims were read: %v", err)
	}
}

// TestEarlyOnPostgreSQL: what a claim adds to a job that was decided on early is not taken for a change
// of it: all is decided once.
func TestEarlyOnPostgreSQL(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	e, s := interpose(t, db)
	w, next := e.claimFirstOf(t, noMore+", {id: b, handler: nobody}, {id: c, handler: nobody}")
	var early, decided int
	s.do = func(ctx context.Context, q *store.Query, judge func(*store.Facts) (*store.Changes, error)) error {
		counted := *q
		counted.Early = func(f *store.Facts) *store.Changes {
			early++
			return q.Early(f)
		}
		return s.Store.Do(ctx, &counted, func(f *store.Facts) (*store.Changes, error) {
			decided++
			return judge(f)
		})
	}
	for n := 1; n <= 2; n++ {
		got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(next, `{"n": 1}`)}, Free: 1})
		if err != nil || len(got) != 1 || got[0].Step.Job != next.Step.Job {
			t.Fatalf("claimed %v, %v; want another step of the job", got, err)
		}
		if next = got[0]; early != n || decided != n {
			t.Errorf("%d exchanges were decided %d times early and %d times", n, early, decided)
		}
	}
	e.verified(t, next.Step.Job)
}

// TestStepsThatWaitGetSlotsByPriorityEarly (K3): also if it is decided early which of them does.
func TestStepsThatWaitGetSlotsByPriorityEarly(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	e, s := interpose(t, db)
	early := 0
	s.do = func(ctx context.Context, q *store.Query, judge func(*store.Facts) (*store.Changes, error)) error {
		if q.Early == nil {
			return s.Store.Do(ctx, q, judge)
		}
		counted := *q
		counted.Early = func(f *store.Facts) *store.Changes {
			early++
			return q.Early(f)
		}
		return s.Store.Do(ctx, &counted, judge)
	}
	w, next := e.claimFirstOf(t, noMore+", {id: b, handler: nobody, needs: [a], priority: 9}, {id: c, handler: nobody, needs: [a]}, {id: d, handler: nobody, needs: [a], priority: 5}", "workers: 1")
	for _, node := range []int{2, 4} {
		got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(next, `{"n": 1}`)}, Free: 1})
		if err != nil || len(got) != 1 {
			t.Fatalf("claimed %v, %v; want a step", got, err)
		}
		if next = got[0]; next.Step.Ord.Node() != node {
			t.Errorf("claimed step %d, want that of the highest priority, %d", next.Step.Ord.Node(), node)
		}
	}
	if early == 0 {
		t.Error("nothing was decided early")
	}
}
