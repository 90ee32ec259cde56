package storetest

import (
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// claimedFields: a claim returns jobs and steps with all their fields, and finds those that
// became claimable, whichever statement wrote them.
func claimedFields(e *env) error {
	if err := claimedAsAdded(e); err != nil {
		return fmt.Errorf("as added: %w", err)
	}
	ways := []func(*pawl.Step){
		func(*pawl.Step) {},
		func(s *pawl.Step) { s.Unmet++ },
		func(s *pawl.Step) { s.CompletedAt++ },
		func(s *pawl.Step) { s.Unmet, s.CompletedAt = s.Unmet+1, s.CompletedAt+1 },
		func(s *pawl.Step) { s.Total++ },
		func(s *pawl.Step) { s.Total, s.Input = s.Total+1, []byte(`[1]`) },
	}
	for i, way := range ways {
		for _, n := range []int{1, 3, 2 * stepsEach} {
			if err := enqueuedBy(e, e.newRoute(), n, way); err != nil {
				return fmt.Errorf("%d steps enqueued in the way %d: %w", n, i, err)
			}
		}
	}
	for i, way := range []func(*pawl.Job){func(*pawl.Job) {}, func(j *pawl.Job) { j.Version++ }, func(j *pawl.Job) { j.Output = []byte(`{}`) }} {
		for _, n := range []int{1, 3, 20} {
			if err := pendingBy(e, e.newRoute(), n, way); err != nil {
				return fmt.Errorf("%d jobs pending in the way %d: %w", n, i, err)
			}
		}
	}
	return nil
}

// newRoute returns an unused route.
func (e *env) newRoute() rowkey.Route {
	e.routes++
	return 1000 + e.routes
}

// later is beyond the ranks that a store may regard as already scanned, in microseconds.
const later = 3600e6

// claimedAsAdded: one pending job, with its first steps, and one with enqueued steps.
func claimedAsAdded(e *env) error {
	var waits, runs *pawl.Job
	route := e.newRoute()
	model := map[pawl.StepKey]pawl.Step{}
	err := e.st.Do(e.ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		ch := new(store.Changes)
		list := jobs.base(e, f.Now, 2, ch)
		waits, runs = list[0], list[1]
		waits.State, waits.Route, waits.Paused = lifecycle.JobPending, route, false
		for _, j := range list {
			for n := range 3 {
				s := &pawl.Step{StepKey: pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(n+1, 0)}, Route: route}
				s.State = lifecycle.StepEnqueued
				fill(lifecycle.Step.Name, s)
				if j == waits {
					s.State, s.Unmet = lifecycle.StepPending, 0
				}
				ch.NewSteps = append(ch.NewSteps, s)
				model[s.StepKey] = *s
			}
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	want := map[pawl.StepKey]pawl.Job{keyOfJob(waits): *waits, keyOfJob(runs): *runs}
	return e.claim(e.st, route, func(f *store.Facts) error {
		if got := f.Claims[0]; len(got.Steps) != 3 || len(got.Starts) != 1 {
			return fmt.Errorf("claimed %v, want three steps and one start", got)
		}
		for k := range model {
			if err := steps.compare("claim", []pawl.StepKey{k}, model, func(k pawl.StepKey) *pawl.Step { return f.Steps[k] }, nil); err != nil {
				return err
			}
		}
		for k := range want {
			if err := jobs.compare("claim", []pawl.StepKey{k}, want, func(k pawl.StepKey) *pawl.Job { return f.Jobs[k.Job] }, []string{"Inputs", "Metadata"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// claim claims on a route without changing anything.
func (e *env) claim(st store.Store, route rowkey.Route, look func(*store.Facts) error) error {
	q := &store.Query{Claims: []store.ClaimQuery{{Worker: 1, Routes: []rowkey.Route{route}, Limit: 100}}}
	return st.Do(e.ctx, q, func(f *store.Facts) (*store.Changes, error) { return nil, look(f) })
}

// claimable returns an error unless a claim finds the given numbers of steps and starts.
func (e *env) claimable(route rowkey.Route, steps, starts int) error {
	handles := []store.Store{e.st}
	if e.db.Name != "" {
		handles = append(handles, e.another())
	}
	for _, st := range handles {
		err := e.claim(st, route, func(f *store.Facts) error {
			if c := f.Claims[0]; len(c.Steps) != steps || len(c.Starts) != starts {
				return fmt.Errorf("a claim finds %d steps and %d starts, want %d and %d", len(c.Steps), len(c.Starts), steps, starts)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// enqueuedBy changes pending steps into enqueued ones, and these into steps that a worker
// holds. A claim finds them only while they are enqueued.
func enqueuedBy(e *env, route rowkey.Route, n int, way func(*pawl.Step)) error {
	var keys []pawl.StepKey
	err := e.st.Do(e.ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		ch := new(store.Changes)
		for _, s := range steps.base(e, f.Now, n, ch) {
			s.Route, s.Worker, s.Rank, keys = route, rowkey.Worker(route), f.Now+later, append(keys, s.StepKey)
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	if err := e.claimable(route, 0, 0); err != nil {
		return err
	}
	for _, to := range []struct {
		state machine.State
		found int
	}{{lifecycle.StepEnqueued, n}, {lifecycle.StepInProgress, 0}} {
		err := e.st.Do(e.ctx, steps.query(keys), func(f *store.Facts) (*store.Changes, error) {
			ch := new(store.Changes)
			for _, k := range keys {
				s := f.Steps[k]
				s.State = to.state
				way(s)
				ch.Steps = append(ch.Steps, store.Update[*pawl.Step]{Record: s, Was: s.Seq})
			}
			return ch, nil
		})
		if err != nil {
			return err
		}
		if err := e.claimable(route, to.found, 0); err != nil {
			return fmt.Errorf("%s: %w", to.state, err)
		}
	}
	return e.holds(rowkey.Worker(route), keys)
}

// holds returns an error unless the store reports that the worker holds exactly these steps.
func (e *env) holds(worker rowkey.Worker, keys []pawl.StepKey) error {
	return e.st.Do(e.ctx, &store.Query{Held: []rowkey.Worker{worker}}, func(f *store.Facts) (*store.Changes, error) {
		if d := cmp.Diff(keys, f.Held[worker]); d != "" {
			return nil, fmt.Errorf("steps that a worker holds (-want +got):\n%s", d)
		}
		return nil, nil
	})
}

// pendingBy changes running jobs into pending ones, which a claim finds.
func pendingBy(e *env, route rowkey.Route, n int, way func(*pawl.Job)) error {
	var keys []pawl.StepKey
	err := e.st.Do(e.ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		ch := new(store.Changes)
		for _, j := range jobs.base(e, f.Now, n, ch) {
			j.Route, j.Rank, j.Paused, keys = route, f.Now+later, false, append(keys, keyOfJob(j))
			s := &pawl.Step{StepKey: pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(1, 0)}}
			s.State = lifecycle.StepPending
			fill(lifecycle.Step.Name, s)
			s.Unmet = 0
			ch.NewSteps = append(ch.NewSteps, s)
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	err = e.st.Do(e.ctx, jobs.query(keys), func(f *store.Facts) (*store.Changes, error) {
		ch := new(store.Changes)
		for _, k := range keys {
			j := f.Jobs[k.Job]
			j.State = lifecycle.JobPending
			way(j)
			ch.Jobs = append(ch.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
		}
		return ch, nil
	})
	if err != nil {
		return err
	}
	return e.claimable(route, 0, n)
}
