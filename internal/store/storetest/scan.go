package storetest

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var scanTests = []test{
	{name: "J4/JobKeys", run: jobKeys},
	{name: "J4/JobKeysLook", run: jobKeysLook},
	{name: "J4/JobKeysOfEnds", run: jobKeysOfEnds},
}

// keysOf reads the keys of a filter, page by page, and checks each page against its limits.
func (e *env) keysOf(f store.JobFilter, rows int) (all []rowkey.Job) {
	e.Helper()
	all = []rowkey.Job{}
	for {
		keys, next, err := e.st.JobKeys(e.ctx, f, rows)
		e.ok(err)
		if len(keys) > f.Limit || len(keys) > rows {
			e.Fatalf("%d keys of %d rows, with a limit of %d", len(keys), rows, f.Limit)
		}
		all = append(all, keys...)
		if next == 0 {
			return all
		}
		if f.Before != 0 && next >= f.Before || len(keys) > 0 && next > keys[len(keys)-1] {
			e.Fatalf("next is %d, after %v below %d", next, keys, f.Before)
		}
		f.Before = next
	}
}

// jobKeys: in pages of any size, a filter finds the jobs that a list without limits has.
func jobKeys(e *env) {
	parent := e.add(0, nil)
	var all []made
	for i := range 24 {
		all = append(all, e.add(0, func(m made, b *Batch) {
			m.job.Depth, m.job.CreatedAt = i%3, int64(1000+10*i)
			if m.job.Workspace, m.job.Workflow = "w", "flow"; i%4 == 0 {
				m.job.Workspace, m.job.Workflow = "a", "other"
			}
			if i%5 == 0 {
				m.job.Parent = parent.key()
			}
			if i%5 == 1 {
				m.job.Continues = parent.key()
			}
			switch i % 6 {
			case 0:
				b.MoveJob(m.job, lifecycle.JobAllocateResources)
			case 1:
				b.MoveJob(m.job, lifecycle.JobCancel)
			case 2:
				b.MoveJob(m.job, lifecycle.JobCancel)
				m.job.Error = failure("timeout")
			}
		}))
	}
	depth := func(n int) *int { return &n }
	for name, f := range map[string]store.JobFilter{
		"all":           {},
		"workspace":     {Workspace: "a"},
		"workflow":      {Workflow: "other"},
		"depth 0":       {Depth: depth(0)},
		"depth 2":       {Depth: depth(2)},
		"parent":        {Parent: parent.key()},
		"continues":     {Continues: parent.key()},
		"open":          {States: []machine.State{lifecycle.JobPending, lifecycle.JobRunning}},
		"running":       {States: []machine.State{lifecycle.JobRunning}},
		"ended":         {States: []machine.State{lifecycle.JobCanceled}},
		"any states":    {States: []machine.State{lifecycle.JobCanceled, lifecycle.JobRunning}},
		"timed out":     {TimedOut: true},
		"or timed out":  {TimedOut: true, States: []machine.State{lifecycle.JobPending}},
		"children open": {Parent: parent.key(), States: []machine.State{lifecycle.JobPending}},
		"keys":          {From: all[5].key(), Before: all[17].key()},
		"times":         {MadeFrom: 1050, MadeBefore: 1150},
		"no such state": {States: []machine.State{"' OR TRUE --"}},
		"together":      {Workspace: "w", Depth: depth(1), From: all[2].key(), MadeFrom: 1030, States: []machine.State{lifecycle.JobCanceled}},
		"nothing":       {Workspace: "w", Workflow: "other"},
	} {
		want := e.jobs(f)
		if some := name != "nothing" && name != "no such state"; some != (len(want) > 0) {
			e.Errorf("%s: a list has %d jobs", name, len(want))
		}
		for _, size := range []struct{ limit, rows int }{{100, 100}, {1, 100}, {100, 1}, {2, 3}, {3, 3}, {3, 2}} {
			f.Limit = size.limit
			e.diff(fmt.Sprintf("%s, %+v", name, size), want, e.keysOf(f, size.rows))
		}
	}
}

// jobKeysLook: a page looks at no more jobs than it is allowed, and says where it has stopped.
func jobKeysLook(e *env) {
	var all []rowkey.Job
	for i := range 9 {
		all = append(all, e.add(0, func(m made, b *Batch) {
			if i == 0 {
				m.job.Workspace = "rare"
			}
		}).key())
	}
	slices.Reverse(all)
	for _, f := range []store.JobFilter{{Workspace: "rare"}, {Workspace: "rare", States: []machine.State{lifecycle.JobPending}}} {
		f.Limit = 5
		for _, want := range []rowkey.Job{all[3], all[7]} {
			keys, next, err := e.st.JobKeys(e.ctx, f, 4)
			e.ok(err)
			e.diff("a page", []rowkey.Job(nil), keys)
			e.diff("the last that was looked at", want, next)
			f.Before = next
		}
		keys, next, err := e.st.JobKeys(e.ctx, f, 4)
		e.ok(err)
		e.diff("the last page", all[8:], keys)
		e.diff("the end", rowkey.Job(0), next)
	}
}

// jobKeysOfEnds: jobs that have just ended, or were removed, end no page of those in flight.
func jobKeysOfEnds(e *env) {
	first := e.add(0, nil)
	for range 5 {
		m := e.add(1, enqueued(1, 0))
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}}, func(f *store.Facts, b *Batch) { b.MoveJob(f.Jobs[m.key()], lifecycle.JobSuccess) })
	}
	f := store.JobFilter{States: []machine.State{lifecycle.JobPending, lifecycle.JobRunning}, Limit: 2}
	for _, rows := range []int{1, 2, 9} {
		e.diff("in flight", []rowkey.Job{first.key()}, e.keysOf(f, rows))
	}
}
