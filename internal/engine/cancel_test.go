package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func TestCancelFromAnotherEngine(t *testing.T) { // T1, J2
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		other := startProcess(t, open(), nil)
		id := p.submit(define(t, "name: c\nsteps: [{id: a, handler: h}, {id: b, handler: h, needs: [a]}]\n"), "")
		g.wait(t)
		asked := time.Now()
		if _, err := other.engine.Cancel(t.Context(), id, note("enough")); err != nil {
			t.Fatal(err)
		}
		if _, err := other.engine.Cancel(t.Context(), id, note("again")); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("canceling twice: %v; want a conflict (K3)", err)
		}
		v := other.wait(id)
		if took := time.Since(asked); took > decide.CancelGrace/2 {
			t.Errorf("the handler was stopped after %s; want it asked at once", took)
		}
		a, b := steps(v)["a"], steps(v)["b"]
		if v.Status != lifecycle.JobCanceled || a.Status != lifecycle.StepCancelled || b.Status != lifecycle.StepCancelled || b.Claims != 0 {
			t.Errorf("status %s, a %+v, b %+v; want all cancelled", v.Status, a, b)
		}
		other.settled(id)
		verify(t, other.store)
	})
}

// TestCancelOfADeafHandler: after the grace the engine ends the step itself, and refuses
// the later result of the handler.
func TestCancelOfADeafHandler(t *testing.T) { // T1, T5, K8
	onDatabases(t, func(t *testing.T, db *database) {
		g := newGate(true)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		id := p.submit(define(t, oneStep), "")
		g.wait(t)
		if _, err := p.engine.Cancel(t.Context(), id, note("enough")); err != nil {
			t.Fatal(err)
		}
		if v := p.job(id); v.Status != lifecycle.JobRunning || v.Ending != lifecycle.JobCanceled {
			t.Errorf("status %s, ending %s; want it RUNNING until its worker has stopped", v.Status, v.Ending)
		}
		db.elapse(decide.CancelGrace)
		if v := p.wait(id); v.Status != lifecycle.JobCanceled || steps(v)["a"].Status != lifecycle.StepCancelled {
			t.Errorf("status %s, step %+v; want it cancelled without its worker", v.Status, steps(v)["a"])
		}
		g.release()
		until(t, "the late result is refused", func() bool { return len(p.refused(id)) == 1 })
		p.settled(id)
		verify(t, p.store)
	})
}

func TestCancelByState(t *testing.T) { // J2, K3
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo, "fail": fails})
		pending := p.submit(define(t, oneStep), "")
		if _, err := p.engine.Cancel(t.Context(), pending, note("not yet")); err != nil {
			t.Fatal(err)
		}
		if v := p.job(pending); v.Status != lifecycle.JobCanceled || steps(v)["a"].Status != lifecycle.StepCancelled || v.CompletedAt == 0 {
			t.Errorf("a pending job: %s, step %s", v.Status, steps(v)["a"].Status)
		}
		p.settled(pending)

		backingOff := p.submit(define(t, "name: b\nsteps: [{id: a, handler: fail, retry: {base: 1h, cap: 1h, jitter: none}}, {id: b, handler: echo, needs: [a]}]\n"), "")
		until(t, "the step backs off", func() bool { return steps(p.job(backingOff))["a"].NotBefore != 0 })
		if _, err := p.engine.Cancel(t.Context(), backingOff, note("no more")); err != nil {
			t.Fatal(err)
		}
		if v := p.job(backingOff); v.Status != lifecycle.JobCanceled || v.Error.Message != "no more" {
			t.Errorf("a job that backs off: %s, %v", v.Status, v.Error)
		}
		p.settled(backingOff)

		finished := p.submit(define(t, "name: f\nsteps: [{id: a, handler: echo}]\n"), "")
		p.wait(finished)
		for _, id := range []pawl.ID{pending, backingOff, finished} {
			var refusal *machine.Refusal
			if _, err := p.engine.Cancel(t.Context(), id, note("late")); !errors.As(err, &refusal) || refusal.Entity != id.Public(pawl.JobPrefix) || !slices.Equal(refusal.Allowed, []machine.Event{lifecycle.JobRedact}) {
				t.Errorf("canceling a job that has ended: %v; want a refusal that names it", err)
			}
		}
		if _, err := p.engine.Cancel(t.Context(), p.engine.NewID(), note("who?")); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("canceling no job: %v", err)
		}
		verify(t, p.store)
	})
}

func fails(context.Context, *worker.Task) worker.Result {
	return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "it failed"}}
}

// items returns a list of n numbers.
func items(n int) string {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	b, _ := json.Marshal(list)
	return fmt.Sprintf(`{"items": %s}`, b)
}

const fanOut = `
name: wide
inputs: {items: {type: array, required: true}}
steps: [{id: each, handler: h, foreach: "${{ inputs.items }}", parallel: 8}, {id: after, handler: h, needs: [each]}]
`

func TestCancelInAWideFanOut(t *testing.T) { // T1
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}})
		id := p.submit(define(t, fanOut), items(10_000))
		for range 8 {
			g.wait(t)
		}
		if _, err := p.engine.Cancel(t.Context(), id, note("too many")); err != nil {
			t.Fatal(err)
		}
		v := p.wait(id)
		if v.Status != lifecycle.JobCanceled || v.StepCounts[lifecycle.StepCancelled] != 10 || len(v.Steps) != 10 {
			t.Errorf("status %s, steps %v; want the two nodes and eight instances cancelled", v.Status, v.StepCounts)
		}
		p.settled(id)
		verify(t, p.store)
	})
}
