package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var moveTests = []test{
	{name: "K6/Moves/ByTime", run: movesByTime},
	{name: "K6/Moves/Bounded", run: movesBounded},
}

var everyMachine = []string{lifecycle.Job.Name, lifecycle.Step.Name, lifecycle.Worker.Name, lifecycle.Schedule.Name, lifecycle.Token.Name, lifecycle.QueuePause.Name, lifecycle.Webhook.Name}

// movesByTime: a span of time has what is in it of all trails, whatever lies between a job and
// its move, and if the clock by which its id was made was behind or ahead. The twin reads
// everything.
func movesByTime(e *env) {
	noon := e.now() - 6*time.Hour.Microseconds()
	spread := []time.Duration{0, time.Millisecond, 9 * time.Second, 10 * time.Second, 11 * time.Second, time.Minute, 3 * time.Hour}
	e.addWorker()
	e.addSchedule("nightly", nil)
	e.addToken("ci", nil)
	e.addPause("gpu")
	e.addWebhook("hook", nil)
	for i := range 40 {
		e.spreadJob(noon+rand.Int64N(int64(time.Hour/time.Microsecond)), spread, i)
	}
	all := e.everyMove()
	hour := time.Hour.Microseconds()
	for _, f := range []store.MoveFilter{
		{Machines: everyMachine, To: 1 << 60},
		{Machines: everyMachine, From: noon + hour/2, To: noon + hour},
		{Machines: []string{"step"}, From: noon, To: noon + 2*hour},
		{Machines: []string{"job"}, From: noon + hour/2, To: noon + hour/2 + 20_000_000},
		{Machines: []string{"token", "webhook"}, To: 1 << 60},
		{Machines: everyMachine, To: 1 << 60, Actor: `ada "a\b" ä`},
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v"}},
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v", "w"}, Actor: "suite"},
		{Machines: everyMachine, From: 1 << 60, To: 1 << 61},
		{Machines: everyMachine, To: 1 << 60, Actor: "a\x00\xff"}, // what no text of PostgreSQL holds
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v", "v\x00", "\xff"}},
	} {
		got, err := e.st.Moves(e.ctx, f)
		e.ok(err)
		if !slices.IsSortedFunc(got.List, func(a, b store.Moved) int { return b.Place().Compare(a.Place()) }) {
			e.Errorf("%+v: not the newest first", f)
		}
		list := []string{}
		for i := range got.List {
			list = append(list, showMove(&got.List[i].Event))
		}
		slices.Sort(list)
		e.diff(fmt.Sprintf("%+v", f), selectedMoves(&f, all), list)
	}
}

// spreadJob stores a job that was made at a time, and moves it and its step later: one by the
// spread, in three commits. Every other job is of another actor and workspace.
func (e *env) spreadJob(at int64, spread []time.Duration, i int) {
	e.Helper()
	later := spread[i%len(spread)].Microseconds()
	b := NewBatch(at)
	skew := []int64{0, -8_000_000, 8_000_000, -40_000_000, 40_000_000}[i%5] // of the clock that made the id
	m := made{job: &pawl.Job{ID: e.mint.ID(at + skew), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 2, Inputs: []byte(`{}`), Metadata: []byte(`{}`)}}
	if i%2 == 1 {
		b.Actor, m.job.Workspace = `ada "a\b" ä`, "v"
	}
	actor := b.Actor
	b.AddJob(m.job)
	b.MoveJob(m.job, "validate")
	s := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}}
	b.AddStep(m.job, s)
	m.steps = append(m.steps, s)
	e.ok(e.st.Do(e.ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil }))
	for n, change := range []func(made, *Batch){claimed(1), finished} {
		b := NewBatch(at + later*int64(n+1))
		b.Actor = actor
		if n == 1 {
			b.Actor = `ada "a\b" ä`
		}
		change(m, b)
		e.ok(e.st.Do(e.ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &b.Changes, nil }))
	}
}

func showMove(m *store.Event) string {
	return fmt.Sprint(m.At, " ", m.Workspace, " ", m.Kind, " ", m.Name, " ", m.Entity, " ", m.Sequence, " ", m.To, " ", m.Actor)
}

// everyMove reads all trails, with what they are about.
func (e *env) everyMove() (all []store.Event) {
	e.Helper()
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		for _, entry := range t.Entries {
			m := store.Event{Entry: store.Entry{EntityKey: t.EntityKey, Entry: entry}}
			m.Entity = t.ID
			e.about(&m)
			all = append(all, m)
		}
		return nil
	}))
	return all
}

func (e *env) about(m *store.Event) {
	e.Helper()
	m.Workspace = "w"
	switch m.Kind {
	case lifecycle.Job.Name, lifecycle.Step.Name:
		j, err := e.st.Job(e.ctx, m.EntityKey.Job)
		e.ok(err)
		m.Workspace, m.Name = j.Workspace, j.Workflow
	case lifecycle.Worker.Name:
		m.Name = "host-1"
	case lifecycle.Schedule.Name:
		m.Name = "nightly"
	case lifecycle.Token.Name:
		m.Workspace, m.Name = "", "ci"
	case lifecycle.QueuePause.Name:
		m.Name = "gpu"
	case lifecycle.Webhook.Name:
		m.Name = "hook"
	}
}

func selectedMoves(f *store.MoveFilter, all []store.Event) []string {
	list := []string{}
	for i := range all {
		m := &all[i]
		if slices.Contains(f.Machines, m.Kind) && m.At >= f.From && m.At < f.To && (f.Actor == "" || f.Actor == m.Actor) &&
			(len(f.Workspaces) == 0 || slices.Contains(f.Workspaces, m.Workspace)) {
			list = append(list, showMove(m))
		}
	}
	slices.Sort(list)
	return list
}

// movesBounded: a span with more rows than may be looked at is not read, and one with fewer is.
func movesBounded(e *env) {
	for range 5 {
		e.add(1, nil)
	}
	for _, most := range []int{4, 5} {
		got, err := e.st.Moves(e.ctx, store.MoveFilter{Machines: everyMachine, To: 1 << 60, Most: most})
		e.ok(err)
		if over := most < 5; got.Over != over || over != (len(got.List) == 0) || !over && got.Rows != 5 {
			e.Errorf("of 5 rows, %d may be looked at: over %v, %d rows, %d moves", most, got.Over, got.Rows, len(got.List))
		}
	}
}
