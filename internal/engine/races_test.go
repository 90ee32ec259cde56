package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// Each test here shows a past fault.

// TestPrivateJobsKnowNoQueues: a limit of the queue default stopped `pawl run`.
func TestPrivateJobsKnowNoQueues(t *testing.T) { // J7
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		p.limit("queue/default", 0)
		def := define(t, "name: w\nsteps: [{id: a, handler: h}]\n")
		answers, err := p.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Private: true})
		must(t, err)
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"h": nop}, Job: answers[0].ID.JobKey()})
		if v := p.wait(answers[0].ID); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
	})
}

// TestSignalInTimeBeatsTheDeadline: a signal that came in time while no engine ran lost to
// the deadline, which had passed when one started.
func TestSignalInTimeBeatsTheDeadline(t *testing.T) { // T1, K8
	t.Parallel()
	db := &database{t: t, kind: "memory", where: ":memory:"} // where the whole clock moves
	p := start(t, db.open(), setup{})
	id := p.submit(define(t, "name: w\nsteps: [{id: a, event: {name: e, timeout: 1h}}]\n"), "")
	p.waiting(id, "a")
	p.engine.Close()
	passive := engine.New(engine.Config{Store: db.open(), Passive: true})
	defer passive.Close()
	must(t, errorOf(passive.Signal(t.Context(), id, "e", json.RawMessage("1"), ann)))
	db.elapse(2 * time.Hour)
	if v := start(t, db.open(), setup{}).wait(id); v.Status != lifecycle.JobCompleted {
		t.Errorf("the job is %s: %v", v.Status, v.Error)
	}
}

// TestNoApprovalAfterItsTime: while no engine ran to apply the deadline, an approval was
// accepted long after it.
func TestNoApprovalAfterItsTime(t *testing.T) { // T1, K8
	t.Parallel()
	db := &database{t: t, kind: "memory", where: ":memory:"}
	p := start(t, db.open(), setup{})
	id := p.submit(define(t, "name: w\nsteps: [{id: a, approval: {prompt: yes?, expires: 1h}}]\n"), "")
	p.waiting(id, "a")
	p.engine.Close()
	passive := engine.New(engine.Config{Store: db.open(), Passive: true})
	defer passive.Close()
	db.elapse(2 * time.Hour)
	if _, err := passive.Approve(t.Context(), id, "a", nil, ann); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("approve: %v, want a conflict", err)
	}
	if v := start(t, db.open(), setup{}).wait(id); v.Status != lifecycle.JobFailed {
		t.Errorf("the job is %s", v.Status)
	}
}

// A slyStore does something right after a job was read.
type slyStore struct {
	store.Store
	armed atomic.Bool
	then  func()
}

func (s *slyStore) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	j, err := s.Store.Job(ctx, key)
	if s.armed.CompareAndSwap(true, false) {
		s.then()
	}
	return j, err
}

// TestHookConditionsSeeTheEnd: the condition of a hook was evaluated with the job
// as it had been before another process cancelled it.
func TestHookConditionsSeeTheEnd(t *testing.T) { // T7
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		sly := &slyStore{Store: db.open()}
		p := start(t, sly, setup{handlers: map[string]worker.Handler{"h": nop}})
		other := engine.New(engine.Config{Store: db.open(), Passive: true})
		defer other.Close()
		id := p.submit(define(t, `
name: w
steps: [{id: a, event: {name: e}}, {id: b, event: {name: x}}]
hooks: {always: [{id: tell, if: "${{ job.status == 'CANCELED' }}", handler: h}]}
`), "")
		p.waiting(id, "a")
		p.waiting(id, "b")
		sly.then = func() { must(t, errorOf(other.Cancel(context.Background(), id, note("stop")))) }
		sly.armed.Store(true)
		must(t, errorOf(other.Signal(t.Context(), id, "e", json.RawMessage("1"), ann)))
		if s := steps(p.wait(id))["tell"]; s.Status != lifecycle.StepComplete {
			t.Errorf("the hook is %s", s.Status)
		}
	})
}

// TestPriorityWithinAJob: the priority of a step did not count while it waited
// for a slot of its own job.
func TestPriorityWithinAJob(t *testing.T) { // J7
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		var order []string
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			order = append(order, task.Key) // one at a time
			return nop(ctx, task)
		}}})
		p.wait(p.submit(define(t, "name: w\nworkers: 1\nsteps: [{id: a, handler: h}, {id: b, handler: h}, {id: c, handler: h, priority: 9}]\n"), ""))
		if !slices.Equal(order, []string{"a", "c", "b"}) {
			t.Errorf("they ran as %v", order)
		}
	})
}

// TestAChildsHooksSurviveItsParentsEnd: each evaluation of the parent cancelled the child
// again, the second time its hooks.
func TestAChildsHooksSurviveItsParentsEnd(t *testing.T) { // J6, T7
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"block": g.run, "h": nop}})
		p.register(define(t, "name: leaf\nsteps: [{id: a, event: {name: e}}]\nhooks: {always: [{id: tidy, handler: block}]}\n"))
		id := p.submit(define(t, "name: top\nsteps: [{id: down, workflow: leaf}]\n"), "")
		child, err := pawl.ParseID(pawl.JobPrefix, p.waiting(id, "down").Wait.Job)
		must(t, err)
		p.waiting(child, "a")
		must(t, errorOf(p.engine.Cancel(t.Context(), id, note("stop"))))
		g.wait(t) // the hook of the child runs
		for range 3 {
			looker := start(t, db.open(), setup{}) // scans at once
			looker.wait(looker.submit(define(t, "name: other\nsteps: [{id: a, handler: h}]\n"), ""))
		}
		g.release()
		if s := steps(p.wait(child))["tidy"]; s.Status != lifecycle.StepComplete {
			t.Errorf("the hook of the child is %s (%v)", s.Status, s.Error)
		}
		if v := p.wait(id); v.Status != lifecycle.JobCanceled {
			t.Errorf("the parent is %s", v.Status)
		}
	})
}

// TestRetryOfACompletedJobNeedsAStep: with only a different input it ran nothing.
func TestRetryOfACompletedJobNeedsAStep(t *testing.T) { // J2
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		var ran atomic.Int32
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			ran.Add(1)
			return nop(ctx, task)
		}}})
		id := p.submit(define(t, "name: w\ninputs: {x: {default: a}}\nsteps: [{id: a, handler: h}, {id: b, needs: [a], handler: h}]\n"), "")
		p.wait(id)
		set := pawl.Retry{Set: map[string]any{"x": "b"}}
		if _, err := p.engine.RetryJob(t.Context(), id, set, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("retry with an input alone: %v, want a conflict", err)
		}
		set.From = []string{"b"}
		again, err := madeBy(p.engine.RetryJob(t.Context(), id, set, ann))
		must(t, err)
		if p.wait(again); ran.Load() != 3 {
			t.Errorf("%d steps ran, want 3", ran.Load())
		}
		// What depends on a result that was given by hand is not taken over.
		given := pawl.Retry{From: []string{"b"}, Resolve: map[string]json.RawMessage{"a": json.RawMessage("7")}}
		again, err = madeBy(p.engine.RetryJob(t.Context(), id, given, ann))
		must(t, err)
		if v := p.wait(again); ran.Load() != 4 || steps(v)["a"].Status != lifecycle.StepResolvedManually {
			t.Errorf("%d steps ran, want 4; a is %s", ran.Load(), steps(v)["a"].Status)
		}
	})
}
