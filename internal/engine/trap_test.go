package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

func TestBackoffAtAnyAttempt(t *testing.T) { // T7
	t.Parallel()
	for _, kind := range []string{"exponential", "linear", "constant"} {
		def := define(t, fmt.Sprintf("name: r\nsteps: [{id: a, handler: h, retry: {backoff: %s, base: 1s, cap: 60s}}]\n", kind))
		for _, attempt := range []int{-1, 0, 1, 63, 64, 65, 1 << 31, 1 << 40, math.MaxInt} {
			for _, jitter := range []float64{0, 0.5, math.Nextafter(1, 0)} {
				if d := def.Node(1).Retry.Delay(attempt, jitter); d < 0 || d > time.Minute {
					t.Errorf("%s at attempt %d: %s; want 0 to 1 m", kind, attempt, d)
				}
			}
		}
	}
}

func nop(context.Context, *worker.Task) worker.Result {
	return worker.Result{Output: json.RawMessage("1")}
}

func TestTenThousandItems(t *testing.T) { // T4, T8, WORKFLOW.md: foreach
	many := 10_000
	if raceDetector {
		many = 1_000
	}
	onStores(t, func(t *testing.T, open func() store.Store) {
		var calls atomic.Int64
		p := startProcess(t, open(), map[string]worker.Handler{"h": func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Output: json.RawMessage(fmt.Sprint(calls.Add(1)))}
		}})
		began := time.Now()
		v := p.waitFor(p.submit(define(t, fanOut), items(many)), 5*patience)
		t.Logf("%d items took %s", many, time.Since(began))
		var list []int
		if err := json.Unmarshal(steps(v)["each"].Output, &list); err != nil || len(list) != many || calls.Load() != int64(many)+1 {
			t.Errorf("status %s, %v: %d outputs of %d runs, %v; want each item run once", v.Status, v.Error, len(list), calls.Load(), err)
		}
	})
}

// TestAnOutputThatIsTooLarge: the list of a fan-out has a limit as well.
func TestAnOutputThatIsTooLarge(t *testing.T) { // T8
	onStores(t, func(t *testing.T, open func() store.Store) {
		large, _ := json.Marshal(string(make([]byte, 100_000)))
		p := startProcess(t, open(), map[string]worker.Handler{"h": func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Output: large}
		}})
		v := p.wait(p.submit(define(t, fanOut), items(3)))
		if v.Status != lifecycle.JobFailed || v.Error.Class != "output_too_large" || v.Error.Step != "each" {
			t.Errorf("status %s, error %v; want it FAILED by an output that is too large", v.Status, v.Error)
		}
	})
}

// TestTheSameRequestFromTwoEngines at the same instant makes one job.
func TestTheSameRequestFromTwoEngines(t *testing.T) { // J8
	onStores(t, func(t *testing.T, open func() store.Store) {
		engines := []*process{startProcess(t, open(), nil), startProcess(t, open(), nil)}
		def := define(t, oneStep)
		for round := range 10 {
			sub := pawl.Submission{Definition: def.Canonical(), RequestID: fmt.Sprint("round-", round), Actor: "test"}
			var mu sync.Mutex
			ids, fresh := make(map[pawl.ID]int), 0
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					a, err := engines[i%2].engine.Submit(context.Background(), sub)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || a[0].Err != nil {
						t.Errorf("submit: %v %v", a, err)
						return
					}
					ids[a[0].ID]++
					if !a[0].Replayed {
						fresh++
					}
				})
			}
			all.Wait()
			if len(ids) != 1 || fresh != 1 {
				t.Errorf("round %d: jobs %v, %d of them new; want one", round, ids, fresh)
			}
		}
		if jobs, err := engines[0].engine.Jobs(t.Context(), pawl.JobQuery{}); err != nil || len(jobs) != 10 {
			t.Errorf("%d jobs, %v; want 10", len(jobs), err)
		}
	})
}

// TestADefinitionOfAnotherEngine: neither has the other's definitions in memory.
func TestADefinitionOfAnotherEngine(t *testing.T) { // T10
	onStores(t, func(t *testing.T, open func() store.Store) {
		p, q := startProcess(t, open(), nil), startProcess(t, open(), map[string]worker.Handler{"h": nop})
		def := define(t, diamond)
		ids := []pawl.ID{p.submit(def, ""), q.submit(def, ""), p.submit(def, "")}
		for _, id := range ids {
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("status %s", v.Status)
			}
		}
		verify(t, p.store)
	})
}

func TestARestartInTheMiddle(t *testing.T) { // T10, K8
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		def := define(t, `
name: middle
steps: [{id: a, handler: h}, {id: b, handler: gate, needs: [a]}, {id: c, handler: h, needs: [b], if: "${{ steps.a.output == 1 }}"}, {id: w, handler: fail, retry: {base: 300ms, jitter: none, max_attempts: 2}}]
on_error: drain
output: ${{ steps.c.output }}
`)
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": nop, "gate": g.run, "fail": fails}})
		id := p.submit(def, "")
		g.wait(t)
		until(t, "the other step backs off", func() bool { return steps(p.job(id))["w"].NotBefore != 0 })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p.worker.Drain(ended)
		p.engine.Close()

		q := startProcess(t, open(), map[string]worker.Handler{"h": nop, "gate": nop, "fail": nop})
		v := q.wait(id)
		if v.Status != lifecycle.JobCompleted || string(v.Output) != "1" || steps(v)["w"].Attempts != 2 {
			t.Errorf("status %s, output %s, w %+v; want the job to go on where it was", v.Status, v.Output, steps(v)["w"])
		}
		q.settled(id)
		verify(t, q.store)
	})
}

func TestTimeouts(t *testing.T) { // J2, T1, K8
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{
			"hang": func(ctx context.Context, _ *worker.Task) worker.Result {
				<-ctx.Done()
				return fails(ctx, nil)
			},
			"slow": func(ctx context.Context, t *worker.Task) worker.Result {
				if t.Attempt > 1 {
					return nop(ctx, nil)
				}
				<-ctx.Done()
				return fails(ctx, nil)
			}})
		job := p.submit(define(t, "name: j\ntimeout: 200ms\nsteps: [{id: a, handler: hang}, {id: b, handler: hang, needs: [a]}]\n"), "")
		step := p.submit(define(t, "name: s\nsteps: [{id: a, handler: slow, timeout: 50ms, retry: {base: 1ms}}]\n"), "")
		v := p.wait(job)
		if v.Status != lifecycle.JobCanceled || v.Error.Message != "timeout: it took longer than 200ms" {
			t.Errorf("a job past its timeout: %s, %v; want it CANCELED by timeout", v.Status, v.Error)
		}
		p.settled(job)
		v = p.wait(step)
		if s := steps(v)["a"]; v.Status != lifecycle.JobCompleted || s.Attempts != 2 {
			t.Errorf("a step past its timeout: %s, %+v; want it tried again", v.Status, s)
		}
		rows, err := collected(t.Context(), p.engine.History, step)
		if err != nil {
			t.Fatal(err)
		}
		timeouts := 0
		for _, r := range rows {
			if r.Event == lifecycle.StepTimeout {
				timeouts++
			}
		}
		if timeouts != 1 {
			t.Errorf("%d timeouts in the trail; want 1", timeouts)
		}
		verify(t, p.store)
	})
}

// TestASlotFreedByADeadline: the engine takes a step from a deaf handler; a step that waits
// for its slot starts, though nothing else of the job reports.
func TestASlotFreedByADeadline(t *testing.T) { // J7, K8, T7
	onDatabases(t, func(t *testing.T, db *database) {
		g := newGate(true)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"deaf": g.run, "h": nop}})
		id := p.submit(define(t, `
name: slots
workers: 1
on_error: drain
steps: [{id: a, handler: deaf, timeout: 1m, retry: {max_attempts: 1}}, {id: b, handler: deaf2}, {id: c, handler: h, needs: [b]}]
`), "")
		q := start(t, db.open(), setup{handlers: map[string]worker.Handler{"deaf": g.run, "deaf2": nop, "h": nop}})
		g.wait(t)
		db.elapse(10 * time.Minute) // past the timeout; no worker seems silent yet
		v := q.wait(id)
		if v.Status != lifecycle.JobFailed || steps(v)["a"].Status != lifecycle.StepPermanentError || steps(v)["c"].Status != lifecycle.StepComplete {
			t.Errorf("status %s, steps %v; want a failed and the other branch at its end", v.Status, v.StepCounts)
		}
		q.settled(id)
	})
}

// TestAReportToAnEngineThatKnowsNothing: its memory has forgotten the job.
func TestAReportToAnEngineThatKnowsNothing(t *testing.T) { // J7, T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		id := p.submit(define(t, "name: two\nworkers: 1\nsteps: [{id: a, handler: h}, {id: b, handler: h}]\n"), "")
		h := p.hand("h")
		a := h.claim(1)[0]
		q := startProcess(t, open(), nil)
		if _, err := q.engine.Exchange(t.Context(), link.Exchange{Worker: h.worker, Reports: []link.Report{success(a)}}); err != nil {
			t.Fatal(err)
		}
		var next []link.Assignment
		until(t, "the second step gets the slot", func() bool {
			next = h.exchange(1)
			return len(next) == 1
		})
		h.exchange(0, success(next[0]))
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", v.Status)
		}
		p.settled(id)
	})
}

// TestHintsReachTheOtherProcess: without hints, both would scan only every minute.
func TestHintsReachTheOtherProcess(t *testing.T) { // T3, T10
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		e := engine.New(engine.Config{Store: s, Poll: time.Minute})
		w, err := worker.Start(t.Context(), e, worker.Config{Handlers: map[string]worker.Handler{"h": nop}, Poll: time.Minute, Beat: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			w.Drain(context.Background())
			e.Close()
		})
		p := startProcess(t, db.open(), nil)
		for range 5 {
			if v := p.wait(p.submit(define(t, diamond), "")); v.Status != lifecycle.JobCompleted {
				t.Errorf("status %s", v.Status)
			}
		}
	})
}

// TestPendingUntilAWorkerComes, even if the first steps are of two kinds.
func TestPendingUntilAWorkerComes(t *testing.T) { // J7
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"other": nop})
		one := p.submit(define(t, oneStep), "")
		two := p.submit(define(t, "name: mixed\nsteps: [{id: a, handler: h}, {id: b, handler: k}, {id: c, handler: h, needs: [a, b]}]\n"), "")
		busy := p.submit(define(t, "name: busy\nsteps: [{id: a, handler: other}]\n"), "")
		p.wait(busy)
		h := startProcess(t, open(), map[string]worker.Handler{"h": nop})
		if v := p.wait(one); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job of one kind: %s", v.Status)
		}
		if v := h.job(two); v.Status != lifecycle.JobPending {
			t.Errorf("one of its two handlers is served, and the job is %s; want PENDING", v.Status)
		}
		startProcess(t, open(), map[string]worker.Handler{"k": nop})
		if v := p.wait(two); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job of two kinds: %s", v.Status)
		}
		verify(t, p.store)
	})
}

func TestWorkersBoundTheStepsInProgress(t *testing.T) { // J7
	onStores(t, func(t *testing.T, open func() store.Store) {
		var now, most atomic.Int64
		work := func(ctx context.Context, task *worker.Task) worker.Result {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return nop(ctx, task)
		}
		var p *process
		for range 2 {
			p = start(t, open(), setup{handlers: map[string]worker.Handler{"h": work}, capacity: 20})
		}
		src := "name: bounded\nworkers: 3\nsteps:\n  - {id: each, handler: h, foreach: \"${{ [1, 2, 3, 4, 5, 6, 7, 8, 9] }}\"}\n"
		for i := range 12 {
			src += fmt.Sprintf("  - {id: n%d, handler: h}\n", i)
		}
		id := p.submit(define(t, src), "")
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || most.Load() > 3 {
			t.Errorf("status %s, %d steps at once; want 3 at most", v.Status, most.Load())
		}
		p.settled(id)
	})
}

func TestAPausedWorkerTakesNothing(t *testing.T) { // J1, J9
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"gate": g.run, "h": nop}})
		running := p.submit(define(t, "name: r\nsteps: [{id: a, handler: gate}, {id: b, handler: h, needs: [a]}]\n"), "")
		g.wait(t)
		if err := p.engine.MoveWorker(t.Context(), p.workerKey(), lifecycle.WorkerPause, workerNote("hold on")); err != nil {
			t.Fatal(err)
		}
		waiting := p.submit(define(t, oneStep), "")
		g.release()
		until(t, "the running step ends", func() bool { return steps(p.job(running))["a"].Status == lifecycle.StepComplete })
		if _, err := p.engine.Exchange(t.Context(), link.Exchange{Worker: p.self(), Free: 10}); err != nil {
			t.Fatal(err)
		}
		if a, b := p.job(waiting), steps(p.job(running))["b"]; a.Status != lifecycle.JobPending || b.Status != lifecycle.StepEnqueued {
			t.Errorf("while it is paused the job is %s and the next step %s; want PENDING and enqueued", a.Status, b.Status)
		}
		if err := p.engine.MoveWorker(t.Context(), p.workerKey(), lifecycle.WorkerResume, workerNote("go on")); err != nil {
			t.Fatal(err)
		}
		for _, id := range []pawl.ID{running, waiting} {
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("after it resumed: %s", v.Status)
			}
		}
		verify(t, p.store)
	})
}

// self returns the record of the process's worker.
func (p *process) self() *pawl.Worker {
	p.t.Helper()
	w, err := p.store.Worker(p.t.Context(), p.workerKey())
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

// TestManyJobsThatNobodyServes must not hide one that can start.
func TestManyJobsThatNobodyServes(t *testing.T) { // J7
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		p.submitMany(define(t, "name: nobody\nsteps: [{id: a, handler: no}, {id: b, handler: body}]\n"), 450)
		id := p.submit(define(t, "name: somebody\nsteps: [{id: a, handler: h}, {id: b, handler: k}]\n"), "")
		q := startProcess(t, open(), map[string]worker.Handler{"h": nop, "k": nop})
		if v := q.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", v.Status)
		}
	})
}

// TestARegistrationIsTriedAgain with the same request.
func TestARegistrationIsTriedAgain(t *testing.T) { // K5, K6
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		p := startProcess(t, storetest.NewFaulty(s, storetest.Script(storetest.Unknown)), nil)
		h := p.hand("h")
		if h.worker.Seq != 1 || h.worker.State != lifecycle.WorkerIdle {
			t.Errorf("the worker is at %d, %s; want 1, IDLE", h.worker.Seq, h.worker.State)
		}
		verify(t, s)
	})
}
