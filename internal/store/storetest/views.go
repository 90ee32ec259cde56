package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var viewTests = []test{
	{name: "Views/NotFound", run: viewsNotFound},
	{name: "J4/JobFilters", run: jobFilters},
	{name: "J4/StillJobs", run: stillJobs},
	{name: "J4/JobPages", run: jobPages},
	{name: "Views/StepPages", run: stepPages},
	{name: "T8/PageBytes", run: pageBytes},
	{name: "Views/Bodies", run: viewBodies},
	{name: "Views/StepCounts", run: stepCounts},
	{name: "J4/NewestSteps", run: newestSteps},
	{name: "T9/InFlight", run: inFlight},
	{name: "Views/Workers", run: viewWorkers},
	{name: "K6/Trail", run: trail},
	{name: "K6/Trails", run: trails},
	{name: "K6/TrailsStop", run: trailsStop},
	{name: "K6/TrailsOfALongJob", run: trailsOfALongJob},
	{name: "K6/LongTrailTampered", run: longTrailTampered},
	{name: "K6/PayloadPages", run: payloadPages},
	{name: "T5/Refusals", run: refusals},
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func viewsNotFound(e *env) {
	_, job := e.st.Job(e.ctx, 1)
	_, worker := e.st.Worker(e.ctx, 1)
	_, definition := e.st.Definition(e.ctx, 1)
	_, schedule := e.st.Schedule(e.ctx, 1)
	_, token := e.st.Token(e.ctx, 1)
	_, webhook := e.st.Webhook(e.ctx, 1)
	_, version := e.st.RegisteredVersion(e.ctx, pawl.WorkflowName{Workspace: "w", Name: "x"}, 0)
	for what, err := range map[string]error{"job": job, "worker": worker, "definition": definition, "schedule": schedule, "token": token, "webhook": webhook, "version": version} {
		if !errors.Is(err, store.ErrNotFound) {
			e.Errorf("%s: error %v, want ErrNotFound", what, err)
		}
	}
	steps, err := e.st.Steps(e.ctx, 1, 0, 0)
	e.ok(err)
	bodies, err := e.st.Bodies(e.ctx, []pawl.StepKey{{Job: 1, Ord: 1}})
	e.ok(err)
	if len(steps)+len(bodies) > 0 {
		e.Errorf("%d steps and %d bodies of a job that is not there", len(steps), len(bodies))
	}
}

func (e *env) jobs(f store.JobFilter) []rowkey.Job {
	e.Helper()
	jobs, err := e.st.Jobs(e.ctx, f)
	e.ok(err)
	keys := []rowkey.Job{}
	for _, j := range jobs {
		keys = append(keys, j.Key())
	}
	return keys
}

func jobFilters(e *env) {
	a := e.add(0, func(m made, b *Batch) { m.job.Workspace = "a" })
	b := e.add(0, func(m made, b *Batch) { m.job.Workflow = "other"; b.MoveJob(m.job, lifecycle.JobAllocateResources) })
	c := e.add(0, func(m made, b *Batch) { m.job.Definition = 8; b.MoveJob(m.job, lifecycle.JobCancel) })
	child := e.add(0, func(m made, _ *Batch) { m.job.Parent, m.job.Continues, m.job.Depth = a.key(), b.key(), 1 })
	next := e.add(0, func(m made, batch *Batch) {
		m.job.Parent, m.job.Continues, m.job.Depth = b.key(), a.key(), 1
		batch.MoveJob(m.job, lifecycle.JobCancel)
	})
	keys := func(list ...made) []rowkey.Job {
		out := []rowkey.Job{}
		for _, m := range list {
			out = append(out, m.key())
		}
		return out
	}
	for name, tt := range map[string]struct {
		filter store.JobFilter
		want   []rowkey.Job
	}{
		"all":              {store.JobFilter{}, keys(next, child, c, b, a)},
		"workspace":        {store.JobFilter{Workspace: "a"}, keys(a)},
		"workflow":         {store.JobFilter{Workflow: "other"}, keys(b)},
		"definition":       {store.JobFilter{Definition: 8}, keys(c)},
		"parent":           {store.JobFilter{Parent: a.key()}, keys(child)},
		"continues":        {store.JobFilter{Continues: a.key()}, keys(next)},
		"open children":    {store.JobFilter{Parent: b.key(), States: []machine.State{lifecycle.JobPending}}, keys()},
		"ended children":   {store.JobFilter{Parent: b.key(), States: []machine.State{lifecycle.JobCanceled}}, keys(next)},
		"older children":   {store.JobFilter{Parent: b.key(), Before: next.key()}, keys()},
		"one state":        {store.JobFilter{States: []machine.State{lifecycle.JobRunning}}, keys(b)},
		"open states":      {store.JobFilter{States: []machine.State{lifecycle.JobRunning, lifecycle.JobPending}}, keys(child, b, a)},
		"any states":       {store.JobFilter{States: []machine.State{lifecycle.JobPending, lifecycle.JobCanceled}}, keys(next, child, c, a)},
		"no such state":    {store.JobFilter{States: []machine.State{"' OR TRUE --"}}, keys()},
		"all together":     {store.JobFilter{Workspace: "w", Workflow: "flow", Definition: 8, States: []machine.State{lifecycle.JobCanceled}, Before: c.key() + 1, Limit: 5}, keys(c)},
		"nothing together": {store.JobFilter{Workspace: "w", Workflow: "other", Definition: 8}, keys()},
	} {
		e.diff(name, tt.want, e.jobs(tt.filter))
	}
	jobs, err := e.st.Jobs(e.ctx, store.JobFilter{Definition: 8})
	e.ok(err)
	e.diff("job with bodies", []*pawl.Job{c.job}, jobs)
}

// stillJobs: neither the job nor one of its steps was changed at or after a time.
func stillJobs(e *env) {
	changed := func(job int64, steps ...int64) made {
		return e.add(len(steps), func(m made, b *Batch) {
			b.MoveJob(m.job, lifecycle.JobAllocateResources)
			m.job.UpdatedAt = job
			for i, s := range m.steps {
				s.UpdatedAt = steps[i]
			}
		})
	}
	quiet := changed(100, 80, 90)
	changed(100, 80, 200, 90) // a step moves
	changed(200, 80)
	bare := changed(140)
	for still, want := range map[int64][]rowkey.Job{150: {bare.key(), quiet.key()}, 140: {quiet.key()}, 101: {quiet.key()}, 100: {}, 91: {}} {
		f := store.JobFilter{Still: still, States: []machine.State{lifecycle.JobRunning}, Limit: 1}
		e.diff(decimal(still)+", keys", want, e.keysOf(f, 2))
		f.Limit = 0
		e.diff(decimal(still), want, e.jobs(f))
	}
	e.diff("pending", []rowkey.Job{}, e.jobs(store.JobFilter{Still: 150, States: []machine.State{lifecycle.JobPending}}))
}

func jobPages(e *env) {
	var want []rowkey.Job
	for range 7 {
		want = append(want, e.add(0, nil).key())
	}
	slices.Reverse(want)
	var got []rowkey.Job
	for before := rowkey.Job(0); ; {
		page := e.jobs(store.JobFilter{Before: before, Limit: 3})
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		before = page[len(page)-1]
	}
	e.diff("pages", want, got)
}

func stepPages(e *env) {
	m := e.add(5, nil)
	steps, err := e.st.Steps(e.ctx, m.key(), m.steps[1].Ord, 2)
	e.ok(err)
	e.diff("page", m.steps[2:4], steps)
	steps, err = e.st.Steps(e.ctx, m.key(), m.steps[2].Ord, 0)
	e.ok(err)
	e.diff("rest", m.steps[3:], steps)
}

// pageBytes: a page ends with the record that reaches the maximum size of its bodies, whatever
// its limit; a read without a limit, or without bodies, returns all.
func pageBytes(e *env) {
	body := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	quarter := store.PageBytes / 4
	m := e.add(7, func(m made, _ *Batch) {
		for i, s := range m.steps {
			s.Input, s.Output = body(quarter/2), body(quarter-quarter/2)
			if i == 4 {
				s.Output = body(2 * store.PageBytes)
			}
		}
	})
	steps := func(after pawl.Ord, limit int) []pawl.StepKey {
		list, err := e.st.Steps(e.ctx, m.key(), after, limit)
		e.ok(err)
		return keysOf(list...)
	}
	e.diff("a page", keysOf(m.steps[:4]...), steps(0, 100))
	e.diff("of a large one", keysOf(m.steps[4:5]...), steps(m.steps[3].Ord, 100))
	e.diff("of the rest", keysOf(m.steps[5:]...), steps(m.steps[4].Ord, 100))
	e.diff("by its limit", keysOf(m.steps[:2]...), steps(0, 2))
	e.diff("behind the last", keysOf(), steps(m.steps[6].Ord, 100))
	e.diff("all", keysOf(m.steps...), steps(0, 0))

	var want []rowkey.Job
	for range 6 {
		want = append(want, e.add(0, func(m made, _ *Batch) { m.job.Workflow, m.job.Inputs = "large", body(quarter) }).key())
	}
	slices.Reverse(want)
	f := store.JobFilter{Workflow: "large", Limit: 5}
	e.diff("jobs", want[:4], e.jobs(f))
	f.Before = want[3]
	e.diff("the other jobs", want[4:], e.jobs(f))
	e.diff("all jobs", want, e.jobs(store.JobFilter{Workflow: "large"}))
	bare, err := e.st.Jobs(e.ctx, store.JobFilter{Workflow: "large", Limit: 5, Bare: true})
	e.ok(err)
	if len(bare) != 5 || bare[0].Inputs != nil || bare[0].Key() != want[0] || bare[0].WorkerCount != 2 {
		e.Errorf("%d jobs without bodies, want 5: %+v", len(bare), bare[0])
	}
}

func viewBodies(e *env) {
	m := e.add(3, func(m made, _ *Batch) {
		m.steps[0].Input, m.steps[1].Output, m.steps[1].Error = json.RawMessage(`1`), json.RawMessage(`2`), failure("x")
	})
	got, err := e.st.Bodies(e.ctx, append(keysOf(m.steps[:2]...), pawl.StepKey{Job: m.key(), Ord: 1}))
	e.ok(err)
	if len(got) != 2 {
		e.Fatalf("%d steps, want the 2 that exist", len(got))
	}
	for _, want := range m.steps[:2] {
		s := got[want.StepKey]
		if s == nil || s.State != want.State {
			e.Errorf("step %+v, want %+v", s, want)
			continue
		}
		e.diff("input", want.Input, s.Input)
		e.diff("output", want.Output, s.Output)
		e.diff("error", want.Error, s.Error)
	}
}

func stepCounts(e *env) {
	m := e.add(3, func(m made, b *Batch) { b.MoveStep(m.job, m.steps[1], lifecycle.StepSkip) })
	counts, err := e.st.StepCounts(e.ctx, m.key())
	e.ok(err)
	e.diff("counts", map[machine.State]int{lifecycle.StepPending: 2, lifecycle.StepSkipped: 1}, counts)
}

// inFlight: enqueued steps by route, steps in progress by worker.
func inFlight(e *env) {
	e.add(2, enqueued(7, 0))
	e.add(1, enqueued(7, -5))
	e.add(1, enqueued(8, 0))
	e.add(2, claimed(70))
	e.add(1, claimed(0)) // the engine's own
	e.add(2, func(m made, b *Batch) {
		claimed(71)(m, b)
		b.MoveStep(m.job, m.steps[0], lifecycle.StepSuccess)
	})
	e.add(3, nil)
	enqueued, running, err := e.st.InFlight(e.ctx)
	e.ok(err)
	e.diff("enqueued", map[rowkey.Route]int{7: 3, 8: 1}, enqueued)
	e.diff("running", map[rowkey.Worker]int{0: 1, 70: 2, 71: 1}, running)
}

func viewWorkers(e *env) {
	live, dead := e.addWorker(), e.addWorker()
	e.do(&store.Query{Workers: []rowkey.Worker{dead.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[dead.Key()], lifecycle.WorkerTerminate)
		dead.Record = f.Workers[dead.Key()].Record
	})
	all, err := e.st.Workers(e.ctx, store.WorkerFilter{})
	e.ok(err)
	e.diff("workers, newest first", []*pawl.Worker{dead, live}, all)
	living, err := e.st.Workers(e.ctx, store.WorkerFilter{Living: true})
	e.ok(err)
	e.diff("living workers", []*pawl.Worker{live}, living)
	for name, tt := range map[string]struct {
		f    store.WorkerFilter
		want []*pawl.Worker
	}{
		"first page":    {store.WorkerFilter{Limit: 1}, []*pawl.Worker{dead}},
		"second page":   {store.WorkerFilter{Limit: 1, Before: dead.Key()}, []*pawl.Worker{live}},
		"last page":     {store.WorkerFilter{Limit: 1, Before: live.Key()}, nil},
		"page of those": {store.WorkerFilter{Limit: 1, Living: true}, []*pawl.Worker{live}},
	} {
		page, err := e.st.Workers(e.ctx, tt.f)
		e.ok(err)
		e.diff(name, tt.want, page)
	}
}

// trail: every field of every entry is read back, From and Entity included.
func trail(e *env) {
	var want []audit.Entry
	m := e.add(1, func(m made, b *Batch) {
		claimed(3)(m, b)
		for _, entry := range b.Entries {
			if entry.EntityKey == StepKey(m.steps[0]) {
				want = append(want, entry.Entry)
			}
		}
	})
	got, err := e.st.Trail(e.ctx, StepKey(m.steps[0]), 0, 0)
	e.ok(err)
	e.diff("trail", want, got)
	w := e.addWorker()
	got, err = e.st.Trail(e.ctx, WorkerKey(w), 0, 0)
	e.ok(err)
	if len(got) != 1 || got[0].Entity != w.ID.Public(pawl.WorkerPrefix) || got[0].Hash != w.Head {
		e.Errorf("trail of a worker %+v", got)
	}
}

// trails: job by job with its steps, then workers, schedules, tokens, webhooks and pauses of queues, with records;
// f may read.
func trails(e *env) {
	s, t, p, h := e.addSchedule("s", nil), e.addToken("t", nil), e.addPause("q"), e.addWebhook("h", nil)
	w := e.addWorker()
	a, b := e.add(2, nil), e.add(1, nil)
	collect := func(job rowkey.Job) []store.EntityKey {
		var keys []store.EntityKey
		e.ok(e.st.Trails(e.ctx, job, func(t store.TrailOf) error {
			if t.Record.Seq != int64(len(t.Entries)) || t.Record.Head != t.Entries[len(t.Entries)-1].Hash || t.ID != t.Entries[0].Entity {
				e.Errorf("trail %+v does not fit its record", t)
			}
			keys = append(keys, t.EntityKey)
			_, err := e.st.Jobs(e.ctx, store.JobFilter{Limit: 1})
			return err
		}))
		return keys
	}
	e.diff("all", []store.EntityKey{
		JobKey(a.job), StepKey(a.steps[0]), StepKey(a.steps[1]), JobKey(b.job), StepKey(b.steps[0]), WorkerKey(w), ScheduleKey(s), TokenKey(t), PauseKey(p), WebhookKey(h),
	}, collect(0))
	e.diff("one job", []store.EntityKey{JobKey(b.job), StepKey(b.steps[0])}, collect(b.key()))
	e.diff("no job", []store.EntityKey(nil), collect(a.key()-1))
	e.verify(0)
}

func trailsStop(e *env) {
	e.add(3, nil)
	enough := errors.New("enough")
	calls := 0
	err := e.st.Trails(e.ctx, 0, func(store.TrailOf) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		e.Errorf("error %v after %d calls, want that of the first", err, calls)
	}
}

func refusals(e *env) {
	m := e.add(1, nil)
	late := pawl.Refusal{StepKey: m.steps1(), At: 20, Claim: 3, Event: lifecycle.StepSuccess, Actor: "w_1", Why: "it was taken away", Data: json.RawMessage(`{"o":1}`)}
	early := late
	early.At, early.Data = 10, nil
	e.do(&store.Query{}, func(_ *store.Facts, b *Batch) { b.Refusals = append(b.Refusals, late, early) })
	got, err := e.st.Refusals(e.ctx, m.key(), store.RefusalPlace{}, 0)
	e.ok(err)
	for i := range got {
		if got[i].ID == 0 {
			e.Error("a refused fact has no id")
		}
		got[i].ID = 0
	}
	e.diff("refusals", []pawl.Refusal{early, late}, got)
}

// newestSteps: the steps of the newest jobs come first, with the times that they have, and no
// more than were asked for.
func newestSteps(e *env) {
	var want []store.StepTimes
	for i := range int64(3) {
		m := e.add(3, func(m made, b *Batch) {
			s := m.steps[1]
			s.EnqueuedAt, s.StartedAt, s.CompletedAt = 10+i, 20+i, 30+i
		})
		for _, s := range m.steps {
			want = append(want, store.StepTimes{StepKey: s.StepKey, State: s.State, EnqueuedAt: s.EnqueuedAt, StartedAt: s.StartedAt, CompletedAt: s.CompletedAt})
		}
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 4, 9, 100} {
		got, err := e.st.NewestSteps(e.ctx, limit)
		e.ok(err)
		e.diff(fmt.Sprint(limit), want[:min(limit, len(want))], got)
	}
}
