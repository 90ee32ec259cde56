package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func workerID(t *testing.T, w *worker.Worker) pawl.ID {
	t.Helper()
	id, err := pawl.ParseID(pawl.WorkerPrefix, w.ID())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

var byOperator = pawl.Change{Actor: "cli:ada", Reason: "new disk"}

// TestOperatorsPauseWorkers from another engine: a paused worker claims nothing more, its
// running steps complete, and it claims again as soon as it is resumed.
func TestOperatorsPauseWorkers(t *testing.T) { // J1, J9, K5
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 2})
		other, id := startProcess(t, open(), nil), workerID(t, p.worker)
		if _, err := other.engine.PauseWorker(t.Context(), id, byOperator); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("pausing an idle worker: %v; want a conflict", err)
		}
		first := p.submit(define(t, oneStep), "")
		g.wait(t)
		if _, err := other.engine.PauseWorker(t.Context(), id, byOperator); err != nil {
			t.Fatal(err)
		}
		second := p.submit(define(t, "name: second\nsteps: [{id: a, handler: h}]\n"), "")
		g.release()
		if v := p.wait(first); v.Status != lifecycle.JobCompleted {
			t.Errorf("what ran when the worker was paused: %s; want it COMPLETED", v.Status)
		}
		if v := other.job(second); v.Status != lifecycle.JobPending {
			t.Errorf("what came after the pause: %s; want it PENDING", v.Status)
		}
		if _, err := other.engine.ResumeWorker(t.Context(), id, byOperator); err != nil {
			t.Fatal(err)
		}
		if v := p.wait(second); v.Status != lifecycle.JobCompleted {
			t.Errorf("after the worker was resumed: %s; want COMPLETED", v.Status)
		}
		if _, err := other.engine.ResumeWorker(t.Context(), id, byOperator); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("resuming a worker that runs: %v; want a conflict", err)
		}
		v, err := other.engine.Worker(t.Context(), id)
		if err != nil || v.Status != lifecycle.WorkerRunning || len(v.StateHistory) != 4 || v.StateHistory[2].Actor != "cli:ada" || v.StateHistory[2].Reason != "new disk" {
			t.Errorf("the worker %+v, %v; want it RUNNING, paused by cli:ada because of a new disk before", v, err)
		}
		verify(t, p.store)
	})
}

// TestOperatorsTerminateWorkers: the step is interrupted and run by another worker, no
// attempt is lost, and the worker stops permanently and reports the operator.
func TestOperatorsTerminateWorkers(t *testing.T) { // J1, J9, T1, T5
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 1})
		id := p.submit(define(t, oneStep), "")
		g.wait(t)
		self, other := workerID(t, p.worker), startProcess(t, open(), map[string]worker.Handler{"h": echo})
		if _, err := other.engine.TerminateWorker(t.Context(), self, pawl.Change{Actor: "cli:ada"}); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("terminating without a reason: %v; want it invalid", err)
		}
		if _, err := other.engine.TerminateWorker(t.Context(), self, byOperator); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.worker.Over():
		case <-time.After(patience):
			t.Fatal("the worker works on")
		}
		var end *worker.TerminatedError
		if err := p.worker.Drain(context.Background()); !errors.As(err, &end) || end.Actor != "cli:ada" || end.Reason != "new disk" {
			t.Errorf("the worker ended with %v; want it terminated by cli:ada because of a new disk", err)
		}
		v := other.wait(id)
		if s := steps(v)["a"]; v.Status != lifecycle.JobCompleted || s.Claims != 2 || s.Attempts != 1 || *s.WorkerID != other.worker.ID() {
			t.Errorf("status %s, step %+v; want it complete by the other worker, at the first attempt", v.Status, s)
		}
		if _, err := other.engine.TerminateWorker(t.Context(), self, byOperator); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("terminating it again: %v; want a conflict", err)
		}
		list, err := other.engine.Workers(t.Context(), pawl.WorkerQuery{Statuses: []machine.State{lifecycle.WorkerTerminated}})
		if err != nil || len(list) != 1 || list[0].ID != end.Worker {
			t.Errorf("terminated are %+v, %v; want the one", list, err)
		}
		if _, err := other.engine.Worker(t.Context(), other.engine.NewID()); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("a worker that is not there: %v; want it not found", err)
		}
		verify(t, other.store)
	})
}

// TestAWorkerAlone: a worker whose engine is passive applies its reports, and enqueues and
// claims the following steps, in the same commit; there is no other process.
func TestAWorkerAlone(t *testing.T) { // T10, T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		p := passive(t, s)
		w, err := worker.Start(t.Context(), p.e, worker.Config{Handlers: map[string]worker.Handler{"h": echo}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Drain(context.Background()) })
		def := define(t, "name: chain\nsteps: [{id: a, handler: h}, {id: b, needs: [a], handler: h}, {id: c, needs: [b], handler: h}]\n")
		answers, err := p.e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test"})
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		j, err := p.e.Wait(ctx, answers[0].ID)
		if err != nil || j.State != lifecycle.JobCompleted {
			t.Fatalf("the chain: %v, %v; want it COMPLETED", j, err)
		}
		v, err := p.e.Job(t.Context(), answers[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if of := steps(v); of["a"].CompletedAt != of["b"].StartedAt || of["b"].CompletedAt != of["c"].StartedAt {
			t.Errorf("steps %+v; want each claimed in the commit that the one before it ended in", v.Steps)
		}
	})
}

// A list of workers covers all pages of the store: of four workers with half a page of
// metadata each, two fit into one page.
func TestWorkersOfSeveralPages(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		e := passive(t, open()).e
		half := json.RawMessage(`"` + strings.Repeat("x", store.PageBytes/2) + `"`)
		var want []string
		for range 4 {
			w, _, err := e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: "w", Name: "large", Capacity: 1, Metadata: half}, Actor: "test"})
			if err != nil {
				t.Fatal(err)
			}
			want = append([]string{w.ID.Public(pawl.WorkerPrefix)}, want...)
		}
		for limit, n := range map[int]int{0: 4, 3: 3} {
			list, err := e.Workers(t.Context(), pawl.WorkerQuery{Workspace: "w", Limit: limit})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list {
				got = append(got, list[i].ID)
			}
			if diff := cmp.Diff(want[:n], got); diff != "" {
				t.Errorf("limit %d, newest first (-want +got):\n%s", limit, diff)
			}
		}
	})
}

// TestAVerdictComesLate: a scan sees a worker that lives, and then the lock that it has released
// after its end. The worker stays completed.
func TestAVerdictComesLate(t *testing.T) { // J1, J9
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"h": echo})
		p.wait(p.submit(define(t, oneStep), ""))
		key := p.workerKey()
		if err := p.worker.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.engine.Bury(t.Context(), health.Death{Worker: key, Cause: health.Gone, Counts: true})
		if w, err := p.store.Worker(t.Context(), key); err != nil || w.State != lifecycle.WorkerCompleted {
			t.Errorf("the worker is %+v, %v; want it completed", w, err)
		}
	})
}
