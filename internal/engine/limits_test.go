package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// limit sets quotas: "depth/0", 2, "queue/slow", 1 and so on.
func (p *process) limit(pairs ...any) {
	p.t.Helper()
	var set []pawl.Quota
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, pawl.Quota{Name: pairs[i].(string), Slots: pairs[i+1].(int)})
	}
	must(p.t, p.engine.SetQuotas(p.t.Context(), set, note("limits")))
}

// hierarchy sets the preset.
func (p *process) hierarchy() {
	p.t.Helper()
	for depth, slots := range engine.Hierarchy {
		p.limit(fmt.Sprintf("depth/%d", depth), slots)
	}
}

// unused checks that every slot of every limit has been returned (J7).
func (p *process) unused() {
	p.t.Helper()
	for name, used := range p.usage() {
		if used != 0 {
			p.t.Errorf("%d slots of %s are taken, and nothing runs", used, name)
		}
	}
}

// A meter counts how many runs of a name overlap, and the maximum.
type meter struct {
	mu        sync.Mutex
	now, most map[string]int
}

func newMeter() *meter { return &meter{now: make(map[string]int), most: make(map[string]int)} }

func (m *meter) add(name string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now[name] += n
	m.most[name] = max(m.most[name], m.now[name])
}

func (m *meter) peak(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.most[name]
}

// during counts while a handler runs; it yields, so that others run in between.
func (m *meter) during(name string) {
	m.add(name, 1)
	defer m.add(name, -1)
	time.Sleep(time.Millisecond) // work, not a wait: the counted runs have to overlap
}

// TestTheHierarchyNeverDeadlocks: workers of capacity 1, and more families than the quotas
// have slots: a step that waits for a child holds no worker, and a job that finds no slot
// blocks no other.
func TestTheHierarchyNeverDeadlocks(t *testing.T) { // J7, T1
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 1})
		other := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 1})
		p.hierarchy()
		def := define(t, deep)
		p.register(def)
		var ids []pawl.ID
		for range 12 {
			ids = append(ids, p.submit(def, `{"n": 5}`))
		}
		for _, id := range ids {
			for name, used := range p.usage() {
				if slots := engine.Hierarchy[name[len("depth/")]-'0']; used > slots {
					t.Errorf("%d slots of %s are taken; there are %d", used, name, slots)
				}
			}
			if v := other.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a family is %s (%v)", v.Status, v.Error)
			}
		}
		p.unused()
		verify(t, p.store)
	})
}

// TestAFullDepthStandsInNobodysWay: a worker of capacity 1 sees one pending job
// at a time; the oldest have no slot, and those behind them still start.
func TestAFullDepthStandsInNobodysWay(t *testing.T) { // J7
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 1})
		p.limit("depth/1", 1)
		leaf := define(t, "name: leaf\nworkers: 1\nsteps: [{id: a, handler: h}, {id: told, needs: [a], event: {name: go_on}}]\n")
		p.register(leaf)
		top := define(t, "name: top\nsteps: [{id: each, foreach: [1, 2, 3, 4], workflow: leaf}]\n")
		id := p.submit(top, "")
		until(t, "one child runs, the others wait", func() bool { return p.usage()["depth/1"] == 1 && len(p.job(id).ChildJobs) == 4 })
		behind := p.submit(define(t, "name: behind\nsteps: [{id: a, handler: h}]\n"), "")
		if v := p.wait(behind); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job behind them is %s", v.Status)
		}
		for range 4 {
			p.tellOneChild(id)
		}
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s (%v)", v.Status, v.Error)
		}
		p.unused()
		verify(t, p.store)
	})
}

// tellOneChild waits until a child runs, lets it continue, and waits until it has.
func (p *process) tellOneChild(id pawl.ID) {
	p.t.Helper()
	var child pawl.ID
	until(p.t, "a child runs", func() bool {
		for _, v := range p.family(id) {
			if v.Status == lifecycle.JobRunning && steps(v)["told"].Status == lifecycle.StepInProgress {
				child, _ = pawl.ParseID(pawl.JobPrefix, v.ID)
				return true
			}
		}
		return false
	})
	must(p.t, errorOf(p.engine.Signal(p.t.Context(), child, "go_on", nil, ann)))
	p.wait(child)
}

// TestAQuotaThatChanges: lowered, it ends nothing; raised, it lets more start.
func TestAQuotaThatChanges(t *testing.T) { // J7
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		p.limit("depth/0", 2)
		def := define(t, "name: w\nworkers: 1\nsteps: [{id: a, handler: h}, {id: told, event: {name: go_on}}]\n")
		var ids []pawl.ID
		for range 5 {
			ids = append(ids, p.submit(def, ""))
		}
		running := func() (n int) {
			for _, id := range ids {
				if p.job(id).Status == lifecycle.JobRunning {
					n++
				}
			}
			return n
		}
		until(t, "two run", func() bool { return running() == 2 })
		p.limit("depth/0", 1)
		if n, used := running(), p.usage()["depth/0"]; n != 2 || used != 2 {
			t.Errorf("%d run and %d slots are taken after the quota was lowered; want both to go on", n, used)
		}
		p.limit("depth/0", 4)
		until(t, "four run", func() bool { return running() == 4 })
		p.limit("depth/0", -1)
		until(t, "all run", func() bool { return running() == 5 })
		for _, id := range ids {
			must(t, errorOf(p.engine.Signal(t.Context(), id, "go_on", nil, ann)))
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s", v.Status)
			}
		}
		p.limit("depth/0", 1)
		p.unused()
		verify(t, p.store)
	})
}

// TestSlotsComeBack in every case: success, failure, cancel, a timeout, and a worker that
// is considered dead.
func TestSlotsComeBack(t *testing.T) { // J7, J9, T1
	onShared(t, func(t *testing.T, db *database) {
		r := rand.New(rand.NewPCG(seed(t), 1))
		handlers := map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			time.Sleep(time.Millisecond) // work
			return nop(ctx, task)
		}, "fail": fails, "hang": func(ctx context.Context, _ *worker.Task) worker.Result {
			<-ctx.Done()
			return worker.Result{Failure: &pawl.Failure{Class: "stopped", Message: context.Cause(ctx).Error()}}
		}}
		var procs []*process
		for range 3 {
			p := start(t, db.open(), setup{})
			p.worker = p.serve(worker.Config{Handlers: handlers, Capacity: 3, Queues: []string{"default", "slow"}})
			procs = append(procs, p)
		}
		p := procs[0]
		p.hierarchy()
		p.limit("queue/slow", 2)
		p.register(define(t, "name: leaf\nworkers: 2\nsteps: [{id: a, handler: h, queue: slow}, {id: nap, sleep: 5ms}]\n"))
		sources := []string{
			"steps: [{id: a, handler: h, queue: slow}, {id: b, handler: h, needs: [a]}]",
			"steps: [{id: a, handler: h}, {id: b, handler: fail, queue: slow, retry: {max_attempts: 2, base: 1ms}, needs: [a]}]",
			"timeout: 50ms\nsteps: [{id: a, handler: hang, queue: slow}]",
			"steps: [{id: each, foreach: [1, 2, 3], handler: h, queue: slow}, {id: sub, workflow: leaf}]",
			"concurrency: {limit: 2}\nsteps: [{id: sub, workflow: leaf}, {id: bad, needs: [sub], handler: fail, retry: {max_attempts: 1}}]",
			"steps: [{id: a, handler: hang, timeout: 30ms, queue: slow, retry: {max_attempts: 1}}]",
		}
		var ids []pawl.ID
		var cancels sync.WaitGroup
		for i := range 48 {
			kind := r.IntN(len(sources))
			id := procs[i%3].submit(define(t, fmt.Sprintf("name: w%d\nworkers: %d\n%s\n", kind, 1+r.IntN(3), sources[kind])), "")
			ids = append(ids, id)
			if r.IntN(4) == 0 {
				after := time.Duration(r.IntN(200)) * time.Millisecond
				cancels.Go(func() { cancelLater(t, procs[(i+1)%3], id, after) })
			}
			if i == 20 || i == 40 {
				must(t, p.engine.Terminate(t.Context(), procs[1].workerKey(), decide.Note{Reason: "taken for dead"}))
			}
		}
		cancels.Wait()
		ends := make(map[machine.State]int)
		for _, id := range ids {
			ends[p.wait(id).Status]++
			p.settledAll(id)
		}
		t.Log(ends)
		p.unused()
		for i := range sources {
			pool := keyPool(define(t, fmt.Sprintf("name: w%d\nsteps: []\n", i)), "")
			if used, err := p.store.Usage(t.Context(), []store.Pool{pool}); err != nil || used[pool] != 0 {
				t.Errorf("%d slots of the key of w%d are taken, %v", used[pool], i, err)
			}
		}
		verify(t, p.store)
	})
}

// TestAQueueLimitHolds: three workers on two engines race for the slots of a queue, and
// never hold more at once than it has.
func TestAQueueLimitHolds(t *testing.T) { // J7
	onShared(t, func(t *testing.T, db *database) {
		m := newMeter()
		handlers := map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			m.during(task.Workflow)
			return nop(ctx, task)
		}}
		one, two := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		one.limit("queue/narrow", 2)
		for _, p := range []*process{one, one, two} {
			p.serve(worker.Config{Handlers: handlers, Capacity: 5, Queues: []string{"narrow", "default"}})
		}
		narrow := define(t, "name: narrow\ninputs: {items: {type: array}}\nsteps: [{id: each, foreach: \"${{ inputs.items }}\", handler: h, queue: narrow}]\n")
		wide := define(t, "name: wide\nsteps: [{id: each, foreach: [1, 2, 3, 4, 5, 6, 7, 8], handler: h}]\n")
		ids := []pawl.ID{one.submit(narrow, items(40)), two.submit(narrow, items(40)), one.submit(wide, ""), two.submit(wide, "")}
		for _, id := range ids {
			if v := one.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s (%v)", v.Status, v.Error)
			}
		}
		if most := m.peak("narrow"); most > 2 {
			t.Errorf("%d steps of the queue ran at once; its limit is 2", most)
		}
		one.unused()
		verify(t, one.store)
	})
}

// TestAFullQueueStarvesNoOther: behind many steps of a full queue those of
// another are found, by a worker of capacity 1 that serves both.
func TestAFullQueueStarvesNoOther(t *testing.T) { // J7
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{})
		p.limit("queue/full", 1)
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"block": g.run}, Queues: []string{"full"}})
		block := p.submit(define(t, "name: block\nsteps: [{id: a, handler: block, queue: full}]\n"), "")
		g.wait(t)
		many := p.submit(define(t, "name: many\ninputs: {items: {type: array}}\nsteps: [{id: a, handler: h}, {id: each, needs: [a], foreach: \"${{ inputs.items }}\", handler: h, queue: full}]\n"), items(30))
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"h": nop}, Capacity: 1, Queues: []string{"full", "default"}})
		p.see(many, "each", func(s *pawl.StepView) bool { return s.Instances != nil && s.Instances.Live == 10 })
		behind := p.submit(define(t, "name: behind\nsteps: [{id: a, handler: h}, {id: b, handler: h, needs: [a]}]\n"), "")
		if v := p.wait(behind); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job of the other queue is %s", v.Status)
		}
		if v := p.job(many); v.StepCounts[lifecycle.StepComplete] != 1 {
			t.Errorf("steps of the full queue: %v", v.StepCounts)
		}
		g.release()
		for _, id := range []pawl.ID{block, many} {
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job of the full queue is %s", v.Status)
			}
		}
		p.unused()
		verify(t, p.store)
	})
}

// TestAQueueIsFreeWhileStepsWait: a step that waits for a child in the same
// queue holds no slot of it.
func TestAQueueIsFreeWhileStepsWait(t *testing.T) { // J7, T1
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		p.limit("queue/q", 1)
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"h": nop}, Capacity: 1, Queues: []string{"q"}})
		p.register(define(t, "name: leaf\nsteps: [{id: a, handler: h, queue: q}]\n"))
		def := define(t, "name: top\nsteps: [{id: a, handler: h, queue: q}, {id: sub, needs: [a], workflow: leaf}, {id: b, needs: [sub], handler: h, queue: q}]\n")
		for _, id := range []pawl.ID{p.submit(def, ""), p.submit(def, ""), p.submit(def, "")} {
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s (%v)", v.Status, v.Error)
			}
		}
		p.unused()
		verify(t, p.store)
	})
}

// TestConcurrencyKeys: never more jobs of a key run than its limit, all finish, and a full
// key does not hold up another.
func TestConcurrencyKeys(t *testing.T) { // J7, T12
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		m := newMeter()
		handlers := map[string]worker.Handler{"block": g.run, "h": func(ctx context.Context, task *worker.Task) worker.Result {
			key := strings.Split(string(task.Input()), `"`)[5]
			m.during(key)
			return nop(ctx, task)
		}}
		procs := []*process{start(t, db.open(), setup{handlers: handlers}), start(t, db.open(), setup{handlers: handlers})}
		def := define(t, "name: keyed\ninputs: {key: {}, block: {type: boolean, default: false}}\nconcurrency: {key: \"of ${{ inputs.key }}\", limit: 2}\n"+
			"steps: [{id: a, if: \"!inputs.block\", handler: h}, {id: b, if: \"inputs.block\", handler: block}]\n")
		held := []pawl.ID{procs[0].submit(def, `{"key": "z", "block": true}`), procs[1].submit(def, `{"key": "z", "block": true}`)}
		g.wait(t)
		g.wait(t)
		third := procs[0].submit(def, `{"key": "z"}`)
		var ids []pawl.ID
		for i := range 30 {
			ids = append(ids, procs[i%2].submit(def, fmt.Sprintf(`{"key": "%c"}`, 'a'+i%3)))
		}
		for _, id := range ids {
			if v := procs[0].wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s (%v)", v.Status, v.Error)
			}
		}
		if v := procs[0].job(third); v.Status != lifecycle.JobPending {
			t.Errorf("the third of a full key is %s; want PENDING", v.Status)
		}
		for _, key := range []string{"a", "b", "c"} {
			if most := m.peak(key); most > 2 {
				t.Errorf("%d jobs of key %s at once; the limit is 2", most, key)
			}
		}
		g.release()
		for _, id := range append(held, third) {
			procs[0].wait(id)
		}
		for _, key := range []string{"a", "z"} {
			pool := keyPool(def, "of "+key)
			if used, err := procs[0].store.Usage(t.Context(), []store.Pool{pool}); err != nil || used[pool] != 0 {
				t.Errorf("%d slots of key %s are taken, %v", used[pool], key, err)
			}
		}
		verify(t, procs[0].store)
	})
}

// TestPriorityAges: each point is worth a minute of waiting, and no more.
func TestPriorityAges(t *testing.T) { // T1, WORKFLOW.md: priority
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		var mu sync.Mutex
		var order []string
		h := func(ctx context.Context, task *worker.Task) worker.Result {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, task.Key)
			return nop(ctx, task)
		}
		g := newGate(false)
		defer g.release()
		w := p.serve(worker.Config{Handlers: map[string]worker.Handler{"block": g.run}, Capacity: 1})
		def := define(t, `
name: order
steps:
  - {id: begin, handler: block}
  - {id: plain, needs: [begin], handler: h}
  - {id: urgent, needs: [begin], handler: h, priority: 5}
  - {id: low, needs: [begin], handler: h, priority: -3}
  - {id: old_low, needs: [begin], handler: h, priority: -3}
  - {id: old, needs: [begin], handler: h}
`)
		id := p.submit(def, "")
		g.wait(t)
		g.release()
		until(t, "all are in the queue", func() bool { return p.job(id).StepCounts[lifecycle.StepEnqueued] == 5 })
		must(t, w.Drain(t.Context()))
		// Some came earlier: old by 4 minutes, which is less than 5 points are worth, and
		// old_low by 4, which is more than 3.
		for key, minutes := range map[string]int{"old": 4, "old_low": 4} {
			ord, err := def.OrdOf(key)
			must(t, err)
			db.sql(fmt.Sprintf("update step set rank = rank - %d where job = %d and ord = %d", minutes*60_000_000, id.JobKey(), ord))
		}
		p.serve(worker.Config{Handlers: map[string]worker.Handler{"h": h}, Capacity: 1})
		p.wait(id)
		if got := strings.Join(order, " "); got != "urgent old old_low plain low" {
			t.Errorf("they ran in the order %s", got)
		}
		verify(t, p.store)
	})
}

// TestAQueueTimeoutIsAnAttempt: a step that no worker takes in time is retried as often as
// after any other failure.
func TestAQueueTimeoutIsAnAttempt(t *testing.T) { // T1
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		id := p.submit(define(t, "name: w\nsteps: [{id: a, handler: h}, {id: b, needs: [a], handler: nobody, queue: nowhere, queue_timeout: 20ms, retry: {max_attempts: 3, base: 1ms}}]\n"), "")
		v := p.wait(id)
		if s := steps(v)["b"]; v.Status != lifecycle.JobFailed || s.Attempts != 3 || s.Claims != 0 || s.Error.Message != "no worker took it within 20ms" {
			t.Errorf("the job is %s, its step %+v (%v)", v.Status, s, s.Error)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestAQueueIsServedByItsWorkers alone.
func TestAQueueIsServedByItsWorkers(t *testing.T) { // T3
	onShared(t, func(t *testing.T, db *database) {
		var wrong atomic.Int64
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			wrong.Add(1)
			return nop(ctx, task)
		}}})
		w := p.serve(worker.Config{Handlers: map[string]worker.Handler{"h": nop}, Queues: []string{"billing"}})
		v := p.wait(p.submit(define(t, "name: w\nsteps: [{id: a, handler: h, queue: billing}, {id: b, needs: [a], handler: h, queue: billing, priority: 5}]\n"), ""))
		if s := steps(v)["b"]; v.Status != lifecycle.JobCompleted || wrong.Load() != 0 || *s.WorkerID != w.ID() {
			t.Errorf("the job is %s, %d steps ran on the worker of another queue", v.Status, wrong.Load())
		}
	})
}

// TestAnyWorkersFitTheirDepth: a workflow that does not set its number of workers gets the
// maximum or, if a quota is smaller, the quota; one that requests more than the quota
// waits.
func TestAnyWorkersFitTheirDepth(t *testing.T) { // J7
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		p.limit("depth/0", 3)
		job := p.wait(p.submit(define(t, "name: any\nsteps: [{id: a, handler: h}]\n"), `{}`))
		if job.Status != lifecycle.JobCompleted || job.WorkerCount != 3 {
			t.Errorf("the job is %s with %d workers, want COMPLETED with 3", job.Status, job.WorkerCount)
		}
		greedy := p.submit(define(t, "name: greedy\nworkers: 4\nsteps: [{id: a, handler: h}]\n"), `{}`)
		p.wait(p.submit(define(t, "name: any\nsteps: [{id: a, handler: h}]\n"), `{}`))
		if v := p.job(greedy); v.Status != lifecycle.JobPending {
			t.Errorf("a job of 4 workers is %s where there are 3 slots", v.Status)
		}
		p.limit("depth/0", 4)
		if v := p.wait(greedy); v.Status != lifecycle.JobCompleted || v.WorkerCount != 4 {
			t.Errorf("it is %s with %d workers by now", v.Status, v.WorkerCount)
		}
		p.unused()
	})
}
