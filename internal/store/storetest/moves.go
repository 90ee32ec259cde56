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
		{Machines: everyMachine, To: 1 << 60, Event: "validate"},
		{Machines: everyMachine, To: 1 << 60, Event: "a\x00\xff"},
		{Machines: everyMachine, To: 1 << 60, State: lifecycle.StepInProgress, Workspaces: []string{"v"}},
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v"}},
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v", "w"}, Actor: "suite"},
		{Machines: everyMachine, From: 1 << 60, To: 1 << 61},
		{Machines: everyMachine, To: 1 << 60, Actor: "a\x00\xff"}, // what no text of PostgreSQL holds
		{Machines: everyMachine, To: 1 << 60, Workspaces: []string{"v", "v\x00", "\xff"}},
	} {
		for _, most := range []int{0, 2, 7, 1000} {
			list := []string{}
			for _, m := range e.movesIn(f, most) {
				list = append(list, showMove(&m.Event))
			}
			slices.Sort(list)
			e.diff(fmt.Sprintf("%+v, %d rows at once", f, most), selectedMoves(&f, all), list)
		}
	}
}

// movesIn reads all entries of a filter, so many rows at once (0: all).
func (e *env) movesIn(f store.MoveFilter, most int) (all []store.Moved) {
	e.Helper()
	for f.Most = most; ; {
		got, err := e.st.Moves(e.ctx, f)
		e.ok(err)
		if most > 0 && got.Rows > most || (got.Last != store.MoveRow{}) != (most > 0 && got.Rows == most) {
			e.Fatalf("%+v: %d rows, the last %+v", f, got.Rows, got.Last)
		}
		for _, m := range got.List {
			if f.Start.Part == 0 || m.Row != f.Start {
				all = append(all, m)
			}
		}
		if got.Last == (store.MoveRow{}) {
			break
		}
		if f.Start == got.Last {
			e.Fatalf("%+v is read for ever", f)
		}
		f.Start = got.Last
	}
	if !slices.IsSortedFunc(all, func(a, b store.Moved) int { return a.Compare(&b) }) {
		e.Errorf("%+v, %d rows at once: not in the order of rows", f, most)
	}
	return all
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
		if slices.Contains(f.Machines, m.Kind) && m.At >= f.From && m.At < f.To && (f.Actor == "" || f.Actor == m.Actor) && (f.Event == "" || f.Event == m.Entry.Event) && (f.State == "" || f.State == m.To) &&
			(len(f.Workspaces) == 0 || slices.Contains(f.Workspaces, m.Workspace)) {
			list = append(list, showMove(m))
		}
	}
	slices.Sort(list)
	return list
}

// movesBounded: rows of other times, of jobs that were made near the time, count as looked at, and no
// further row is.
func movesBounded(e *env) {
	at := e.now() - time.Hour.Microseconds()
	for i := range 5 {
		e.spreadJob(at+int64(i), []time.Duration{time.Second}, 0)
	}
	f := store.MoveFilter{Machines: everyMachine, From: at, To: at + 1000}
	got, err := e.st.Moves(e.ctx, f)
	e.ok(err)
	if got.Rows < 15 || got.Last != (store.MoveRow{}) {
		e.Errorf("%d rows were looked at, the last %+v; want three of each job, and all", got.Rows, got.Last)
	}
	for _, most := range []int{1, 4, got.Rows - 1} {
		f.Most = most
		if some, err := e.st.Moves(e.ctx, f); err != nil || some.Rows != most || some.Last == (store.MoveRow{}) {
			e.Errorf("%d rows may be looked at, and %d were, the last %+v, %v", most, some.Rows, some.Last, err)
		}
	}
}
