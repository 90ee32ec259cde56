package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// An interposed store lets a test intervene between the engine and the database.
type interposed struct {
	store.Store
	do         func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error
	definition func(key rowkey.Definition) error
	settle     func() error
	jobs       atomic.Int32 // reads of single jobs
}

func (s *interposed) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if s.do != nil {
		return s.do(ctx, q, decide)
	}
	return s.Store.Do(ctx, q, decide)
}

func (s *interposed) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	s.jobs.Add(1)
	return s.Store.Job(ctx, key)
}

func (s *interposed) Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error) {
	if s.definition != nil {
		if err := s.definition(key); err != nil {
			return nil, err
		}
	}
	return s.Store.Definition(ctx, key)
}

func (s *interposed) Settle(ctx context.Context, k store.EntityKey, e *audit.Entry) (bool, error) {
	if s.settle != nil {
		if err := s.settle(); err != nil {
			return false, err
		}
	}
	return s.Store.Settle(ctx, k, e)
}

// interposedEngine returns a passive engine on a store that the test controls, so that only
// the test commits.
func interposedEngine(t *testing.T) (*Engine, *interposed) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	return interpose(t, db)
}

func interpose(t *testing.T, db store.Store) (*Engine, *interposed) {
	s := &interposed{Store: db}
	e := New(Config{Store: s, Passive: true, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		e.Close()
		db.Close()
	})
	return e, s
}

// claimOne submits a job of one step and lets a new worker claim it.
func (e *Engine) claimOne(t *testing.T) (*pawl.Worker, link.Assignment) {
	t.Helper()
	e.submitOne(t)
	route := pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "nobody", 0)
	w, release, err := e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 1, Routes: []rowkey.Route{route}}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	release()
	got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Free: 1})
	if err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v; want one step", got, err)
	}
	return w, got[0]
}

func success(a link.Assignment, output string) link.Report {
	return link.Report{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: "test", Report: decide.Report{Event: lifecycle.StepSuccess, Output: json.RawMessage(output)}}
}

func (e *Engine) stepOf(t *testing.T, k pawl.StepKey) *pawl.Step {
	t.Helper()
	steps, err := e.store.Bodies(t.Context(), []pawl.StepKey{k})
	if err != nil || steps[k] == nil {
		t.Fatal(steps, err)
	}
	return steps[k]
}

// TestARefusedOutputIsNotRemembered: a report that was decided, lost its commit to another
// writer and is refused at the second try leaves no output behind that dependent steps
// would see.
func TestARefusedOutputIsNotRemembered(t *testing.T) { // T5
	t.Parallel()
	e, s := interposedEngine(t)
	w, a := e.claimOne(t)
	first := true
	s.do = func(ctx context.Context, q *store.Query, judge func(*store.Facts) (*store.Changes, error)) error {
		if !first {
			return s.Store.Do(ctx, q, judge)
		}
		first = false
		err := s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			_, err := judge(f)
			return nil, errors.Join(err, store.ErrStale)
		})
		// Another process takes the step away before the second try.
		other := New(Config{Store: s.Store, Passive: true})
		defer other.Close()
		if err := other.Terminate(ctx, w.Key(), decide.Note{Reason: "in between"}); err != nil {
			t.Error(err)
		}
		return err
	}
	if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(a, `"late"`)}}); err != nil {
		t.Fatal(err)
	}
	if s := e.stepOf(t, a.Step.StepKey); s.State == lifecycle.StepComplete {
		t.Fatalf("the step is %s; want the report refused", s.State)
	}
	if out, known := e.jobs.output(a.Step.StepKey); known {
		t.Errorf("the refused output %s is remembered as the step's", out)
	}
}

// TestAnOutcomeIsStoredWithoutItsDefinition: a definition that is unreadable at the moment
// does not lose the outcome of a step that has run.
func TestAnOutcomeIsStoredWithoutItsDefinition(t *testing.T) { // T3
	t.Parallel()
	e, s := interposedEngine(t)
	w, a := e.claimOne(t)
	e.defs, e.jobs = definitions.New(s), newMemory() // as if much else had been worked on since
	s.definition = func(rowkey.Definition) error { return &pawl.Error{Kind: pawl.Unavailable, Message: "away"} }
	if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(a, "1")}}); err != nil {
		t.Errorf("report: %v; want it stored", err)
	}
	if s := e.stepOf(t, a.Step.StepKey); s.State != lifecycle.StepComplete || s.Mark != pawl.Attention {
		t.Errorf("the step is %s with mark %d; want it complete, and marked", s.State, s.Mark)
	}
}

// TestAFailureWithBadMetadata: the result of a handler cannot make a commit fail forever.
func TestAFailureWithBadMetadata(t *testing.T) { // T6
	t.Parallel()
	e, _ := interposedEngine(t)
	w, a := e.claimOne(t)
	r := success(a, "")
	r.Event, r.Output = lifecycle.StepFail, nil
	r.Failure = &pawl.Failure{Class: "odd", Message: "it failed", Metadata: json.RawMessage("{bad")}
	if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{r}}); err != nil {
		t.Errorf("report: %v; want it stored", err)
	}
	if s := e.stepOf(t, a.Step.StepKey); s.State == lifecycle.StepInProgress || s.Error == nil || s.Error.Class != "odd" {
		t.Errorf("the step is %s, error %v; want its failure stored", s.State, s.Error)
	}
}

// TestWhatCannotBeWrittenFailsAlone: a commit that the store refuses for the
// sake of one group does not take the other groups along.
func TestWhatCannotBeWrittenFailsAlone(t *testing.T) { // K5
	t.Parallel()
	e, _ := interposedEngine(t)
	good, bad := e.submitOne(t), e.submitOne(t)
	pause := func(id pawl.ID, f *pawl.Failure) *group {
		cmd := &script{q: store.Query{Jobs: []rowkey.Job{id.JobKey()}}, f: func(t *tx) error {
			t.job(id.JobKey()).Error = f
			return t.moveJob(t.job(id.JobKey()), lifecycle.JobPause, decide.Note{})
		}}
		return &group{cmds: []command{cmd}, errs: make([]error, 1), done: make(chan struct{})}
	}
	groups := []*group{pause(good, nil), pause(bad, &pawl.Failure{Metadata: json.RawMessage("{bad")})}
	e.committer.run(groups)
	if err := groups[0].errs[0]; err != nil {
		t.Errorf("the good one: %v", err)
	}
	if groups[1].errs[0] == nil {
		t.Error("the bad one was written")
	}
}

// TestUnchangedInputsAreNotWritten: a claim reads the inputs of a job whose definition it
// has not seen, and does not write them back.
func TestUnchangedInputsAreNotWritten(t *testing.T) { // K3
	t.Parallel()
	e, s := interposedEngine(t)
	updates := 0
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			read := false
			for _, j := range f.Jobs {
				read = read || j.Inputs != nil
			}
			c, err := decide(f)
			if c == nil || !read {
				return c, err
			}
			for _, u := range c.Jobs {
				updates++
				if u.Record.Inputs != nil || u.Record.Metadata != nil {
					t.Errorf("a job is written with inputs %s and metadata %s; want neither", u.Record.Inputs, u.Record.Metadata)
				}
			}
			return c, err
		})
	}
	w, a := e.claimOne(t)
	if _, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Reports: []link.Report{success(a, "1")}}); err != nil {
		t.Fatal(err)
	}
	if updates == 0 {
		t.Error("no job was read with its inputs and updated")
	}
}

// TestARefusedClaimAssignsNothing: a claim that was undone assigns no steps.
func TestARefusedClaimAssignsNothing(t *testing.T) { // T5
	t.Parallel()
	e, s := interposedEngine(t)
	w, _ := e.claimOne(t)
	e.submitOne(t)
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			if _, err := decide(f); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("the disk is full")
		})
	}
	got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Free: 1})
	if err == nil || len(got) != 0 {
		t.Errorf("assigned %d steps, error %v; want none, and an error", len(got), err)
	}
}

// TestPassiveEnginesGatherNothing: a passive engine keeps no list of jobs to evaluate.
func TestPassiveEnginesGatherNothing(t *testing.T) {
	t.Parallel()
	e, _ := interposedEngine(t)
	def, err := workflow.Parse("two.yaml", []byte("name: two\nsteps: [{id: a, handler: one}, {id: b, handler: other}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical()}); err != nil || a[0].Err != nil {
		t.Fatal(a, err)
	}
	v := e.evaluator
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.queue)+len(v.queued)+len(v.starts) != 0 {
		t.Errorf("%d jobs wait to be evaluated by an engine that evaluates nothing", len(v.queue))
	}
}

// TestDeadlinesThatFailAreNotTriedWithoutPause: if a full scan of deadlines finds none that
// can be applied, they are tried again after the poll interval.
func TestDeadlinesThatFailAreNotTriedWithoutPause(t *testing.T) { // K8
	t.Parallel()
	e, _ := interposedEngine(t)
	a := &store.Agenda{Due: make([]store.Due, lookLimit)}
	for i := range a.Due {
		a.Due[i] = store.Due{EntityKey: store.JobEntity(rowkey.Job(i + 1)), At: 1, Event: lifecycle.JobCancel} // no such jobs
	}
	if wait := e.evaluator.until(a, e.evaluator.deal(t.Context(), a), false); wait < firstDelay {
		t.Errorf("the next look is after %s; want %s", wait, firstDelay)
	}
	if wait := e.evaluator.until(a, maxDelay, true); wait > minPause {
		t.Errorf("with more that is due the next look is after %s; want at most %s", wait, minPause)
	}
}

// TestADeadlineIsNotForgotten: one that a commit sets while a look is under way, or what it
// has found is dealt with, is what the next look is planned for, though another one was
// to come before it when that began.
func TestADeadlineIsNotForgotten(t *testing.T) { // K8
	t.Parallel()
	e, _ := interposedEngine(t)
	v := e.evaluator
	const now = int64(1_000_000)
	for name, tt := range map[string]struct{ before, meanwhile, seen, want int64 }{
		"none":                     {0, 0, 0, 0},
		"seen":                     {0, 0, now + 500_000, now + 500_000},
		"meanwhile":                {now - 10, now + 400_000, 0, now + 400_000},
		"meanwhile, before others": {now - 10, now + 400_000, now + 500_000, now + 400_000},
		"meanwhile, after others":  {now - 10, now + 600_000, now + 500_000, now + 500_000},
		"passed already":           {0, now - 5, 0, now - 5},
	} {
		v.nextDue = tt.before
		v.beginLook()
		v.due(tt.meanwhile)
		if len(v.dues.c) != 0 {
			t.Errorf("%s: a look is asked for before this one is over", name)
		}
		want := min(v.pace(), time.Hour)
		if tt.want != 0 {
			want = max(minPause, min(want, time.Duration(tt.want-now)*time.Microsecond))
		}
		if wait := v.until(&store.Agenda{Now: now, NextDue: tt.seen}, time.Hour, false); wait != want {
			t.Errorf("%s: the next look is in %s; want %s", name, wait, want)
		}
		if v.due(now + 1); tt.want > now && len(v.dues.c) == 0 {
			t.Errorf("%s: a sooner deadline asks for no look", name)
		}
		select {
		case <-v.dues.c:
		default:
		}
	}
}

// TestAnUnknownOutcomeIsSettled: settling continues as long as the database is unavailable:
// steps of a committed claim that was given up would not run as long as their worker lives.
// Closing the engine ends it.
func TestAnUnknownOutcomeIsSettled(t *testing.T) { // K5
	t.Parallel()
	e, s := interposedEngine(t)
	id := e.submitOne(t)
	c := newCommitter(s, 1, slog.New(slog.DiscardHandler), e.begin, e.committed)
	c.pause = time.Millisecond
	t.Cleanup(c.close)
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		if err := s.Store.Do(ctx, q, decide); err != nil {
			return err
		}
		return store.ErrUnknown
	}
	pause := &script{q: store.Query{Jobs: []rowkey.Job{id.JobKey()}}, f: func(t *tx) error {
		return t.moveJob(t.job(id.JobKey()), lifecycle.JobPause, decide.Note{})
	}}
	tries := 0
	s.settle = func() error {
		if tries++; tries < 50 {
			return context.DeadlineExceeded // the try used up its time limit
		}
		return nil
	}
	if err := c.one(t.Context(), pause); err != nil || tries != 50 {
		t.Errorf("after %d tries: %v; want it settled at the 50th", tries, err)
	}
	s.settle = func() error {
		go c.close()
		return context.DeadlineExceeded
	}
	if err := c.one(t.Context(), pause); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("closed while settling: %v; want it told as unavailable", err)
	}
}

// TestHeavySubmissionsAreSeveralCommits: one commit does not take large submissions by the
// thousand.
func TestHeavySubmissionsAreSeveralCommits(t *testing.T) {
	t.Parallel()
	e, s := interposedEngine(t)
	def, err := workflow.Parse("one.yaml", []byte("name: one\ninputs: {text: {type: string}}\nsteps: [{id: a, handler: nobody}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	s.do = func(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
		return s.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
			ch, err := decide(f)
			size := 0
			for _, j := range ch.NewJobs {
				size += len(j.Inputs)
			}
			most = max(most, size)
			return ch, err
		})
	}
	subs := make([]pawl.Submission, 50)
	inputs, err := json.Marshal(map[string]string{"text": strings.Repeat("x", MaxInputs-100)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range subs {
		subs[i] = pawl.Submission{Definition: def.Canonical(), Inputs: inputs}
	}
	answers, err := e.Submit(t.Context(), subs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Err != nil || a.ID == (pawl.ID{}) {
			t.Fatalf("submission %d: %+v", i, a)
		}
	}
	if most > 17*MaxInputs {
		t.Errorf("%d MiB of inputs in one commit; want at most 17", most>>20)
	}
}

// TestMemoryIsBounded: what is remembered does not grow with the outputs of jobs
// that stay in use.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var ids mint
	m := newMemory()
	jobs := make([]*pawl.Job, 8)
	for i := range jobs {
		jobs[i] = &pawl.Job{ID: ids.next(time.Unix(1, 0))}
	}
	output := json.RawMessage(make([]byte, 1<<20))
	for ord := pawl.Ord(1); ord <= 40; ord++ {
		for _, j := range jobs {
			m.put(j, nil)
			m.putOutput(pawl.StepKey{Job: j.Key(), Ord: ord}, output)
		}
	}
	kept := 0
	for _, generation := range []map[rowkey.Job]*remembered{m.young, m.old} {
		for _, r := range generation {
			for _, out := range r.outputs {
				kept += len(out)
			}
		}
	}
	if kept > 2*maxRemembered+len(output) {
		t.Errorf("%d MiB of outputs are kept; want at most two generations of %d MiB", kept>>20, maxRemembered>>20)
	}
}
