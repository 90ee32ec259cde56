package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var poolTests = []test{
	{name: "J7/PoolsCount", run: poolCounts},
	{name: "J7/PoolsNotStored", run: poolsFollow},
	{name: "J7/PoolsSerialised", run: poolsSerialised},
	{name: "J7/PoolsSerialisedByTwoHandles", run: poolsSerialisedByTwo, shared: true},
	{name: "J7/PoolsNewPool", run: poolsNew},
	{name: "J7/PendingIn", run: pendingIn},
	{name: "J7/Quotas", run: quotas},
	{name: "J4/Reservations", run: reservations},
}

// Pools with one key, one of each kind: the kinds do not mix although keys are equal.
var (
	jobPool   = store.Pool{Kind: store.PoolJobs, Key: 1<<62 + 7}
	quotaPool = store.Pool{Kind: store.PoolQuota, Key: 1<<62 + 7}
	stepPool  = store.Pool{Kind: store.PoolSteps, Key: 1<<62 + 7}
)

// taken checks the slots of pools, in a transaction and in the view.
func (e *env) taken(want map[store.Pool]int) {
	e.Helper()
	var pools []store.Pool
	for p := range want {
		pools = append(pools, p)
	}
	e.diff("slots taken", want, e.see(&store.Query{Pools: append(pools, pools...)}).Pools)
	usage, err := e.st.Usage(e.ctx, pools)
	e.ok(err)
	e.diff("usage", want, usage)
}

// poolCounts: running records take slots, waiting and ended ones do not.
func poolCounts(e *env) {
	running := func(workers int, pool, quota rowkey.Pool) made {
		return e.add(3, func(m made, b *Batch) {
			m.job.Pool, m.job.Quota, m.job.WorkerCount = pool, quota, workers
			for i, s := range m.steps {
				s.Pool = []rowkey.Pool{stepPool.Key, stepPool.Key, 9}[i]
			}
			claimed(1)(m, b)
		})
	}
	running(5, jobPool.Key, quotaPool.Key)
	running(3, 9, quotaPool.Key)
	running(2, 0, 0)
	e.add(2, func(m made, b *Batch) { // enqueued steps of a job that takes no slot
		enqueued(1, 0)(m, b)
		m.steps[0].Pool, m.steps[1].Pool = stepPool.Key, 9
	})
	for _, event := range []machine.Event{lifecycle.JobPause, lifecycle.JobCancel} { // jobs that wait, or have ended
		e.add(1, func(m made, b *Batch) {
			m.job.Pool, m.job.Quota, m.steps[0].Pool = jobPool.Key, quotaPool.Key, stepPool.Key
			b.MoveJob(m.job, event)
		})
	}
	e.taken(map[store.Pool]int{jobPool: 1, quotaPool: 8, stepPool: 6, {Kind: store.PoolJobs, Key: 9}: 1,
		{Kind: store.PoolQuota, Key: 9}: 0, {Kind: store.PoolSteps, Key: 9}: 3, {Kind: store.PoolSteps, Key: 10}: 0})
}

// pendingIn: the jobs that wait for a slot of a pool, in the order of their ranks.
func pendingIn(e *env) {
	waiting := func(pool rowkey.Pool, rank int64, paused bool) rowkey.Job {
		return e.add(1, func(m made, _ *Batch) { m.job.Pool, m.job.Rank, m.job.Paused = pool, rank, paused }).key()
	}
	second, first := waiting(jobPool.Key, 20, false), waiting(jobPool.Key, 10, false)
	waiting(jobPool.Key, 5, true)
	waiting(9, 1, false)
	e.add(1, func(m made, b *Batch) {
		m.job.Pool = jobPool.Key
		claimed(1)(m, b)
	})
	third := waiting(jobPool.Key, 20, false)
	for limit, want := range map[int][]rowkey.Job{1: {first, second, third}, 2: {first, second, third}, 10: {first, second, third}} {
		var got []rowkey.Job
		for after, more := (store.Ranked{}), true; more; {
			page, err := e.st.PendingIn(e.ctx, jobPool.Key, after, limit)
			e.ok(err)
			for _, r := range page {
				got, after = append(got, r.Job), r
			}
			more = len(page) == limit
		}
		e.diff("pending in the pool", want, got)
	}
	got, err := e.st.PendingIn(e.ctx, 10, store.Ranked{}, 10)
	e.ok(err)
	e.diff("pending in another pool", 0, len(got))
}

// poolsFollow: any end of its holder frees a slot, and any start takes one: there is no other
// count to maintain.
func poolsFollow(e *env) {
	m := e.add(1, func(m made, _ *Batch) {
		m.job.Pool, m.job.Quota, m.steps[0].Pool = jobPool.Key, quotaPool.Key, stepPool.Key
	})
	move := func(event, step machine.Event) {
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: keysOf(m.steps...)}, func(f *store.Facts, b *Batch) {
			j, s := f.Jobs[m.key()], f.Steps[m.steps1()]
			if event != "" {
				b.MoveJob(j, event)
			}
			b.MoveStep(j, s, step)
		})
	}
	slots := func(jobs, quota, steps int) map[store.Pool]int {
		return map[store.Pool]int{jobPool: jobs, quotaPool: quota, stepPool: steps}
	}
	e.taken(slots(0, 0, 0))
	move("allocate_resources", "enqueue")
	e.taken(slots(1, 2, 0))
	move("", "claim")
	e.taken(slots(1, 2, 1))
	move("", "fail")
	e.taken(slots(1, 2, 0))
	move("cancel", "cancel")
	e.taken(slots(0, 0, 0))
}

func poolsSerialised(e *env) { e.serialise(e.st, e.st) }

func poolsSerialisedByTwo(e *env) { e.serialise(e.st, e.open()) }

// serialise runs transactions, on the handles in turn, that each start a job while the pool of
// one slot is free: of those that race for it, one succeeds, for every kind of pool and in
// every round.
func (e *env) serialise(handles ...store.Store) {
	const racing, rounds = 6, 5
	for _, p := range []store.Pool{jobPool, quotaPool, stepPool} {
		for range rounds {
			var jobs []made
			for range racing {
				jobs = append(jobs, e.add(1, nil))
			}
			var inside, won atomic.Int32
			var wg sync.WaitGroup
			for i, m := range jobs {
				wg.Go(func() {
					err := e.startIn(handles[i%len(handles)], p, m, &inside, &won)
					if err != nil {
						e.Errorf("start: %v", err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				e.Fatalf("%d took the one slot of pool %v", won.Load(), p)
			}
			e.taken(map[store.Pool]int{p: 1})
			e.endAll(jobs)
			e.taken(map[store.Pool]int{p: 0})
		}
	}
}

// startIn starts a job and claims its step if no slot of the pool is taken.
func (e *env) startIn(st store.Store, p store.Pool, m made, inside, won *atomic.Int32) error {
	q := &store.Query{Pools: []store.Pool{p}, Jobs: []rowkey.Job{m.key()}, Steps: keysOf(m.steps...)}
	return st.Do(e.ctx, q, func(f *store.Facts) (*store.Changes, error) {
		if inside.Add(1) != 1 {
			return nil, fmt.Errorf("two transactions that name pool %v overlap", p)
		}
		defer inside.Add(-1)
		if f.Pools[p] != 0 {
			return nil, nil
		}
		won.Add(1)
		b := NewBatch(f.Now)
		j, s := f.Jobs[m.key()], f.Steps[m.steps1()]
		j.WorkerCount = 1
		switch p.Kind {
		case store.PoolJobs:
			j.Pool = p.Key
		case store.PoolQuota:
			j.Quota = p.Key
		case store.PoolSteps:
			s.Pool = p.Key
		}
		b.MoveJob(j, lifecycle.JobAllocateResources)
		b.MoveStep(j, s, lifecycle.StepEnqueue, lifecycle.StepClaim)
		return &b.Changes, nil
	})
}

// endAll cancels jobs and their steps.
func (e *env) endAll(jobs []made) {
	e.Helper()
	q := &store.Query{}
	for _, m := range jobs {
		q.Jobs, q.Steps = append(q.Jobs, m.key()), append(q.Steps, m.steps1())
	}
	e.do(q, func(f *store.Facts, b *Batch) {
		for _, m := range jobs {
			b.MoveJob(f.Jobs[m.key()], lifecycle.JobCancel)
			b.MoveStep(m.job, f.Steps[m.steps1()], lifecycle.StepCancel)
		}
	})
}

// poolsNew: new jobs stored as running, and new steps stored as in progress, race for a slot
// too: none of their rows could be locked before.
func poolsNew(e *env) {
	const racing = 6
	var won atomic.Int32
	var wg sync.WaitGroup
	for range racing {
		wg.Go(func() {
			err := e.try(e.st, &store.Query{Pools: []store.Pool{stepPool, jobPool, quotaPool}}, func(f *store.Facts, b *Batch) {
				if f.Pools[jobPool]+f.Pools[quotaPool]+f.Pools[stepPool] > 0 {
					return
				}
				won.Add(1)
				e.build(f.Now, 1, b, func(m made, b *Batch) {
					claimed(1)(m, b)
					m.job.Pool, m.job.Quota, m.steps[0].Pool = jobPool.Key, quotaPool.Key, stepPool.Key
				})
			})
			if err != nil {
				e.Errorf("start: %v", err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		e.Errorf("%d took the one slot", won.Load())
	}
	e.taken(map[store.Pool]int{jobPool: 1, quotaPool: 2, stepPool: 1})
}

// quotas: set, set again and removed; 0 slots are a limit. By name (bytes).
func quotas(e *env) {
	set := func(workspace, name string, slots int, reason string) *pawl.Quota {
		q := &pawl.Quota{Workspace: workspace, Name: name, Slots: slots, At: e.now(), Actor: "someone", Reason: reason}
		e.do(&store.Query{}, func(_ *store.Facts, b *Batch) { b.Quotas = append(b.Quotas, q) })
		return q
	}
	list := func(workspace string, want ...*pawl.Quota) {
		e.Helper()
		got, err := e.st.Quotas(e.ctx, workspace, pawl.WorkflowName{}, 0)
		e.ok(err)
		e.diff("quotas of "+workspace, want, got)
	}
	list("")
	b, a := set("one", "queue/b", 3, "x"), set("one", "depth/1", 0, "")
	upper := set("one", "queue/B", 1<<30, "")
	other := set("two", "queue/c", 4, "")
	list("one", a, upper, b)
	list("two", other)
	list("", a, upper, b, other)
	list("three")
	b = set("one", "queue/b", 5, "y")
	list("one", a, upper, b)
	set("one", "depth/1", -1, "")
	set("one", "depth/2", -7, "") // there was none
	list("one", upper, b)
}

// reservations: they take slots of a pool until they are released or expire, and expired ones
// are forgotten.
func reservations(e *env) {
	mint := NewMint()
	reserve := func(pool rowkey.Pool, slots int, span int64) *pawl.Reservation {
		r := &pawl.Reservation{ID: mint.ID(e.now()), Workspace: "one", Depth: 2, Slots: slots, Pool: pool, ExpiresAt: e.now() + span, Actor: "someone", Reason: "x"}
		e.do(&store.Query{Pools: []store.Pool{quotaPool}}, func(_ *store.Facts, b *Batch) { b.NewReservations = append(b.NewReservations, r) })
		return r
	}
	const hour = 3_600_000_000
	e.add(1, func(m made, b *Batch) {
		m.job.Quota, m.job.WorkerCount = quotaPool.Key, 5
		claimed(1)(m, b)
	})
	first, second, expired := reserve(quotaPool.Key, 2, hour), reserve(quotaPool.Key, 3, hour), reserve(quotaPool.Key, 4, 0)
	reserve(9, 1, hour)
	e.taken(map[store.Pool]int{quotaPool: 10, jobPool: 0, stepPool: 0, {Kind: store.PoolQuota, Key: 9}: 1})
	ids := []pawl.ID{first.ID, second.ID, expired.ID, mint.ID(e.now())}
	want := map[pawl.ID]*pawl.Reservation{first.ID: first, second.ID: second}
	e.diff("reservations", want, e.see(&store.Query{Reservations: ids}).Reservations)

	e.do(&store.Query{Reservations: ids[:1]}, func(f *store.Facts, b *Batch) { b.Released = append(b.Released, f.Reservations[first.ID]) })
	e.taken(map[store.Pool]int{quotaPool: 8})
	e.ok(e.st.Maintain(e.ctx))
	delete(want, first.ID)
	e.diff("reservations after one was released", want, e.see(&store.Query{Reservations: ids}).Reservations)
	e.taken(map[store.Pool]int{quotaPool: 8})
}
