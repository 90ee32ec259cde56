package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// deep is a workflow that runs itself n levels down.
const deep = `
name: deep
workers: 1
inputs: {n: {type: integer, required: true}}
steps:
  - {id: before, handler: h}
  - {id: down, needs: [before], if: "inputs.n > 0", workflow: deep, inputs: {n: "${{ inputs.n - 1 }}"}}
  - {id: after, needs: [down], if: true, handler: h}
output: "${{ [inputs.n, steps.down.output] }}"
`

// serve starts one more worker on the process's engine.
func (p *process) serve(c worker.Config) *worker.Worker {
	p.t.Helper()
	c.Poll, c.Beat = 50*time.Millisecond, 100*time.Millisecond
	w, err := worker.Start(p.t.Context(), p.engine, c)
	must(p.t, err)
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.Drain(ctx)
	})
	return w
}

// family returns all jobs below a job, from the top down.
func (p *process) family(id pawl.ID) []*pawl.JobView {
	p.t.Helper()
	var all []*pawl.JobView
	for _, child := range p.job(id).ChildJobs {
		id, err := pawl.ParseID(pawl.JobPrefix, child)
		must(p.t, err)
		all = append(append(all, p.job(id)), p.family(id)...)
	}
	return all
}

// settledAll checks a whole family.
func (p *process) settledAll(id pawl.ID) {
	p.t.Helper()
	p.settled(id)
	for _, v := range p.family(id) {
		child, err := pawl.ParseID(pawl.JobPrefix, v.ID)
		must(p.t, err)
		p.settled(child)
	}
}

func TestChildrenFiveDeep(t *testing.T) { // J6
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		def := define(t, deep)
		p.register(def)
		deepest, tooDeep := p.submit(def, `{"n": 5}`), p.submit(def, `{"n": 6}`)
		v := p.wait(deepest)
		if v.Status != lifecycle.JobCompleted || string(v.Output) != `[5,[4,[3,[2,[1,[0,null]]]]]]` {
			t.Errorf("the job is %s (%v), output %s", v.Status, v.Error, v.Output)
		}
		for i, child := range p.family(deepest) {
			if child.Depth != i+1 || child.Status != lifecycle.JobCompleted || child.Version != 1 {
				t.Errorf("child %d is %s, of depth %d and version %d", i+1, child.Status, child.Depth, child.Version)
			}
		}
		v = p.wait(tooDeep)
		below := p.family(tooDeep)
		if v.Status != lifecycle.JobFailed || len(below) != 5 || !strings.Contains(v.Error.Message, "there can be no child job: depth: 5 is the deepest") {
			t.Errorf("the job is %s (%v) with %d below; want the sixth level refused", v.Status, v.Error, len(below))
		}
		if s := steps(below[4])["down"]; s.Status != lifecycle.StepPermanentError || s.Attempts != 1 || s.Error.Class != "child" {
			t.Errorf("the step at the bottom: %+v", s)
		}
		p.settledAll(deepest)
		p.settledAll(tooDeep)
		verify(t, p.store)
	})
}

// TestFailureGoesUp: a child that FAILED or was CANCELED is a permanent error of
// its parent's step.
func TestFailureGoesUp(t *testing.T) { // J6
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"fail": fails, "block": g.run, "h": nop}})
		p.register(define(t, "name: failing\nsteps: [{id: bad, handler: fail, retry: {max_attempts: 1}}]\n"))
		p.register(define(t, "name: blocked\nsteps: [{id: block, handler: block}]\n"))
		failed := p.submit(define(t, "name: one\nsteps: [{id: sub, workflow: failing}, {id: after, handler: h, needs: [sub]}]\n"), "")
		canceled := p.submit(define(t, "name: two\non_error: drain\nsteps: [{id: sub, workflow: blocked}, {id: after, handler: h, needs: [sub]}]\n"), "")
		g.wait(t)
		child, err := pawl.ParseID(pawl.JobPrefix, p.job(canceled).ChildJobs[0])
		must(t, err)
		must(t, errorOf(p.engine.Cancel(t.Context(), child, note("not this one"))))
		for id, want := range map[pawl.ID]string{failed: " is FAILED: it failed", canceled: " is CANCELED: not this one"} {
			v := p.wait(id)
			sub := steps(v)["sub"]
			if v.Status != lifecycle.JobFailed || sub.Status != lifecycle.StepPermanentError || !strings.HasSuffix(v.Error.Message, want) || v.Error.Step != "sub" {
				t.Errorf("the parent is %s (%+v), its step %s; want it FAILED by a child that%s", v.Status, v.Error, sub.Status, want)
			}
			if !strings.Contains(v.Error.Message, v.ChildJobs[0]) || steps(v)["after"].Status != lifecycle.StepCancelled {
				t.Errorf("error %v, after %s", v.Error, steps(v)["after"].Status)
			}
			p.settledAll(id)
		}
		verify(t, p.store)
	})
}

// TestCancelGoesDown: one process cancels the parent while its descendants run in another.
func TestCancelGoesDown(t *testing.T) { // J6, T1, T10
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		here := startProcess(t, db.open(), nil)
		start(t, db.open(), setup{handlers: map[string]worker.Handler{"block": g.run}})
		here.register(define(t, "name: leaf\nsteps: [{id: block, handler: block}, {id: ask, approval: {prompt: x}}]\n"))
		here.register(define(t, "name: middle\nsteps: [{id: each, foreach: [1, 2, 3], workflow: leaf}]\n"))
		id := here.submit(define(t, "name: top\nsteps: [{id: down, workflow: middle}, {id: nap, sleep: 1h}]\n"), "")
		for range 3 {
			g.wait(t)
		}
		must(t, errorOf(here.engine.Cancel(t.Context(), id, note("enough"))))
		v := here.wait(id)
		below := here.family(id)
		if v.Status != lifecycle.JobCanceled || len(below) != 4 {
			t.Errorf("the parent is %s with %d jobs below it", v.Status, len(below))
		}
		for _, child := range below {
			if child.Status != lifecycle.JobCanceled {
				t.Errorf("%s is %s", child.Workflow, child.Status)
			}
		}
		here.settledAll(id)
		verify(t, here.store)
	})
}

// TestTheTimeoutOfAParent cancels its children.
func TestTheTimeoutOfAParent(t *testing.T) { // J6, J2
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		p.register(define(t, "name: leaf\nsteps: [{id: nap, sleep: 1h}]\n"))
		id := p.submit(define(t, "name: top\ntimeout: 200ms\nsteps: [{id: each, foreach: [1, 2], workflow: leaf}]\n"), "")
		v := p.wait(id)
		if v.Status != lifecycle.JobCanceled || steps(v)["each"].Status == lifecycle.StepInProgress {
			t.Errorf("the parent is %s, %v", v.Status, v.Error)
		}
		for _, child := range p.family(id) {
			if child.Status != lifecycle.JobCanceled {
				t.Errorf("a child is %s", child.Status)
			}
		}
		p.settledAll(id)
		verify(t, p.store)
	})
}

// TestForeachOverChildren: at most parallel children run at once; outputs keep their order.
func TestForeachOverChildren(t *testing.T) { // J6, J7
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 1})
		p.register(define(t, "name: square\ninputs: {n: {type: integer}}\nsteps: [{id: a, handler: h}]\noutput: ${{ inputs.n * inputs.n }}\n"))
		id := p.submit(define(t, "name: top\nworkers: 1\nsteps: [{id: each, foreach: [5, 3, 4, 1, 2], parallel: 2, workflow: square, inputs: {n: \"${{ item }}\"}}]\noutput: ${{ steps.each.output }}\n"), "")
		if v := p.wait(id); string(v.Output) != `[25,9,16,1,4]` || len(v.ChildJobs) != 5 {
			t.Errorf("the job is %s (%v), output %s, %d children", v.Status, v.Error, v.Output, len(v.ChildJobs))
		}
		p.settledAll(id)
		verify(t, p.store)
	})
}

// TestChildrenOfAPrivateJob are run by the one process that its parent belongs to.
func TestChildrenOfAPrivateJob(t *testing.T) { // J6, WORKFLOW.md: running
	onShared(t, func(t *testing.T, db *database) {
		var elsewhere atomic.Int64
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			elsewhere.Add(1)
			return nop(ctx, task)
		}}})
		p.register(define(t, "name: leaf\nsteps: [{id: a, handler: h, queue: special}]\n"))
		p.register(define(t, "name: middle\nsteps: [{id: a, handler: h}, {id: b, workflow: leaf}]\n"))
		id := p.submission(pawl.Submission{Definition: define(t, "name: top\nsteps: [{id: down, workflow: middle}]\n").Canonical(), Private: true})
		var here atomic.Int64
		p.serve(worker.Config{Job: id.JobKey(), Capacity: 1, Handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			here.Add(1)
			return nop(ctx, task)
		}}})
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || here.Load() != 2 || elsewhere.Load() != 0 {
			t.Errorf("the job is %s (%v); %d steps ran in its process, %d elsewhere", v.Status, v.Error, here.Load(), elsewhere.Load())
		}
		verify(t, p.store)
	})
}

// TestAChildThatWouldWaitForItsAncestor is refused.
func TestAChildThatWouldWaitForItsAncestor(t *testing.T) { // J6
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		keyed := define(t, `
name: keyed
inputs: {key: {}, below: {}}
concurrency: {key: "${{ inputs.key }}"}
steps:
  - {id: between, if: "inputs.below != ''", workflow: between, inputs: {key: "${{ inputs.below }}"}}
  - {id: a, handler: h}
`)
		p.register(keyed)
		p.register(define(t, "name: between\ninputs: {key: {}}\nsteps: [{id: sub, workflow: keyed, inputs: {key: \"${{ inputs.key }}\", below: \"\"}}]\n"))
		same, other := p.submit(keyed, `{"key": "x", "below": "x"}`), p.submit(keyed, `{"key": "y", "below": "z"}`)
		if v := p.wait(same); v.Status != lifecycle.JobFailed || !strings.Contains(v.Error.Message, "would wait for ever for its concurrency key, which job "+v.ID) {
			t.Errorf("a child of the same key: the job is %s (%v); want it FAILED, naming who holds the key", v.Status, v.Error)
		}
		if v := p.wait(other); v.Status != lifecycle.JobCompleted {
			t.Errorf("a child of another key: the job is %s (%v)", v.Status, v.Error)
		}
		verify(t, p.store)
	})
}

// TestRetryReusesChildren: the completed work of a child is not repeated.
func TestRetryReusesChildren(t *testing.T) { // J2, J6
	onShared(t, func(t *testing.T, db *database) {
		var broken atomic.Bool
		broken.Store(true)
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop, "sometimes": func(_ context.Context, task *worker.Task) worker.Result {
			if broken.Load() && strings.Contains(string(task.Input()), `"n":2`) {
				return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "broken", Permanent: true}}
			}
			return worker.Result{Output: json.RawMessage(`1`)}
		}}})
		p.register(define(t, "name: once\nsteps: [{id: a, handler: h}]\noutput: done\n"))
		p.register(define(t, "name: leaf\ninputs: {n: {type: integer}}\nsteps: [{id: a, handler: sometimes}]\noutput: ${{ inputs.n }}\n"))
		first := p.submit(define(t, `
name: top
on_error: drain
steps:
  - {id: sub, workflow: once}
  - {id: each, needs: [sub], foreach: [1, 2, 3], workflow: leaf, inputs: {n: "${{ item }}"}}
output: "${{ [steps.sub.output, steps.each.output] }}"
`), "")
		if v := p.wait(first); v.Status != lifecycle.JobFailed || len(v.ChildJobs) != 4 {
			t.Fatalf("the job is %s (%v) with %d children", v.Status, v.Error, len(v.ChildJobs))
		}
		broken.Store(false)
		id, err := madeBy(p.engine.RetryJob(t.Context(), first, pawl.Retry{}, ann))
		must(t, err)
		v := p.wait(id)
		if v.Status != lifecycle.JobCompleted || string(v.Output) != `["done",[1,2,3]]` || len(v.ChildJobs) != 1 {
			t.Errorf("the retried job is %s (%v), output %s, with %d new children; want one", v.Status, v.Error, v.Output, len(v.ChildJobs))
		}
		p.settledAll(id)
		verify(t, p.store)
	})
}

// TestManyFamilies: trees of jobs on two processes, some cancelled from the other process
// at a random moment, all end and leave nothing behind.
func TestManyFamilies(t *testing.T) { // J6, T10
	onShared(t, func(t *testing.T, db *database) {
		procs := []*process{start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 2}),
			start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 2})}
		def := define(t, deep)
		procs[0].register(def)
		ids := make([]pawl.ID, 16)
		var cancels sync.WaitGroup
		for i := range ids {
			ids[i] = procs[i%2].submit(def, fmt.Sprintf(`{"n": %d}`, 1+i%4))
			if i%3 == 0 {
				cancels.Go(func() { cancelLater(t, procs[(i+1)%2], ids[i], time.Duration(i)*5*time.Millisecond) })
			}
		}
		cancels.Wait()
		ends := make(map[machine.State]int)
		for i, id := range ids {
			v := procs[i%2].wait(id)
			ends[v.Status]++
			if v.Status != lifecycle.JobCompleted && (i%3 != 0 || v.Status != lifecycle.JobCanceled) {
				t.Errorf("job %d is %s (%v)", i, v.Status, v.Error)
			}
			procs[0].settledAll(id)
		}
		t.Log(ends)
		verify(t, procs[0].store)
	})
}

// usage returns the slots taken, for all limits of the workspace.
func (p *process) usage() map[string]int {
	p.t.Helper()
	views, err := p.engine.Quotas(p.t.Context(), pawl.DefaultWorkspace)
	must(p.t, err)
	used := make(map[string]int)
	for _, v := range views {
		used[v.Name] = v.Used
	}
	return used
}

// keyPool returns the pool of a concurrency key.
func keyPool(def *workflow.Definition, key string) store.Pool {
	return store.Pool{Kind: store.PoolJobs, Key: pawl.PoolKey(pawl.DefaultWorkspace, "key", def.Name, key)}
}

// TestFamiliesOnAStoreThatFails: commits that fail, or whose outcome is lost, create each
// child exactly once, and no signal is lost or taken twice.
func TestFamiliesOnAStoreThatFails(t *testing.T) { // K5, J6, T1
	onShared(t, func(t *testing.T, db *database) {
		s := seed(t)
		observer := start(t, db.open(), setup{})
		for i := range 2 {
			start(t, newMoody(db.open(), s+uint64(i)), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 4})
		}
		observer.register(define(t, `
name: leaf
inputs: {n: {type: integer}}
steps: [{id: told, event: {name: e}}, {id: nap, sleep: 1ms}, {id: a, needs: [told, nap], handler: h}]
output: "${{ [inputs.n, steps.told.output] }}"
`))
		top := define(t, `
name: top
steps:
  - {id: each, foreach: [1, 2, 3], workflow: leaf, inputs: {n: "${{ item }}"}}
  - {id: gate, needs: [each], approval: {prompt: x}}
hooks: {always: [{id: tidy, handler: h}]}
output: ${{ steps.each.output }}
`)
		var ids []pawl.ID
		for range 8 {
			ids = append(ids, observer.submit(top, ""))
		}
		for _, id := range ids {
			until(t, "three children are born", func() bool { return len(observer.job(id).ChildJobs) == 3 })
			for i, child := range observer.family(id) {
				key, err := pawl.ParseID(pawl.JobPrefix, child.ID)
				must(t, err)
				observer.signal(key, "e", fmt.Sprint(i))
			}
			observer.waiting(id, "gate")
			must(t, errorOf(observer.engine.Approve(t.Context(), id, "gate", nil, ann)))
		}
		for _, id := range ids {
			if v := observer.wait(id); v.Status != lifecycle.JobCompleted || string(v.Output) != `[[1,0],[2,1],[3,2]]` || len(v.ChildJobs) != 3 {
				t.Errorf("the job is %s (%v), output %s, with %d children", v.Status, v.Error, v.Output, len(v.ChildJobs))
			}
			observer.settledAll(id)
		}
		verify(t, observer.store)
	})
}
