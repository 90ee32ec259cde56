package engine_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestWhatWaitsHidesNoMarks: more jobs than one scan finds are being cancelled, and wait
// for the hooks of their children, for which there is no worker. Marks of another process
// are still found, and the jobs end once there is a worker.
func TestWhatWaitsHidesNoMarks(t *testing.T) { // K8, J6
	onShared(t, func(t *testing.T, db *database) {
		const parents = 210
		p := startProcess(t, db.open(), nil)
		p.register(define(t, "name: leaf\nsteps: [{id: nap, sleep: 1h}]\nhooks: {always: [{id: tidy, handler: missing}]}\n"))
		def := define(t, "name: parent\nsteps: [{id: down, workflow: leaf}]\n")
		var ids []pawl.ID
		for range parents {
			ids = append(ids, p.submit(def, ""))
		}
		enqueued := func() (n int) {
			byRoute, _, err := p.store.InFlight(t.Context())
			must(t, err)
			for _, of := range byRoute {
				n += of
			}
			return n
		}
		until(t, "all naps are taken", func() bool {
			_, running, err := p.store.InFlight(t.Context())
			must(t, err)
			return running[0] == 2*parents
		})
		for _, id := range ids {
			must(t, errorOf(p.engine.Cancel(t.Context(), id, note("enough"))))
		}
		until(t, "all hooks are enqueued", func() bool { return enqueued() == parents })
		other := startPassive(t, db.open(), map[string]worker.Handler{"h": nop})
		id := other.submit(define(t, "name: new\nsteps: [{id: a, handler: h}, {id: b, needs: [a], if: true, handler: h}]\n"), "")
		if v := other.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the new job is %s", v.Status)
		}
		until(t, "what waits is not marked", func() bool {
			a, err := p.store.Look(t.Context(), store.LookQuery{Limit: 1000})
			must(t, err)
			return len(a.Marked) == 0
		})
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"missing": nop}, Capacity: 20})
		for _, id := range ids {
			if v := p.wait(id); v.Status != lifecycle.JobCanceled {
				t.Errorf("a parent is %s", v.Status)
			}
			p.settledAll(id)
		}
	})
}

// startPassive starts a worker in a process that leaves marks and deadlines to others.
func startPassive(t *testing.T, s store.Store, handlers map[string]worker.Handler) *process {
	t.Helper()
	p := &process{t: t, store: s, config: setup{handlers: handlers, silence: time.Hour}}
	p.engine = engine.New(engine.Config{Store: s, Passive: true, Silence: time.Hour})
	p.startWorker()
	t.Cleanup(p.stop)
	return p
}

// TestWhatFailsIsPutOff: a mark that cannot be evaluated is retried after growing waits,
// and evaluated once that is possible.
func TestWhatFailsIsPutOff(t *testing.T) { // K8
	onShared(t, func(t *testing.T, db *database) {
		other := startPassive(t, db.open(), map[string]worker.Handler{"h": nop})
		id := other.submit(define(t, "name: w\nsteps: [{id: a, handler: h}, {id: b, needs: [a], if: true, handler: h}]\n"), "")
		marked := func() *pawl.Step {
			list, err := other.store.Marked(t.Context(), id.JobKey())
			must(t, err)
			if len(list) == 0 {
				return nil
			}
			return list[0]
		}
		until(t, "a step is marked", func() bool { return marked() != nil })
		if s := marked(); s.MarkAt < s.CreatedAt || s.MarkTries != 0 {
			t.Errorf("a new mark is of %d, after %d tries; want it due", s.MarkAt, s.MarkTries)
		}
		db.sql("update definition set id = id + 1")
		p := startProcess(t, db.open(), nil)
		until(t, "it was tried three times", func() bool { return marked().MarkTries >= 3 })
		a, err := p.store.Look(t.Context(), store.LookQuery{Limit: 10})
		must(t, err)
		if s := marked(); s.MarkAt-a.Now > (800*3/2*time.Millisecond).Microseconds() && s.MarkTries == 3 {
			t.Errorf("after %d tries it is put off to %d us from now", s.MarkTries, s.MarkAt-a.Now)
		}
		db.sql("update definition set id = id - 1")
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
		p.settled(id)
	})
}
