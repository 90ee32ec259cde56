package storetest

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var factTests = []test{
	{name: "Facts/Named", run: factsNamed},
	{name: "Facts/Marked", run: factsMarked},
	{name: "Facts/MarkedLimit", run: factsMarkedLimit},
	{name: "Facts/Waiting", run: factsWaiting},
	{name: "Facts/Open", run: factsOpen},
	{name: "Facts/Nodes", run: factsNodes},
	{name: "Facts/Held", run: factsHeld},
	{name: "Facts/OneRecord", run: factsOneRecord},
}

func keysOf(steps ...*pawl.Step) []pawl.StepKey {
	var keys []pawl.StepKey
	for _, s := range steps {
		keys = append(keys, s.StepKey)
	}
	return keys
}

// factsNamed: existing records are returned, missing ones are omitted.
func factsNamed(e *env) {
	m, w := e.add(2, nil), e.addWorker()
	f := e.see(&store.Query{
		Jobs: []rowkey.Job{m.key(), 5, m.key()}, Workers: []rowkey.Worker{w.Key(), 6},
		Steps: []pawl.StepKey{m.steps[1].StepKey, {Job: m.key(), Ord: 1}},
	})
	if len(f.Jobs) != 1 || len(f.Workers) != 1 || len(f.Steps) != 1 {
		e.Fatalf("%d jobs, %d workers, %d steps; want one of each", len(f.Jobs), len(f.Workers), len(f.Steps))
	}
	e.diff("step", m.steps[1], f.Steps[m.steps[1].StepKey])
	want := *m.job
	want.Inputs, want.Metadata = nil, nil
	e.diff("job", &want, f.Jobs[m.key()])
	if f.Workers[w.Key()].ID != w.ID {
		e.Errorf("worker %v, want %v", f.Workers[w.Key()].ID, w.ID)
	}
}

func factsMarked(e *env) {
	m := e.add(5, func(m made, _ *Batch) {
		attention(7, nil, m.steps[0], m.steps[2])
		attention(6, nil, m.steps[4])
		m.steps[1].Mark = pawl.Waiting
		m.steps[3].Mark = pawl.Blocked
		m.steps[2].Priority = 9
	})
	e.add(1, func(m made, _ *Batch) { m.steps[0].Mark = pawl.Attention })
	view, err := e.st.Marked(e.ctx, m.key())
	e.ok(err)
	e.diff("marked, by time and ord", []*pawl.Step{m.steps[4], m.steps[0], m.steps[2]}, view)
}

func factsMarkedLimit(e *env) {
	m := e.add(store.MaxMarked+10, func(m made, _ *Batch) {
		attention(9, nil, m.steps...)
		attention(10, nil, m.steps[:10]...) // postponed
	})
	view, err := e.st.Marked(e.ctx, m.key())
	e.ok(err)
	e.diff("view of marked", m.steps[10:], view)
}

func factsWaiting(e *env) {
	m := e.add(5, func(m made, _ *Batch) {
		for i, s := range m.steps {
			s.Mark, s.Priority, s.Rank = pawl.Waiting, []int{0, 5, 0, 5, 1}[i], int64(-i)
		}
	})
	f := e.see(&store.Query{Waiting: []store.JobLimit{{Job: m.key(), Limit: 4}}})
	e.diff("waiting, by priority and ord", keysOf(m.steps[1], m.steps[3], m.steps[4], m.steps[0]), f.Waiting[m.key()])
}

func factsOpen(e *env) {
	m := e.add(8, func(m made, b *Batch) {
		enqueued(1, 0)(m, b)
		b.MoveStep(m.job, m.steps[1], lifecycle.StepClaim)
		b.MoveStep(m.job, m.steps[2], lifecycle.StepClaim, lifecycle.StepSuccess)
		b.MoveStep(m.job, m.steps[3], lifecycle.StepClaim, lifecycle.StepFail)
		b.MoveStep(m.job, m.steps[4], lifecycle.StepClaim, lifecycle.StepFailPermanently)
		b.MoveStep(m.job, m.steps[5], lifecycle.StepSkip)
		b.MoveStep(m.job, m.steps[6], lifecycle.StepCancel)
		b.MoveStep(m.job, m.steps[7], lifecycle.StepResolve)
	})
	f := e.see(&store.Query{Open: []rowkey.Job{m.key()}})
	e.diff("open", keysOf(m.steps[0], m.steps[1], m.steps[3]), f.Open[m.key()])
}

// factsNodes: every node, ended or not, and no instance of one.
func factsNodes(e *env) {
	m := e.add(3, func(m made, b *Batch) {
		b.MoveStep(m.job, m.steps[0], lifecycle.StepSkip)
		for _, node := range []int{1, 3} {
			for i := range 3 {
				b.AddStep(m.job, &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(node, i+1)}})
			}
		}
	})
	e.add(1, nil)
	f := e.see(&store.Query{Nodes: []rowkey.Job{m.key(), 5}})
	e.diff("nodes", keysOf(m.steps...), f.Nodes[m.key()])
	if len(f.Nodes[5]) != 0 || len(f.Steps) != 3 || len(f.Jobs) != 0 {
		e.Errorf("%d nodes of a job that is not there, %d steps and %d jobs; want the 3 steps alone", len(f.Nodes[5]), len(f.Steps), len(f.Jobs))
	}
	e.diff("step", m.steps[0], f.Steps[m.steps1()])
}

// factsHeld: steps in progress of a worker, with their jobs.
func factsHeld(e *env) {
	m := e.add(3, func(m made, b *Batch) {
		claimed(77)(m, b)
		m.steps[1].Worker = 78
		b.MoveStep(m.job, m.steps[2], lifecycle.StepSuccess)
	})
	f := e.see(&store.Query{Held: []rowkey.Worker{77, 79}})
	e.diff("held", keysOf(m.steps[0]), f.Held[77])
	if len(f.Held[79]) != 0 {
		e.Errorf("held %v by a worker that holds nothing", f.Held[79])
	}
	want := *m.job
	want.Inputs, want.Metadata = nil, nil
	e.diff("its job", &want, f.Jobs[m.key()])
}

// factsOneRecord: a record that several fields name is one record.
func factsOneRecord(e *env) {
	m := e.add(1, func(m made, b *Batch) {
		claimed(77)(m, b)
		m.steps[0].Mark = pawl.Attention
	})
	f := e.see(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: keysOf(m.steps...), Open: []rowkey.Job{m.key()}, Nodes: []rowkey.Job{m.key()}, Held: []rowkey.Worker{77}})
	if len(f.Steps) != 1 || len(f.Jobs) != 1 {
		e.Fatalf("%d steps and %d jobs, want one of each", len(f.Steps), len(f.Jobs))
	}
	for _, list := range [][]pawl.StepKey{f.Open[m.key()], f.Nodes[m.key()], f.Held[77]} {
		e.diff("list", keysOf(m.steps...), list)
	}
}
