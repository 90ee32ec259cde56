package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// TestQueuesAndCounts: what is in flight, by queue and by state, beside what has ended (J4).
func TestQueuesAndCounts(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run, "echo": echo}, capacity: 5})
		p.wait(p.submit(define(t, "name: e\nsteps: [{id: a, handler: echo}]\n"), ""))
		far := p.submit(define(t, "name: far\nsteps: [{id: a, handler: echo}, {id: b, handler: train, queue: gpu, needs: [a]}]\n"), "")
		until(t, "b is enqueued", func() bool { return p.state(far, "b") == string(lifecycle.StepEnqueued) })
		must(t, p.engine.SetQuotas(t.Context(), []pawl.Quota{{Name: "queue/default", Slots: 1}, {Name: "queue/idle", Slots: 2}}, note("few")))
		id := p.submit(define(t, "name: n\nsteps: [{id: w, handler: h, foreach: \"${{ [1, 2, 3] }}\"}]\n"), "")
		g.wait(t)
		until(t, "two instances are enqueued", func() bool { return p.job(id).StepCounts[lifecycle.StepEnqueued] == 2 })

		queues, err := p.engine.Queues(t.Context(), "")
		must(t, err)
		oldest := make(map[string]pawl.Timestamp)
		for i := range queues {
			oldest[queues[i].Name], queues[i].Oldest = queues[i].Oldest, 0
		}
		one, two := 1, 2
		want := []pawl.QueueView{
			{Name: "default", Workspace: "default", Depth: 2, Running: 1, Limit: &one, Workers: 1},
			{Name: "gpu", Workspace: "default", Depth: 1},
			{Name: "idle", Workspace: "default", Limit: &two},
		}
		if diff := cmp.Diff(want, queues); diff != "" {
			t.Errorf("queues (-want +got):\n%s", diff)
		}
		made := p.job(id).CreatedAt
		if at := oldest["gpu"]; at < p.job(far).CreatedAt || at > made || oldest["default"] < made || oldest["idle"] != 0 {
			t.Errorf("oldest %v; the job of gpu was made at %v, the other at %v", oldest, p.job(far).CreatedAt, made)
		}
		if of, err := p.engine.Queues(t.Context(), "other"); err != nil || of == nil || len(of) > 0 {
			t.Errorf("queues of another workspace: %v, %v", of, err)
		}

		type counts = map[machine.State]int
		inFlight := &pawl.Counts{ActiveJobs: 2,
			Workers: counts{lifecycle.WorkerRunning: 1},
			Jobs:    counts{lifecycle.JobRunning: 2, lifecycle.JobCompleted: 1},
			Steps:   counts{lifecycle.StepEnqueued: 3, lifecycle.StepInProgress: 2}, // an instance, and the fan-out itself
		}
		for workspace, want := range map[string]*pawl.Counts{"": inFlight, "default": inFlight, "other": {Workers: counts{}, Jobs: counts{}, Steps: counts{}}} {
			got, err := p.engine.Counts(t.Context(), workspace)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("counts of %q (-want +got):\n%s", workspace, diff)
			}
		}
	})
}
