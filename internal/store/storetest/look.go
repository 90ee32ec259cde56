package storetest

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var lookTests = []test{
	{name: "Look/Nothing", run: lookNothing},
	{name: "Look/Marked", run: lookMarked},
	{name: "Look/MarkRounds", run: markRounds},
	{name: "K8/Due", run: lookDue},
	{name: "K8/DueRounds", run: dueRounds},
	{name: "Look/Pending", run: lookPending},
	{name: "T3/PendingOrder", run: pendingOrder},
	{name: "Look/Orphans", run: lookOrphans},
	{name: "Look/Limit", run: lookLimit},
}

func (e *env) look(limit int) *store.Agenda {
	e.Helper()
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: limit, Living: true})
	e.ok(err)
	return a
}

func lookNothing(e *env) {
	e.add(1, enqueued(1, 0))
	e.add(1, pending(1, 0))
	a := e.look(10)
	if d := cmp.Diff(&store.Agenda{}, a, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Agenda{}, "Now", "Living")); d != "" || a.Now == 0 {
		e.Errorf("agenda of now %d (-want +got):\n%s", a.Now, d)
	}
}

// attention marks the given records for the evaluator, at the time at.
func attention(at int64, j *pawl.Job, steps ...*pawl.Step) {
	if j != nil {
		j.Mark, j.MarkAt = pawl.Attention, at
	}
	for _, s := range steps {
		s.Mark, s.MarkAt = pawl.Attention, at
	}
}

// lookMarked: jobs that are marked themselves or have a marked step, each once for a time,
// oldest first; the evaluator ignores Waiting and Blocked, and postponed marks are not due.
func lookMarked(e *env) {
	now := e.now()
	both := e.add(3, func(m made, _ *Batch) {
		attention(now-10, m.job, m.steps[0], m.steps[1])
		attention(now-30, nil, m.steps[2])
		m.job.Route = 1
	})
	byStep := e.add(2, func(m made, _ *Batch) { attention(now-20, nil, m.steps[0]); m.job.Route = 1 })
	e.add(2, func(m made, _ *Batch) { m.steps[0].Mark, m.steps[1].Mark, m.job.Route = pawl.Waiting, pawl.Blocked, 1 })
	e.add(1, func(m made, _ *Batch) {
		attention(now+3600e6, m.job)
		attention(now+7200e6, nil, m.steps[0])
		m.job.Route = 1
	})
	a := e.look(10)
	e.diff("marked", []store.Marked{{At: now - 30, Job: both.key()}, {At: now - 20, Job: byStep.key()}, {At: now - 10, Job: both.key()}}, a.Marked)
	if a.NextDue != now+3600e6 {
		e.Errorf("next due %d, want %d, that of the mark that was put off", a.NextDue, now+3600e6)
	}
}

// markRounds: scans that each begin behind the previous one find every mark once, oldest
// first, even those with equal times, and none that was marked after the round began.
func markRounds(e *env) {
	now := e.now()
	var want []store.Marked
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		for i := range 40 {
			at := now - int64(1+i*7%5) // five times, none in the order of keys
			m := e.build(f.Now, 3, b, func(m made, _ *Batch) {
				if i%2 == 0 {
					attention(at, m.job)
				}
				if i%3 != 0 || i%2 == 1 {
					attention(at, nil, m.steps[1:]...)
				}
			})
			want = append(want, store.Marked{At: at, Job: m.key()})
		}
	})
	slices.SortFunc(want, store.Marked.Compare)
	for limit := 1; limit <= 41; limit += 10 {
		var got []store.Marked
		for q := (store.LookQuery{Limit: limit, MarkedUntil: now}); ; {
			a, err := e.st.Look(e.ctx, q)
			e.ok(err)
			got = append(got, a.Marked...)
			if len(a.Marked) < limit {
				break
			}
			q.Marked = a.Marked[limit-1]
		}
		e.diff("marked", want, got)
	}
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 100, MarkedUntil: now - 4})
	e.ok(err)
	if len(a.Marked) != 16 { // of two of the five times
		e.Errorf("%d marks of no later than that, want 16", len(a.Marked))
	}
}

// dueRounds: the same for deadlines of every kind.
func dueRounds(e *env) {
	now := e.now()
	var want []store.Due
	add := func(k store.EntityKey, r *pawl.Record, at int64, event machine.Event) {
		r.DueAt, r.DueEvent = at, event
		want = append(want, store.Due{EntityKey: k, At: at, Event: event})
	}
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		for i := range 12 {
			at := now - int64(1+i%3)
			e.build(f.Now, 3, b, func(m made, _ *Batch) {
				add(JobKey(m.job), &m.job.Record, at, lifecycle.JobCancel)
				for _, s := range m.steps {
					add(StepKey(s), &s.Record, at, lifecycle.StepTimeout)
				}
			})
			s := e.schedule(f.Now, "s"+decimal(int64(i)))
			b.AddSchedule(s)
			add(ScheduleKey(s), &s.Record, at, lifecycle.ScheduleFire)
		}
	})
	for i := range 3 {
		w := e.addWorker()
		e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
			w := f.Workers[w.Key()]
			b.MoveWorker(w, lifecycle.WorkerStartTask)
			add(WorkerKey(w), &w.Record, now-int64(1+i), lifecycle.WorkerTerminate)
		})
	}
	slices.SortFunc(want, store.Due.Compare)
	for _, limit := range []int{1, 2, 7, 100} {
		var got []store.Due
		for q := (store.LookQuery{Limit: limit, DueUntil: now}); ; {
			a, err := e.st.Look(e.ctx, q)
			e.ok(err)
			got = append(got, a.Due...)
			if len(a.Due) < limit {
				break
			}
			q.Due = a.Due[limit-1]
		}
		e.diff("due", want, got)
	}
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 100, DueUntil: now - 3})
	e.ok(err)
	if len(a.Due) != 4*5+1 {
		e.Errorf("%d deadlines of no later than that, want 21", len(a.Due))
	}
}

func lookDue(e *env) {
	now := e.now()
	m := e.add(2, func(m made, _ *Batch) {
		m.steps[0].DueAt, m.steps[0].DueEvent = now-3e6, lifecycle.StepTimeout
		m.steps[1].DueAt, m.steps[1].DueEvent = now+3600e6, lifecycle.StepTimeout
		m.job.DueAt, m.job.DueEvent = now-2e6, lifecycle.JobCancel
	})
	w := e.addWorker()
	e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		w = f.Workers[w.Key()]
		b.MoveWorker(w, lifecycle.WorkerStartTask)
		w.DueAt, w.DueEvent = now-1e6, lifecycle.WorkerTerminate
	})
	s := e.addSchedule("due", func(s *pawl.Schedule) { s.DueAt, s.DueEvent = now-4e6, lifecycle.ScheduleSkip })
	a := e.look(10)
	e.diff("due", []store.Due{
		{EntityKey: ScheduleKey(s), At: now - 4e6, Event: lifecycle.ScheduleSkip},
		{EntityKey: StepKey(m.steps[0]), At: now - 3e6, Event: lifecycle.StepTimeout},
		{EntityKey: JobKey(m.job), At: now - 2e6, Event: lifecycle.JobCancel},
		{EntityKey: WorkerKey(w), At: now - 1e6, Event: lifecycle.WorkerTerminate},
	}, a.Due)
	if a.NextDue != now+3600e6 {
		e.Errorf("next due %d, want %d", a.NextDue, now+3600e6)
	}
	e.addSchedule("next", func(s *pawl.Schedule) { s.DueAt = now + 1800e6 })
	e.addSchedule("never", func(s *pawl.Schedule) { s.DueAt = 0 })
	if a := e.look(10); a.NextDue != now+1800e6 {
		e.Errorf("next due %d, want %d, that of a schedule", a.NextDue, now+1800e6)
	}
}

// lookPending: jobs that no worker starts by itself, and that are not paused.
func lookPending(e *env) {
	m := e.add(1, nil)
	e.add(1, pending(5, 0))
	e.add(1, func(m made, _ *Batch) { m.job.Paused = true })
	e.add(1, func(m made, b *Batch) { b.MoveJob(m.job, lifecycle.JobAllocateResources) })
	first := []store.Ranked{{Job: m.key()}}
	e.diff("pending", first, e.look(10).Pending)
	next := e.add(1, func(m made, _ *Batch) {})
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 1, Pending: first[0]})
	e.ok(err)
	e.diff("pending after one", []store.Ranked{{Job: next.key()}}, a.Pending)
}

// pendingOrder: by (rank, id), whatever the priority.
func pendingOrder(e *env) {
	var jobs []store.Ranked
	for _, rank := range []int64{3, -1, 2, -1} {
		jobs = append(jobs, store.Ranked{Rank: rank, Job: e.add(0, pending(0, rank)).key()})
	}
	e.diff("pending", []store.Ranked{jobs[1], jobs[3], jobs[2], jobs[0]}, e.look(10).Pending)
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 2, Pending: jobs[1]})
	e.ok(err)
	e.diff("pending after one", []store.Ranked{jobs[3], jobs[2]}, a.Pending)
	a, err = e.st.Look(e.ctx, store.LookQuery{Limit: 2, Pending: jobs[2]})
	e.ok(err)
	e.diff("pending after three", []store.Ranked{jobs[0]}, a.Pending)
}

func lookOrphans(e *env) {
	live, dead := e.addWorker(), e.addWorker()
	e.add(2, claimed(live.Key()))
	e.add(2, claimed(dead.Key()))
	e.add(1, claimed(0)) // the engine's own
	e.do(&store.Query{Workers: []rowkey.Worker{dead.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[dead.Key()], lifecycle.WorkerTerminate)
	})
	seen := e.look(10).Living.Ended
	if len(seen) != 1 || seen[0].Worker != dead.Key() || seen[0].Beat < dead.CreatedAt || seen[0].Beat > e.now()+slack {
		e.Errorf("of those that have ended %+v; want %d, heard of after %d", seen, dead.Key(), dead.CreatedAt)
	}
	e.hold(e.st, workerName(dead), "")
	before := e.now()
	e.beat(link.Pulse{Worker: dead.Key()})
	if seen = e.look(10).Living.Ended; len(seen) != 1 || seen[0].Beat < before-1000 { // the time of a file is coarser
		e.Errorf("heard of %+v after a beat at %d", seen, before)
	}
}

func lookLimit(e *env) {
	now := e.now()
	for range 5 {
		w := e.addWorker()
		e.add(2, func(m made, b *Batch) {
			claimed(w.Key())(m, b)
			attention(now-1, m.job, m.steps[1])
			m.job.DueAt, m.job.DueEvent = now-1e6, lifecycle.JobCancel
			b.MoveJob(m.job)
		})
		e.add(1, nil)
		e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
			b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerTerminate)
		})
	}
	a := e.look(3)
	for name, n := range map[string]int{"marked": len(a.Marked), "due": len(a.Due), "pending": len(a.Pending), "ended": len(a.Living.Ended)} {
		if n != 3 {
			e.Errorf("%d %s, want the limit of 3", n, name)
		}
	}
}
