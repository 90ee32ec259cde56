package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var scanTests = []test{
	{name: "J4/JobKeys", run: jobKeys},
	{name: "J4/JobKeysLook", run: jobKeysLook},
	{name: "J4/JobKeysOfEnds", run: jobKeysOfEnds},
	{name: "J4/JobKeysOfMetadata", run: jobKeysOfMetadata},
	{name: "J4/StepOrds", run: stepOrds},
	{name: "J4/StepOrdsLook", run: stepOrdsLook},
	{name: "T8/StepsAt", run: stepsAt},
	{name: "J4/Waits", run: waits},
	{name: "J4/JobSequence", run: jobSequence},
	{name: "J3/WholeJob", run: wholeJob},
	{name: "J3/WholeJobAsOfOneMoment", run: wholeJobAsOfOneMoment},
	{name: "J4/Lines", run: linesOfRoutes},
	{name: "J4/Counts", run: countsByState},
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
		"text":          {Text: "THE"},
		"no such state": {States: []machine.State{"' OR TRUE --"}},
		"together":      {Workspace: "w", Depth: depth(1), From: all[2].key(), MadeFrom: 1030, States: []machine.State{lifecycle.JobCanceled}},
		"nothing":       {Workspace: "w", Workflow: "other"},
	} {
		want := e.jobs(f)
		if some := name != "nothing" && name != "no such state"; some != (len(want) > 0) {
			e.Errorf("%s: a list has %d jobs", name, len(want))
		}
		for _, size := range []struct{ limit, rows int }{{100, 100}, {1, 100}, {100, 1}, {2, 3}, {3, 3}, {3, 2}, {2, 10_000}, {100, 10_000}} {
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

// jobKeysOfMetadata: a job has a member at the top level of its metadata alone, whatever its
// text looks like, and each page says where the next one begins.
func jobKeysOfMetadata(e *env) {
	var all []made
	for _, text := range []string{`{"tenant":"acme"}`, `{"tenant":"acme","n":3}`, `{"n":35,"tenant":"other"}`, `{"a":{"tenant":"acme"}}`, `{"a":"\"tenant\":\"acme\""}`,
		`{"tenant":"\u0061cme"}`, `{"tenant":"a\u0000\ud800"}`, `{"ten\u0000ant":"acme"}`, `{"n":"3","tenant":"acme"}`, `{"n":true,"tenant":"ACME"}`, `{"n":null}`,
		`{"tenant":"a \u003cb\u003e %s \\ $1 ' ü"}`, `{"tenant":""}`, "{\"tenant\":\"acme\",\"x\":\"\xff\"}", `{}`, ``} {
		all = append(all, e.add(0, func(m made, b *Batch) {
			if m.job.Metadata = json.RawMessage(text); text == "" {
				m.job.Metadata = nil
			}
			b.MoveJob(m.job, lifecycle.JobAllocateResources)
		}))
	}
	type members = map[string]string
	for name, tt := range map[string]struct {
		want members
		has  []int
	}{
		"a text":          {members{"tenant": "acme"}, []int{13, 8, 5, 1, 0}},
		"a number":        {members{"n": "3"}, []int{8, 1}},
		"two":             {members{"n": "3", "tenant": "acme"}, []int{8, 1}},
		"true":            {members{"n": "true"}, []int{9}},
		"null":            {members{"n": "null"}, []int{10}},
		"empty":           {members{"tenant": ""}, []int{12}},
		"characters":      {members{"tenant": `a <b> %s \ $1 ' ü`}, []int{11}},
		"a name with NUL": {members{"ten\x00ant": "acme"}, []int{7}},
		"no such name":    {members{"x": "acme"}, nil},
		"an object":       {members{"a": `{"tenant":"acme"}`}, []int{3}},
	} {
		want := []rowkey.Job{}
		for _, i := range tt.has {
			want = append(want, all[i].key())
		}
		for _, states := range [][]machine.State{nil, {lifecycle.JobRunning}} {
			for _, size := range []struct{ limit, rows int }{{100, 100}, {1, 100}, {2, 3}, {3, 1}, {2, 10_000}} {
				f := store.JobFilter{Metadata: tt.want, States: states, Limit: size.limit}
				e.diff(fmt.Sprintf("%s of %v, %+v", name, states, size), want, e.keysOf(f, size.rows))
			}
		}
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
	for _, rows := range []int{1, 2, 9, 10_000} {
		e.diff("in flight", []rowkey.Job{first.key()}, e.keysOf(f, rows))
	}
}

// stepOrds: in pages of any size, a filter finds the steps that it selects.
func stepOrds(e *env) {
	e.add(3, nil)
	m := e.add(20, func(m made, b *Batch) {
		for i, s := range m.steps {
			if i%3 == 0 {
				b.MoveStep(m.job, s, lifecycle.StepSkip)
			}
			if i%3 == 1 {
				b.MoveStep(m.job, s, lifecycle.StepCancel)
			}
		}
	})
	e.add(3, nil)
	ords := func(from, to int, states ...machine.State) []pawl.Ord {
		list := []pawl.Ord{}
		for _, s := range m.steps[from:to] {
			if len(states) == 0 || slices.Contains(states, s.State) {
				list = append(list, s.Ord)
			}
		}
		return list
	}
	for name, tt := range map[string]struct {
		f    store.StepFilter
		want []pawl.Ord
	}{
		"all":           {store.StepFilter{}, ords(0, 20)},
		"state":         {store.StepFilter{States: []machine.State{lifecycle.StepSkipped}}, ords(0, 20, lifecycle.StepSkipped)},
		"states":        {store.StepFilter{States: []machine.State{lifecycle.StepSkipped, lifecycle.StepPending}}, ords(0, 20, lifecycle.StepSkipped, lifecycle.StepPending)},
		"no such state": {store.StepFilter{States: []machine.State{"' OR TRUE --"}}, ords(0, 0)},
		"after":         {store.StepFilter{After: m.steps[11].Ord}, ords(12, 20)},
		"through":       {store.StepFilter{Through: m.steps[4].Ord}, ords(0, 5)},
		"one":           {store.StepFilter{After: m.steps[4].Ord - 1, Through: m.steps[4].Ord}, ords(4, 5)},
		"between":       {store.StepFilter{After: m.steps[4].Ord, Through: m.steps[12].Ord, States: []machine.State{lifecycle.StepCancelled}}, ords(5, 13, lifecycle.StepCancelled)},
	} {
		for _, size := range []struct{ limit, rows int }{{100, 100}, {1, 100}, {100, 1}, {2, 3}, {3, 2}} {
			f, got := tt.f, []pawl.Ord{}
			f.Job, f.Limit = m.key(), size.limit
			for {
				page, next, err := e.st.StepOrds(e.ctx, f, size.rows)
				e.ok(err)
				if len(page) > min(size.limit, size.rows) || next != 0 && next <= f.After {
					e.Fatalf("%s, %+v: next is %d, after %v behind %d", name, size, next, page, f.After)
				}
				if got = append(got, page...); next == 0 {
					break
				}
				f.After = next
			}
			e.diff(fmt.Sprintf("%s, %+v", name, size), tt.want, got)
		}
	}
}

// stepOrdsLook: a page looks at no more steps than it is allowed, and says where it has
// stopped.
func stepOrdsLook(e *env) {
	m := e.add(9, func(m made, b *Batch) { b.MoveStep(m.job, m.steps[8], lifecycle.StepSkip) })
	f := store.StepFilter{Job: m.key(), States: []machine.State{lifecycle.StepSkipped}, Limit: 5}
	for _, want := range []*pawl.Step{m.steps[3], m.steps[7]} {
		ords, next, err := e.st.StepOrds(e.ctx, f, 4)
		e.ok(err)
		e.diff("a page", []pawl.Ord(nil), ords)
		e.diff("the last that was looked at", want.Ord, next)
		f.After = next
	}
	ords, next, err := e.st.StepOrds(e.ctx, f, 4)
	e.ok(err)
	e.diff("the last page", []pawl.Ord{m.steps[8].Ord}, ords)
	e.diff("the end", pawl.Ord(0), next)
}

// stepsAt: some steps with their bodies, up to the size of a page.
func stepsAt(e *env) {
	var all []*pawl.Step
	for range 2 {
		all = append(all, e.add(3, func(m made, _ *Batch) {
			for i, s := range m.steps {
				s.Output = []byte(`"` + large(i) + `"`)
			}
		}).steps...)
	}
	none := pawl.StepKey{Job: all[0].Job, Ord: 1}
	for name, tt := range map[string]struct {
		keys []pawl.StepKey
		want []*pawl.Step
	}{
		"some":      {keysOf(all[1], all[3], all[4]), []*pawl.Step{all[1], all[3], all[4]}},
		"a page":    {keysOf(all...), all[:4]},
		"there":     {append([]pawl.StepKey{none}, keysOf(all[2])...), all[2:3]},
		"none":      {nil, nil},
		"not there": {[]pawl.StepKey{none}, nil},
	} {
		steps, err := e.st.StepsAt(e.ctx, tt.keys)
		e.ok(err)
		e.diff(name, tt.want, steps)
	}
}

// waits: in pages of any size, the steps that wait now for something of a kind.
func waits(e *env) {
	var want, other []pawl.StepKey
	looked := 0
	for i := range 6 {
		e.add(6, func(m made, b *Batch) {
			if m.job.Workspace = "w"; i == 4 {
				m.job.Workspace = "a"
			}
			for k, input := range []string{`{"kind":"approval","prompt":"x"}`, `{"kind":"sleep"}`, `["approval"]`, `{"kind":"approval"}`, `{"kind":"approval"}`, `{"kind":"approval"}`} {
				s := m.steps[k]
				s.Input, s.Rank = []byte(input), int64(-i)
			}
			m.steps[2].Total, m.steps[2].Input = 2, []byte(`{"kind":"approval"}`) // the items of a fan-out
			b.MoveJob(m.job, lifecycle.JobAllocateResources)
			for _, s := range m.steps[:5] {
				b.MoveStep(m.job, s, lifecycle.StepEnqueue, lifecycle.StepClaim)
			}
			b.MoveStep(m.job, m.steps[3], lifecycle.StepSuccess)
			m.steps[4].Worker = 9
			looked += 3
			if want = append(want, m.steps[0].StepKey); i == 4 {
				other = append(other, m.steps[0].StepKey)
			}
		})
	}
	for workspace, want := range map[string][]pawl.StepKey{"": want, "a": other, "none": nil} {
		for _, size := range []struct{ limit, rows int }{{100, 100}, {1, 100}, {100, 1}, {2, 3}, {1, 4}, {3, looked / 3}} {
			f := store.WaitFilter{Kind: "approval", Workspace: workspace, Limit: size.limit}
			var got []pawl.StepKey
			for {
				page, next, err := e.st.Waits(e.ctx, f, size.rows)
				e.ok(err)
				if len(page) > min(size.limit, size.rows) || next.Job != 0 && next.Compare(f.After) <= 0 {
					e.Fatalf("%q, %+v: next is %v, after %v behind %v", workspace, size, next, page, f.After)
				}
				if got = append(got, page...); next.Job == 0 {
					break
				}
				f.After = next
			}
			e.diff(fmt.Sprintf("%q, %+v", workspace, size), want, got)
		}
	}
}

// linesOfRoutes: what is enqueued, and what workers hold, by route.
func linesOfRoutes(e *env) {
	a, b := e.newRoute(), e.newRoute()
	if a > b {
		a, b = b, a
	}
	c := max(a, b) + 1
	at := func(times ...int64) func(made, *Batch) {
		return func(m made, batch *Batch) {
			for i, s := range m.steps {
				s.EnqueuedAt = times[i]
			}
			enqueued(a, 0)(m, batch)
		}
	}
	first := e.add(2, at(500, 400))
	e.add(1, at(300))
	held := e.add(3, func(m made, batch *Batch) {
		claimed(9)(m, batch)
		m.steps[0].Route, m.steps[1].Route, m.steps[2].Route = a, c, c
	})
	e.add(1, claimed(0)) // the engine's own
	other := e.add(1, func(m made, batch *Batch) { m.steps[0].EnqueuedAt = 7; enqueued(b, 5)(m, batch) })
	e.add(1, func(m made, batch *Batch) {
		claimed(9)(m, batch)
		batch.MoveStep(m.job, m.steps[0], lifecycle.StepSuccess)
	})
	lines := func(limit int) []store.Line {
		got, err := e.st.Lines(e.ctx, limit)
		e.ok(err)
		return got
	}
	onB := store.Line{Route: b, Job: other.key(), Enqueued: 1, Oldest: 7}
	onC := store.Line{Route: c, Job: held.key(), Running: 2}
	e.diff("lines", []store.Line{{Route: a, Job: first.key(), Enqueued: 3, Oldest: 300, Running: 1}, onB, onC}, lines(10))
	e.diff("one line", []store.Line{{Route: a, Job: first.key(), Enqueued: 3, Oldest: 300, Running: 1}, onC}, lines(1))
}

// countsByState: all that has not ended, and what has ended among the newest.
func countsByState(e *env) {
	in := func(workspace string, f func(made, *Batch)) func(made, *Batch) {
		return func(m made, b *Batch) {
			if m.job.Workspace = workspace; f != nil {
				f(m, b)
			}
		}
	}
	ended := func(m made, b *Batch) { b.MoveJob(m.job, lifecycle.JobCancel) }
	worker := func(workspace string, events ...machine.Event) {
		e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
			w := &pawl.Worker{ID: e.mint.ID(f.Now), Workspace: workspace, Name: "x", Host: "h", PID: 1, Capacity: 1}
			b.AddWorker(w)
			b.MoveWorker(w, events...)
		})
	}
	e.add(0, in("a", ended))
	e.add(0, in("a", nil))
	e.add(2, in("a", enqueued(3, 0)))
	e.add(3, in("b", claimed(9)))
	e.add(1, in("b", claimed(0)))
	e.add(4, in("b", func(m made, b *Batch) {
		enqueued(4, 0)(m, b)
		m.steps[0].Worker = 9
		b.MoveStep(m.job, m.steps[0], lifecycle.StepClaim, lifecycle.StepSuccess)
	}))
	for range 3 {
		e.add(1, in("b", ended))
	}
	worker("a", lifecycle.WorkerTerminate)
	worker("a")
	worker("b")
	worker("b", lifecycle.WorkerStartTask, lifecycle.WorkerPause)
	worker("b", lifecycle.WorkerTerminate)
	type counts = map[machine.State]int
	for name, tt := range map[string]struct {
		workspace string
		newest    int
		want      store.Counts
	}{
		"all": {"", 10, store.Counts{
			Workers: counts{lifecycle.WorkerIdle: 2, lifecycle.WorkerPaused: 1, lifecycle.WorkerTerminated: 2},
			Jobs:    counts{lifecycle.JobPending: 1, lifecycle.JobRunning: 4, lifecycle.JobCanceled: 4},
			Steps:   counts{lifecycle.StepEnqueued: 5, lifecycle.StepInProgress: 4}}},
		"of a workspace": {"b", 10, store.Counts{
			Workers: counts{lifecycle.WorkerIdle: 1, lifecycle.WorkerPaused: 1, lifecycle.WorkerTerminated: 1},
			Jobs:    counts{lifecycle.JobRunning: 3, lifecycle.JobCanceled: 3},
			Steps:   counts{lifecycle.StepEnqueued: 3, lifecycle.StepInProgress: 4}}},
		"newest": {"", 2, store.Counts{More: true,
			Workers: counts{lifecycle.WorkerIdle: 2, lifecycle.WorkerPaused: 1, lifecycle.WorkerTerminated: 1},
			Jobs:    counts{lifecycle.JobPending: 1, lifecycle.JobRunning: 4, lifecycle.JobCanceled: 2},
			Steps:   counts{lifecycle.StepEnqueued: 5, lifecycle.StepInProgress: 4}}},
		"newest of a workspace": {"a", 2, store.Counts{More: true,
			Workers: counts{lifecycle.WorkerIdle: 1}, Jobs: counts{lifecycle.JobPending: 1, lifecycle.JobRunning: 1}, Steps: counts{lifecycle.StepEnqueued: 2}}},
		"no such workspace": {"c", 10, store.Counts{Workers: counts{}, Jobs: counts{}, Steps: counts{}}},
	} {
		got, err := e.st.Counts(e.ctx, tt.workspace, tt.newest)
		e.ok(err)
		e.diff(name, &tt.want, got)
	}
}

// jobSequence is the sum over a job and its steps: it rises with each of their moves.
func jobSequence(e *env) {
	other, bare := e.add(2, enqueued(1, 0)), e.add(0, nil)
	m := e.add(3, nil)
	of := func(m made) int64 {
		id, sum, err := e.st.JobSequence(e.ctx, m.key())
		e.ok(err)
		e.diff("id", m.job.ID, id)
		return sum
	}
	was := of(m)
	e.diff("of a new job", m.job.Seq+3, was)
	e.diff("of a job without steps", bare.job.Seq, of(bare))
	e.diff("of another", other.job.Seq+2*other.steps[0].Seq, of(other))
	for _, move := range []func(f *store.Facts, b *Batch){
		func(f *store.Facts, b *Batch) { b.MoveJob(f.Jobs[m.key()], lifecycle.JobAllocateResources) },
		func(f *store.Facts, b *Batch) {
			b.MoveStep(f.Jobs[m.key()], f.Steps[m.steps[2].StepKey], lifecycle.StepEnqueue)
		},
	} {
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: keysOf(m.steps[2])}, move)
		e.diff("after a move", was+1, of(m))
		was++
	}
	if _, _, err := e.st.JobSequence(e.ctx, 1); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("of no job: %v", err)
	}
}

// wholeJob has what the single views have, and the first page of what is long.
func wholeJob(e *env) {
	m, bare, long := e.add(3, nil), e.add(0, nil), e.add(store.ListPage+1, nil)
	for range 2 {
		e.add(0, func(c made, _ *Batch) { c.job.Parent = m.key() })
	}
	e.do(&store.Query{Jobs: []rowkey.Job{m.key()}}, func(f *store.Facts, b *Batch) { b.MoveJob(f.Jobs[m.key()], lifecycle.JobAllocateResources) })
	for name, of := range map[string]made{"a job": m, "without steps": bare, "with many steps": long} {
		want := new(store.WholeJob)
		var err error
		want.Job, err = e.st.Job(e.ctx, of.key())
		e.ok(err)
		_, want.Sequence, err = e.st.JobSequence(e.ctx, of.key())
		e.ok(err)
		want.Counts, err = e.st.StepCounts(e.ctx, of.key())
		e.ok(err)
		want.Children, err = e.st.Jobs(e.ctx, store.JobFilter{Parent: of.key(), Bare: true})
		e.ok(err)
		want.Steps, err = e.st.Steps(e.ctx, of.key(), 0, store.ListPage)
		e.ok(err)
		want.Entries, err = e.st.Trail(e.ctx, store.JobEntity(of.key()), 0, store.ListPage)
		e.ok(err)
		got, err := e.st.WholeJob(e.ctx, of.key())
		e.ok(err)
		e.diff(name, want, got)
		e.diff(name+": has all steps", of.key() != long.key(), got.HasAllSteps())
		e.diff(name+": has all entries", true, got.HasAllEntries())
	}
	if _, err := e.st.WholeJob(e.ctx, 1); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("of no job: %v", err)
	}
}

// wholeJobAsOfOneMoment: its parts agree while its steps move.
func wholeJobAsOfOneMoment(e *env) {
	m := e.add(200, nil)
	ctx, stop := context.WithCancel(e.ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			w, err := e.st.WholeJob(e.ctx, m.key())
			if err != nil {
				e.Error(err)
				return
			}
			sum, counts := w.Job.Seq, map[machine.State]int{}
			for _, s := range w.Steps {
				sum += s.Seq
				counts[s.State]++
			}
			if sum != w.Sequence || !maps.Equal(counts, w.Counts) || !w.HasAllSteps() || !w.HasAllEntries() {
				e.Errorf("sequence %d, of what was read %d; counts %v and %v", w.Sequence, sum, w.Counts, counts)
				return
			}
		}
	})
	defer reader.Wait()
	defer stop()
	for _, s := range m.steps {
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: keysOf(s)}, func(f *store.Facts, b *Batch) {
			b.MoveStep(f.Jobs[m.key()], f.Steps[s.StepKey], lifecycle.StepEnqueue)
		})
	}
}
