package storetest

import (
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var claimTests = []test{
	{name: "T3/ClaimOrder", run: claimOrder},
	{name: "T3/ClaimStarts", run: claimStarts},
	{name: "T3/ClaimsAreDisjoint", run: claimsAreDisjoint},
	{name: "T3/ClaimsTellIfThereIsMore", run: claimsTellIfThereIsMore},
	{name: "T5/NoDoubleClaim", run: noDoubleClaim},
	{name: "T5/NoDoubleClaimByTwoHandles", run: noDoubleClaimByTwo, shared: true},
}

func claim(limit int, routes ...rowkey.Route) store.ClaimQuery {
	return store.ClaimQuery{Worker: 1, Routes: routes, Limit: limit}
}

// claimOrder: by rank, then job, then ord, over all routes together.
func claimOrder(e *env) {
	last := e.add(2, enqueued(10, 9))
	first := e.add(2, enqueued(11, -5))
	e.add(1, enqueued(12, -9)) // a route without workers
	second := e.add(1, enqueued(10, -5))
	f := e.see(&store.Query{Claims: []store.ClaimQuery{claim(4, 11, 10, 11)}})
	e.diff("claims", keysOf(first.steps[0], first.steps[1], second.steps[0], last.steps[0]), f.Claims[0].Steps)
	for _, m := range []made{first, second, last} {
		if j := f.Jobs[m.key()]; j == nil || string(j.Inputs) != `{"in":1}` || string(j.Metadata) != `{}` {
			e.Errorf("job %+v, want it with inputs and metadata", j)
		}
	}
	e.diff("step", first.steps[0], f.Steps[first.steps1()])
	if len(f.Claims[0].Starts) != 0 {
		e.Errorf("starts %v though the limit was reached", f.Claims[0].Starts)
	}
}

// pending is a change for add: the job waits for a worker on the route. As with enqueued, the
// higher rank has the higher priority.
func pending(route rowkey.Route, rank int64) func(made, *Batch) {
	return func(m made, _ *Batch) { m.job.Route, m.job.Rank, m.job.Priority = route, rank, int(rank) }
}

func claimStarts(e *env) {
	ready := e.add(1, enqueued(10, 0))
	second := e.add(1, pending(10, 5))
	paused := e.add(1, func(m made, b *Batch) {
		pending(10, -9)(m, b)
		m.job.Paused = true
	})
	first := e.add(3, func(m made, b *Batch) {
		pending(10, -2)(m, b)
		m.steps[2].Unmet = 1
	})
	last := e.add(1, pending(10, 5))
	f := e.see(&store.Query{Claims: []store.ClaimQuery{claim(3, 10)}})
	e.diff("claims", store.ClaimFacts{Steps: keysOf(ready.steps...), Starts: []rowkey.Job{first.key(), second.key()}, More: true}, f.Claims[0])
	if j := f.Jobs[first.key()]; string(j.Inputs) != `{"in":1}` || string(j.Metadata) != `{}` {
		e.Errorf("inputs %s and metadata %s of a job to start", j.Inputs, j.Metadata)
	}
	for _, k := range keysOf(first.steps[0], first.steps[1], second.steps[0]) {
		if f.Steps[k] == nil {
			e.Errorf("step %v of no unmet needs is missing", k)
		}
	}
	for _, k := range keysOf(first.steps[2], paused.steps[0], last.steps[0]) {
		if f.Steps[k] != nil {
			e.Errorf("step %v was read", k)
		}
	}
}

// claimsAreDisjoint: no claim query returns what an earlier one of the same transaction
// returned.
func claimsAreDisjoint(e *env) {
	m := e.add(5, enqueued(10, 0))
	p := []made{e.add(1, pending(10, 0)), e.add(1, pending(10, 0))}
	f := e.see(&store.Query{Claims: []store.ClaimQuery{claim(2, 10), claim(4, 10), claim(3, 10), claim(1, 99)}})
	e.diff("claims", []store.ClaimFacts{
		{Steps: keysOf(m.steps[:2]...), More: true},
		{Steps: keysOf(m.steps[2:]...), Starts: []rowkey.Job{p[0].key()}, More: true},
		{Starts: []rowkey.Job{p[1].key()}},
		{},
	}, f.Claims)
}

// claimsTellIfThereIsMore: a claim that ended by its limit may have left something, a shorter
// one has not.
func claimsTellIfThereIsMore(e *env) {
	e.add(2, enqueued(10, 0))
	e.add(1, enqueued(11, 0))
	e.add(1, pending(10, 0))
	e.add(1, pending(11, 0))
	for _, x := range []struct {
		q    store.ClaimQuery
		n    int
		more bool
	}{
		{claim(1, 10), 1, true}, {claim(2, 10), 2, true}, {claim(3, 10), 3, true}, {claim(4, 10), 3, false},
		{claim(4, 10, 11), 4, true}, {claim(5, 10, 11), 5, true}, {claim(6, 10, 11), 5, false}, {claim(1, 12), 0, false}, {claim(1), 0, false},
		{store.ClaimQuery{Worker: 1, Routes: []rowkey.Route{10, 11}, Limit: 3, Starts: 3}, 5, true}, // of steps
		{store.ClaimQuery{Worker: 1, Routes: []rowkey.Route{10, 11}, Limit: 4, Starts: 2}, 5, true}, // of starts
		{store.ClaimQuery{Worker: 1, Routes: []rowkey.Route{10, 11}, Limit: 4, Starts: 3}, 5, false},
	} {
		f := e.see(&store.Query{Claims: []store.ClaimQuery{x.q}}).Claims[0]
		if n := len(f.Steps) + len(f.Starts); n != x.n || f.More != x.more || f.Skipped {
			e.Errorf("%+v: %d found, more %v, skipped %v; want %d, %v", x.q, n, f.More, f.Skipped, x.n, x.more)
		}
	}
}

func noDoubleClaim(e *env) { e.contend(e.st, e.st) }

func noDoubleClaimByTwo(e *env) { e.contend(e.st, e.open()) }

// contend runs eight claimers, on the handles in turn, that take everything; each step is
// taken once and each job started once.
func (e *env) contend(handles ...store.Store) {
	var want []rowkey.Job
	for range 60 {
		want = append(want, e.add(1, enqueued(10, 0)).key(), e.add(1, pending(10, 0)).key())
	}
	var mu sync.Mutex
	var got []rowkey.Job
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				taken, err := e.claimAll(handles[i%len(handles)], rowkey.Worker(i+1))
				if err != nil {
					e.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				got = append(got, taken...)
				left := len(want) - len(got)
				mu.Unlock()
				if left <= 0 || e.ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(got)
	slices.Sort(want)
	e.diff("claimed", want, got)
	e.verify(0)
}

// claimAll takes up to five steps or jobs and returns their jobs.
func (e *env) claimAll(st store.Store, worker rowkey.Worker) ([]rowkey.Job, error) {
	var taken []rowkey.Job
	err := e.try(st, &store.Query{Claims: []store.ClaimQuery{claim(5, 10)}}, func(f *store.Facts, b *Batch) {
		taken = nil
		for _, k := range f.Claims[0].Steps {
			s := f.Steps[k]
			s.Worker, s.Claims = worker, s.Claims+1
			b.MoveStep(f.Jobs[k.Job], s, lifecycle.StepClaim)
			taken = append(taken, k.Job)
		}
		for _, k := range f.Claims[0].Starts {
			j := f.Jobs[k]
			j.Inputs, j.Metadata = nil, nil
			b.MoveJob(j, lifecycle.JobAllocateResources)
			s := f.Steps[pawl.StepKey{Job: k, Ord: pawl.MakeOrd(1, 0)}]
			s.Worker, s.Claims = worker, 1
			b.MoveStep(j, s, lifecycle.StepEnqueue, lifecycle.StepClaim)
			taken = append(taken, k)
		}
	})
	return taken, err
}
