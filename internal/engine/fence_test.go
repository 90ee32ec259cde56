package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// A gate is a handler that signals that it runs and waits for release; a deaf one ignores
// its context.
type gate struct {
	deaf    bool
	started chan *worker.Task
	open    chan struct{}
	once    sync.Once
}

func newGate(deaf bool) *gate {
	return &gate{deaf: deaf, started: make(chan *worker.Task, 1000), open: make(chan struct{})} // buffered, since tests receive at any time
}

// release releases all runs, present and future. Tests defer it, since a worker waits for
// deaf handlers.
func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (g *gate) run(ctx context.Context, t *worker.Task) worker.Result {
	g.started <- t
	done := ctx.Done()
	if g.deaf {
		done = nil
	}
	select {
	case <-g.open:
		return worker.Result{Output: json.RawMessage(`"late"`)}
	case <-done:
		return worker.Result{Failure: &pawl.Failure{Class: "stopped", Message: context.Cause(ctx).Error()}}
	}
}

func (g *gate) wait(t *testing.T) *worker.Task {
	t.Helper()
	select {
	case task := <-g.started:
		return task
	case <-time.After(patience):
		t.Fatal("the handler was not started")
		return nil
	}
}

// TestALateResultIsRefused: the worker of a blocked step is terminated from another engine;
// the step runs again elsewhere, and the late result of the first run is kept as a fact.
func TestALateResultIsRefused(t *testing.T) { // T5, J1, J9
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(true)
		defer g.release()
		first := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 1})
		id := first.submit(define(t, oneStep), "")
		g.wait(t)
		second := startProcess(t, open(), map[string]worker.Handler{"h": echo})
		before := first.worker.ID()
		if err := second.engine.Terminate(t.Context(), first.workerKey(), decide.Note{Reason: "it hangs"}); err != nil {
			t.Fatal(err)
		}
		v := second.wait(id)
		s := steps(v)["a"]
		if v.Status != lifecycle.JobCompleted || s.Claims != 2 || s.Attempts != 1 || *s.WorkerID != second.worker.ID() {
			t.Errorf("status %s, step %+v; want it complete by the second worker", v.Status, s)
		}
		until(t, "the live worker registers anew", func() bool { return first.worker.ID() != before })
		g.release()
		until(t, "the late result is kept", func() bool { return len(second.refused(id)) == 1 })
		fact := second.refused(id)[0]
		if fact.Step != "a" || fact.Actor != before || fact.Event != lifecycle.StepSuccess || string(fact.Metadata) != `{"output":"late"}` {
			t.Errorf("the refused fact is %+v, metadata %s; want what the first worker answered", fact, fact.Metadata)
		}
		if got := steps(second.job(id))["a"].Output; string(got) == `"late"` {
			t.Error("the late result was stored")
		}
		again := first.submit(define(t, "name: again\nsteps: [{id: a, handler: h}]\n"), "")
		if v := first.wait(again); v.Status != lifecycle.JobCompleted {
			t.Errorf("after it registered anew: %s", v.Status)
		}
		second.settled(id)
		verify(t, second.store)
	})
}

// TestATerminatedWorkerInterruptsItsHandlers, even if it has no free slot and so no reason
// to visit the engine.
func TestATerminatedWorkerInterruptsItsHandlers(t *testing.T) { // J1, J9
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 1})
		id := p.submit(define(t, oneStep), "")
		g.wait(t)
		before := p.worker.ID()
		other := startProcess(t, open(), nil)
		if err := other.engine.Terminate(t.Context(), p.workerKey(), decide.Note{Reason: "go on"}); err != nil {
			t.Fatal(err)
		}
		if task := g.wait(t); task.Claim != 2 || task.Attempt != 1 {
			t.Errorf("the second run is claim %d, attempt %d; want 2 and 1", task.Claim, task.Attempt)
		}
		if p.worker.ID() == before {
			t.Error("the worker runs on under the record that was ended")
		}
		g.release()
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", v.Status)
		}
		verify(t, p.store)
	})
}

func TestThreeLossesArePermanent(t *testing.T) { // T7
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := start(t, open(), setup{})
		id := p.submit(define(t, "name: lost\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}]\n"), "")
		for range 3 {
			h := p.hand("h")
			h.claim(1)
			if err := p.engine.Terminate(t.Context(), h.worker.Key(), decide.Note{Reason: "killed"}); err != nil {
				t.Fatal(err)
			}
			until(t, "the loss is applied", func() bool { return steps(p.job(id))["a"].Status != lifecycle.StepRetryableError })
		}
		v := p.wait(id)
		s := steps(v)["a"]
		if v.Status != lifecycle.JobFailed || v.Error == nil || v.Error.Class != "lost" || v.Error.Step != "a" {
			t.Errorf("status %s, error %+v; want FAILED by a lost step", v.Status, v.Error)
		}
		if s.Status != lifecycle.StepPermanentError || s.Claims != 3 || s.Attempts != 0 {
			t.Errorf("step %+v; want a permanent error after 3 claims and no attempt", s)
		}
		givenUp(t, v, "a", "its worker died 3 times", "lost", "killed")
		then, err := p.engine.Past(t.Context(), id, pawl.Moment{Time: v.CompletedAt})
		must(t, err)
		givenUp(t, then, "a", "its worker died 3 times", "lost", "killed")
		p.settled(id)
		verify(t, p.store)
	})
}

// TestASilentWorkerIsReleased: the worker holds its name and sends nothing.
func TestASilentWorkerIsReleased(t *testing.T) { // J9, T10
	onStores(t, func(t *testing.T, open func() store.Store) {
		observer := startProcess(t, open(), nil)
		id := observer.submit(define(t, oneStep), "")
		h := observer.hand("h")
		a := h.claim(1)[0]
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": echo}, silence: time.Second})
		v := p.wait(id)
		if s := steps(v)["a"]; v.Status != lifecycle.JobCompleted || s.Claims != 2 || s.Attempts != 1 {
			t.Errorf("status %s, step %+v; want it run by the worker that lives", v.Status, s)
		}
		if w, err := p.store.Worker(t.Context(), h.worker.Key()); err != nil || w.State != lifecycle.WorkerTerminated {
			t.Errorf("the silent worker is %+v, %v; want TERMINATED", w, err)
		}
		h.exchange(0, success(a))
		if late := p.refused(id); len(late) != 1 {
			t.Errorf("%d refused facts; want its late result", len(late))
		}
		verify(t, p.store)
	})
}

// TestAnInterruptRefundsTheAttempt: a drain that runs out of time gives its step back, and
// another process runs it.
func TestAnInterruptRefundsTheAttempt(t *testing.T) { // T1, T5
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		id := p.submit(define(t, "name: drained\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}]\n"), "")
		g.wait(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 { // draining twice is fine
			if err := p.worker.Drain(ended); err != nil {
				t.Fatal(err)
			}
		}
		if s := steps(p.job(id))["a"]; s.Attempts != 0 || s.Claims != 1 || s.Status != lifecycle.StepEnqueued {
			t.Errorf("after the drain: %+v; want it in the queue, the attempt refunded", s)
		}
		q := startProcess(t, open(), map[string]worker.Handler{"h": echo})
		if s := steps(q.wait(id))["a"]; s.Status != lifecycle.StepComplete || s.Attempts != 1 || s.Claims != 2 {
			t.Errorf("at the end: %+v; want complete by its second claim", s)
		}
		q.settled(id)
		verify(t, q.store)
	})
}

func TestAPanicIsContained(t *testing.T) { // J9, T6
	onStores(t, func(t *testing.T, open func() store.Store) {
		var calls atomic.Int64
		p := startProcess(t, open(), map[string]worker.Handler{"h": func(context.Context, *worker.Task) worker.Result {
			if calls.Add(1) == 1 {
				panic("no")
			}
			return worker.Result{Output: json.RawMessage("1")}
		}})
		v := p.wait(p.submit(define(t, "name: p\nsteps: [{id: a, handler: h, retry: {base: 1ms}}]\n"), ""))
		if s := steps(v)["a"]; s.Status != lifecycle.StepComplete || s.Attempts != 2 {
			t.Errorf("step %+v; want it complete at the second attempt", s)
		}
	})
}

// givenUp checks that a job, and the step that made it fail, state that there was no
// further attempt, and why, beside the last error.
func givenUp(t *testing.T, v *pawl.JobView, key, reason, class, message string) {
	t.Helper()
	of := steps(v)[key].Error
	for what, f := range map[string]*pawl.Failure{"the step": of, "the job": v.Error} {
		if f == nil || !f.Permanent || f.Reason != reason || f.Class != class || !strings.Contains(f.Message, message) {
			t.Errorf("%s says %+v; want a permanent failure of class %s, because %s, that says %q", what, f, class, reason, message)
		}
	}
}

// TestAStepThatIsGivenUpSaysWhy: the failures of the step and its job are permanent and
// name the reason, for every way its attempts can end; so are those of a fan-out and its
// instance.
func TestAStepThatIsGivenUpSaysWhy(t *testing.T) { // T6, T7
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"fail": fails, "h": nop})
		const retry = "retry: {max_attempts: 2, base: 0s, jitter: none}"
		for src, want := range map[string][4]string{
			"{id: a, handler: fail, " + retry + "}":                                                             {"a", "2 of 2 attempts failed", "test", "it failed"},
			"{id: a, foreach: [1], handler: fail, " + retry + "}":                                               {"a[0]", "2 of 2 attempts failed", "test", "it failed"},
			"{id: z, handler: h}\n  - {id: a, needs: [z], handler: nobody, queue_timeout: 10ms, " + retry + "}": {"a", "2 of 2 attempts failed", "queue_timeout", "no worker took it"},
			"{id: b, handler: fail, retry: {max_attempts: 1}, foreach: [1, 2], parallel: 1}":                    {"b[0]", "1 of 1 attempts failed", "test", "it failed"},
		} {
			id := p.submit(define(t, "name: up\nsteps:\n  - "+src+"\n"), "")
			v := p.wait(id)
			givenUp(t, v, want[0], want[1], want[2], want[3])
			if fan, _, is := strings.Cut(want[0], "["); is {
				givenUp(t, v, fan, want[1], want[2], want[3])
			}
			p.settled(id)
		}
		verify(t, p.store)
	})
}
