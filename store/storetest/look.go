package storetest

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

var lookTests = []test{
	{name: "Look/Nothing", run: lookNothing},
	{name: "Look/Marked", run: lookMarked},
	{name: "K8/Due", run: lookDue},
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

// lookMarked: jobs marked themselves and by a step, each once; Waiting and Blocked
// are no matter for the evaluator.
func lookMarked(e *env) {
	both := e.add(2, func(m made, _ *Batch) {
		m.job.Mark, m.steps[0].Mark, m.steps[1].Mark = pawl.Attention, pawl.Attention, pawl.Attention
		m.job.Route = 1
	})
	byStep := e.add(2, func(m made, _ *Batch) { m.steps[0].Mark, m.job.Route = pawl.Attention, 1 })
	e.add(2, func(m made, _ *Batch) { m.steps[0].Mark, m.steps[1].Mark, m.job.Route = pawl.Waiting, pawl.Blocked, 1 })
	got := slices.Sorted(slices.Values(e.look(10).Marked))
	e.diff("marked", []int64{both.key(), byStep.key()}, got)
}

func lookDue(e *env) {
	now := e.now()
	m := e.add(2, func(m made, _ *Batch) {
		m.steps[0].DueAt, m.steps[0].DueEvent = now-3e6, lifecycle.StepTimeout
		m.steps[1].DueAt, m.steps[1].DueEvent = now+3600e6, lifecycle.StepTimeout
		m.job.DueAt, m.job.DueEvent = now-2e6, lifecycle.JobCancel
	})
	w := e.addWorker()
	e.do(&store.Query{Workers: []int64{w.Key()}}, func(f *store.Facts, b *Batch) {
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
	e.diff("pending", []int64{m.key()}, e.look(10).Pending)
	next := e.add(1, func(m made, _ *Batch) {})
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 1, Skip: 1})
	e.ok(err)
	e.diff("pending after one", []int64{next.key()}, a.Pending)
}

// pendingOrder: by (rank, id), whatever the priority.
func pendingOrder(e *env) {
	var jobs []int64
	for _, rank := range []int64{3, -1, 2, -1} {
		jobs = append(jobs, e.add(0, pending(0, rank)).key())
	}
	e.diff("pending", []int64{jobs[1], jobs[3], jobs[2], jobs[0]}, e.look(10).Pending)
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 2, Skip: 1})
	e.ok(err)
	e.diff("pending after one", []int64{jobs[3], jobs[2]}, a.Pending)
}

func lookOrphans(e *env) {
	live, dead := e.addWorker(), e.addWorker()
	e.add(2, claimed(live.Key()))
	e.add(2, claimed(dead.Key()))
	e.add(1, claimed(0)) // the engine's own
	e.do(&store.Query{Workers: []int64{dead.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[dead.Key()], lifecycle.WorkerTerminate)
	})
	e.diff("orphans", []int64{dead.Key()}, e.look(10).Orphans)
}

func lookLimit(e *env) {
	now := e.now()
	for range 5 {
		w := e.addWorker()
		e.add(2, func(m made, b *Batch) {
			claimed(w.Key())(m, b)
			m.job.Mark, m.steps[1].Mark = pawl.Attention, pawl.Attention
			m.job.DueAt, m.job.DueEvent = now-1e6, lifecycle.JobCancel
			b.MoveJob(m.job)
		})
		e.add(1, nil)
		e.do(&store.Query{Workers: []int64{w.Key()}}, func(f *store.Facts, b *Batch) {
			b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerTerminate)
		})
	}
	a := e.look(3)
	for name, n := range map[string]int{"marked": len(a.Marked), "due": len(a.Due), "pending": len(a.Pending), "orphans": len(a.Orphans)} {
		if n != 3 {
			e.Errorf("%d %s, want the limit of 3", n, name)
		}
	}
}
