package storetest

import (
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var runningTests = []test{
	{name: "K8/Running", run: runningJobs},
	{name: "K8/RunningFromAnywhere", run: runningFromAnywhere},
	{name: "K8/Unstarted", run: unstarted},
	{name: "K8/HeldSchedules", run: heldSchedules},
	{name: "Views/BareSteps", run: bareSteps},
	{name: "Views/JobsByKey", run: jobsByKey},
}

// through reads the running jobs, from a place to the end, and returns them.
func (e *env) through(from store.Spot, limit int) map[rowkey.Job]bool {
	e.Helper()
	found := make(map[rowkey.Job]bool)
	for {
		page, err := e.st.Running(e.ctx, from, limit)
		e.ok(err)
		if len(page) > limit {
			e.Fatalf("%d jobs, want at most %d", len(page), limit)
		}
		for _, p := range page {
			from = p.At
			if p.Job == nil {
				continue
			}
			if p.Job.State != lifecycle.JobRunning || p.Job.Inputs != nil {
				e.Errorf("job %d is %s, with inputs %s", p.Job.Key(), p.Job.State, p.Job.Inputs)
			}
			found[p.Job.Key()] = true
		}
		if len(page) < limit {
			return found
		}
	}
}

// mixed adds running jobs, some of them paused or on other routes, and others.
func (e *env) mixed() map[rowkey.Job]bool {
	want := make(map[rowkey.Job]bool)
	for i := range 12 {
		m := e.add(1, func(m made, b *Batch) {
			m.job.Route, m.job.Rank, m.job.Paused = rowkey.Route(i%3)<<60, int64(i), i%4 == 0
			switch i % 5 {
			case 0: // it waits
				return
			case 1:
				claimed(1)(m, b)
			default:
				enqueued(1, 0)(m, b)
			}
			if i == 4 {
				b.MoveJob(m.job, lifecycle.JobCancel)
			}
		})
		if i%5 != 0 && i != 4 {
			want[m.job.Key()] = true
		}
	}
	return want
}

// runningJobs: pages of any size have every running job, and no other.
func runningJobs(e *env) {
	want := e.mixed()
	for _, limit := range []int{1, 2, 5, 100} {
		e.diff("jobs that run", want, e.through(store.Spot{}, limit))
	}
}

// runningFromAnywhere: reading from any place to the end, and then from the beginning, finds
// all.
func runningFromAnywhere(e *env) {
	at, err := e.st.SpotAt(e.ctx, 0.5)
	e.ok(err)
	e.diff("jobs that run, of none", map[rowkey.Job]bool{}, e.through(at, 3))
	want := e.mixed()
	for _, share := range []float64{0, 0.1, 0.5, 0.999} {
		at, err := e.st.SpotAt(e.ctx, share)
		e.ok(err)
		found := e.through(at, 3)
		maps.Copy(found, e.through(store.Spot{}, 3))
		e.diff("jobs that run", want, found)
	}
}

// bareSteps: pages of steps without bodies.
func bareSteps(e *env) {
	m := e.add(7, func(m made, b *Batch) {
		for _, s := range m.steps {
			s.Input = []byte(`["an item"]`)
		}
	})
	var got, want []pawl.Ord
	for after := pawl.Ord(0); ; {
		page, err := e.st.Bare(e.ctx, m.job.Key(), after, 3)
		e.ok(err)
		for _, s := range page {
			if after = s.Ord; s.Input != nil {
				e.Errorf("step %d has an input", s.Ord)
			}
			got = append(got, s.Ord)
		}
		if len(page) < 3 {
			break
		}
	}
	for _, s := range m.steps {
		want = append(want, s.Ord)
	}
	e.diff("steps", want, got)
}

// jobsByKey: a filter that names jobs.
func jobsByKey(e *env) {
	one := func() rowkey.Job { return e.add(1, func(made, *Batch) {}).job.Key() }
	a, _, c := one(), one(), one()
	got := e.jobs(store.JobFilter{Keys: []rowkey.Job{a, c, 1}, Bare: true})
	slices.Sort(got)
	e.diff("jobs of these keys", []rowkey.Job{a, c}, got)
	e.diff("jobs of no key", 0, len(e.jobs(store.JobFilter{Keys: []rowkey.Job{}})))
	e.diff("jobs", 3, len(e.jobs(store.JobFilter{})))
}

// unstarted reads all jobs in pages, and returns those that have to be started.
func unstarted(e *env) {
	var want []rowkey.Job
	for i := range 5 {
		want = append(want, e.add(1, nil).key())
		e.add(1, enqueued(1, 0))
		e.add(0, func(m made, b *Batch) {
			m.job.Paused = i%2 == 0
			if !m.job.Paused {
				b.MoveJob(m.job, lifecycle.JobCancel)
			}
		})
	}
	var got []rowkey.Job
	for after, pages := rowkey.Job(0), 0; ; pages++ {
		page, last, err := e.st.Unstarted(e.ctx, after, 4)
		e.ok(err)
		for _, u := range page {
			if u.Lost || u.Inputs != nil {
				e.Errorf("job %d is lost: %v, with inputs %s", u.Key(), u.Lost, u.Inputs)
			}
			got = append(got, u.Key())
		}
		if last == 0 {
			e.diff("pages", 4, pages)
			break
		}
		after = last
	}
	slices.Sort(want)
	e.diff("jobs", want, got)
}

// heldSchedules are the active ones without a deadline, or with a waiting time.
func heldSchedules(e *env) {
	held := e.addSchedule("waits", nil)
	idle := e.addSchedule("idle", func(s *pawl.Schedule) { s.DueAt, s.Waiting = 0, 0 })
	e.addSchedule("calm", func(s *pawl.Schedule) { s.Waiting = 0 })
	paused := e.addSchedule("paused", func(s *pawl.Schedule) { s.DueAt = 0 })
	e.do(&store.Query{Schedules: []rowkey.Schedule{paused.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveSchedule(f.Schedules[paused.Key()], lifecycle.SchedulePause)
	})
	want := []rowkey.Schedule{held.Key(), idle.Key()}
	slices.Sort(want)
	got, err := e.st.HeldSchedules(e.ctx, 0, 10)
	e.ok(err)
	e.diff("schedules", want, got)
	got, err = e.st.HeldSchedules(e.ctx, want[0], 10)
	e.ok(err)
	e.diff("behind the first", want[1:], got)
}
