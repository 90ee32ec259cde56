package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// echo returns the step's input document.
func echo(_ context.Context, t *worker.Task) worker.Result { return worker.Result{Output: t.Input()} }

func TestChainRunsToItsEnd(t *testing.T) { // T2, T3, J2
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		v := p.wait(p.submit(define(t, `
name: chain
inputs: {who: {type: string, default: you}}
steps:
  - {id: a, handler: echo}
  - {id: b, handler: echo, needs: [a]}
  - {id: c, handler: echo, needs: [b]}
output: ${{ steps.c.output.needs.b.inputs.who }}
`), `{"who":"me"}`))
		if v.Status != lifecycle.JobCompleted || string(v.Output) != `"me"` {
			t.Errorf("status %s, output %s; want COMPLETED and \"me\" (error %v)", v.Status, v.Output, v.Error)
		}
		if s := steps(v)["b"]; s.Attempts != 1 || s.Claims != 1 || s.WorkerID == nil {
			t.Errorf("step b: %+v; want one attempt, one claim and its worker", s)
		}
		verify(t, p.store)
	})
}

func TestJobOfZeroStepsCompletes(t *testing.T) { // T7
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		if v := p.wait(p.submit(define(t, "name: nothing\nsteps: []\n"), "")); v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s; want COMPLETED", v.Status)
		}
		verify(t, p.store)
	})
}

func TestFanOutKeepsOrder(t *testing.T) { // WORKFLOW.md: foreach, J7
	onStores(t, func(t *testing.T, open func() store.Store) {
		var now, most atomic.Int64
		item := func(_ context.Context, task *worker.Task) worker.Result {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			var in struct{ Item json.RawMessage }
			if err := json.Unmarshal(task.Input(), &in); err != nil {
				return worker.Result{Failure: &pawl.Failure{Class: "test", Message: err.Error(), Permanent: true}}
			}
			return worker.Result{Output: in.Item}
		}
		p := startProcess(t, open(), map[string]worker.Handler{"item": item})
		v := p.wait(p.submit(define(t, `
name: fan
inputs: {items: {type: array, default: [3, 1, 2, 9, 8, 7, 6, 5]}}
steps:
  - {id: each, handler: item, foreach: "${{ inputs.items }}", parallel: 3}
  - {id: none, handler: item, foreach: "${{ [] }}"}
output: "${{ [steps.each.output, steps.none.output] }}"
`), ""))
		if string(v.Output) != `[[3,1,2,9,8,7,6,5],[]]` {
			t.Errorf("output %s (error %v)", v.Output, v.Error)
		}
		if most.Load() > 3 {
			t.Errorf("%d instances at once; parallel is 3", most.Load())
		}
		verify(t, p.store)
	})
}

func TestRetryThenSuccess(t *testing.T) { // T6, T7
	onStores(t, func(t *testing.T, open func() store.Store) {
		var calls atomic.Int64
		flaky := func(context.Context, *worker.Task) worker.Result {
			if calls.Add(1) < 3 {
				return worker.Result{Failure: &pawl.Failure{Class: "flaky", Message: "not yet"}}
			}
			return worker.Result{Output: json.RawMessage("1")}
		}
		p := startProcess(t, open(), map[string]worker.Handler{"flaky": flaky})
		v := p.wait(p.submit(define(t, "name: r\nsteps: [{id: a, handler: flaky, retry: {max_attempts: 3, base: 20ms, jitter: none}}]\n"), ""))
		if s := steps(v)["a"]; v.Status != lifecycle.JobCompleted || s.Attempts != 3 || s.Claims != 3 {
			t.Errorf("status %s, step %+v; want COMPLETED after 3 attempts", v.Status, s)
		}
		verify(t, p.store)
	})
}

func TestPermanentErrorFailsTheJob(t *testing.T) { // T7
	onStores(t, func(t *testing.T, open func() store.Store) {
		boom := func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Failure: &pawl.Failure{Class: "boom", Message: "it is broken", Permanent: true}}
		}
		p := startProcess(t, open(), map[string]worker.Handler{"boom": boom, "echo": echo})
		v := p.wait(p.submit(define(t, "name: f\nsteps: [{id: a, handler: boom}, {id: b, handler: echo, needs: [a]}]\n"), ""))
		if v.Status != lifecycle.JobFailed || v.Error == nil || v.Error.Step != "a" || v.Error.Message != "it is broken" {
			t.Errorf("status %s, error %+v; want FAILED by step a", v.Status, v.Error)
		}
		if s := steps(v)["b"]; s.Status != lifecycle.StepCancelled {
			t.Errorf("step b is %s; want cancelled", s.Status)
		}
		verify(t, p.store)
	})
}

func TestConditions(t *testing.T) { // T2, WORKFLOW.md: if
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		v := p.wait(p.submit(define(t, `
name: conditions
inputs: {go: {type: boolean, default: false}}
steps:
  - {id: a, handler: echo, if: "${{ inputs.go }}"}
  - {id: b, handler: echo, needs: [a]}
  - {id: c, handler: echo, needs: [b], if: "${{ steps.b.status == 'skipped' }}"}
  - {id: d, handler: echo, needs: [c]}
`), ""))
		want := map[string]string{"a": "skipped", "b": "skipped", "c": "complete", "d": "complete"}
		for key, state := range want {
			if got := steps(v)[key].Status; string(got) != state {
				t.Errorf("step %s is %s; want %s", key, got, state)
			}
		}
		verify(t, p.store)
	})
}

func TestCancelStopsWhatRuns(t *testing.T) { // T1, J2
	onStores(t, func(t *testing.T, open func() store.Store) {
		started := make(chan struct{}, 1)
		block := func(ctx context.Context, _ *worker.Task) worker.Result {
			started <- struct{}{}
			<-ctx.Done()
			return worker.Result{Failure: &pawl.Failure{Class: "canceled", Message: context.Cause(ctx).Error()}}
		}
		p := startProcess(t, open(), map[string]worker.Handler{"block": block, "echo": echo})
		id := p.submit(define(t, "name: c\nsteps: [{id: a, handler: block}, {id: b, handler: echo, needs: [a]}]\n"), "")
		<-started
		if _, err := p.engine.Cancel(t.Context(), id, note("enough")); err != nil {
			t.Fatal(err)
		}
		v := p.wait(id)
		if v.Status != lifecycle.JobCanceled || v.Error.Message != "enough" {
			t.Errorf("status %s, error %+v; want CANCELED because enough", v.Status, v.Error)
		}
		if _, err := p.engine.Cancel(t.Context(), id, note("again")); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("canceling twice: %v; want a conflict (K3)", err)
		}
		verify(t, p.store)
	})
}

// TestAClaimLeavesRouteAndRank: a step has its route from the beginning, of whatever node it is, and
// no rank while a worker has it. So a claim changes neither, and a store that has an index on them
// need not touch it.
func TestAClaimLeavesRouteAndRank(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := start(t, open(), setup{})
		def := define(t, "name: c\nsteps: [{id: a, handler: block}, {id: b, handler: echo, queue: other, needs: [a]}]\n")
		id := p.submit(def, "")
		routes := []rowkey.Route{pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "block", 0), pawl.Route(pawl.DefaultWorkspace, "other", "echo", 0)}
		check := func(when string) {
			t.Helper()
			all, err := p.store.Steps(t.Context(), id.JobKey(), 0, 0)
			if err != nil || len(all) != len(routes) {
				t.Fatalf("%s: %d steps, %v", when, len(all), err)
			}
			for i, s := range all {
				if s.Route != routes[i] || s.Rank != 0 {
					t.Errorf("%s: step %d is %s with route %d and rank %d, want %d and none", when, i+1, s.State, s.Route, s.Rank, routes[i])
				}
			}
		}
		check("submitted")
		started, over := make(chan struct{}), make(chan struct{})
		p.config.handlers = map[string]worker.Handler{"echo": echo, "block": func(context.Context, *worker.Task) worker.Result {
			close(started)
			<-over
			return worker.Result{}
		}}
		p.startWorker()
		<-started
		check("claimed")
		close(over)
	})
}

// TestRecentJobs reads the newest jobs of a workspace, page by page, up to a limit.
func TestRecentJobs(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		def := define(t, "name: many\nsteps: [{id: a, handler: nobody}]\n")
		const page = 500 // jobs read at once
		subs := submissions(def, page+2)
		subs[page+1].Workspace = "other"
		made, err := p.engine.Submit(t.Context(), subs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ limit, stopAfter, want int }{{10_000, 10_000, page + 1}, {page, 10_000, page}, {10_000, 3, 3}, {0, 10, 0}} {
			var seen []*pawl.Job
			err := p.engine.RecentJobs(t.Context(), "default", tt.limit, func(j *pawl.Job) bool {
				seen = append(seen, j)
				return len(seen) < tt.stopAfter
			})
			if err != nil || len(seen) != tt.want || len(seen) > 0 && seen[0].ID != made[page].ID {
				t.Errorf("%+v: %d jobs, %v", tt, len(seen), err)
			}
			if !slices.IsSortedFunc(seen, func(a, b *pawl.Job) int { return cmp.Compare(b.Key(), a.Key()) }) {
				t.Errorf("%+v: not the newest first", tt)
			}
		}
	})
}

func TestSubmitTwiceWithOneRequestID(t *testing.T) { // J8
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		def := define(t, "name: once\nsteps: [{id: a, handler: nobody}]\n")
		sub := pawl.Submission{Definition: def.Canonical(), RequestID: "r1", Actor: "test"}
		answers, err := p.engine.Submit(t.Context(), sub, sub)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.engine.Submit(t.Context(), sub)
		if err != nil || again[0].ID != answers[0].ID || answers[1].ID != answers[0].ID || !again[0].Replayed {
			t.Errorf("answers %v and %v, %v; want one job", answers, again, err)
		}
		other := sub
		other.Description = "another"
		refused, err := p.engine.Submit(t.Context(), other)
		if err != nil || pawl.KindOf(refused[0].Err) != pawl.Invalid {
			t.Errorf("another request under the same id: %v, %v; want it refused as invalid", refused, err)
		}
		jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{})
		if err != nil || len(jobs) != 1 {
			t.Errorf("%d jobs, %v; want 1", len(jobs), err)
		}
	})
}
