package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// TestQueuesAndCounts: what is in flight, by queue and by state, beside what has ended (J4).
func TestQueuesAndCounts(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"h": g.run, "echo": echo}, capacity: 5})
		p.wait(p.submit(define(t, "name: e\nsteps: [{id: a, handler: echo}]\n"), ""))
		far := p.submit(define(t, "name: far\nsteps: [{id: a, handler: echo}, {id: b, handler: train, queue: gpu, needs: [a]}]\n"), "")
		until(t, "b is enqueued", func() bool { return p.state(far, "b") == string(lifecycle.StepEnqueued) })
		must(t, p.engine.SetQuotas(t.Context(), []pawl.Quota{{Name: "queue/default", Slots: 1}, {Name: "queue/idle", Slots: 2}}, note("few")))
		id := p.submit(define(t, "name: n\nsteps: [{id: w, handler: h, foreach: \"${{ [1, 2, 3] }}\"}]\n"), "")
		g.wait(t)
		until(t, "two instances are enqueued", func() bool { return p.job(id).StepCounts[lifecycle.StepEnqueued] == 2 })

		queues, err := p.engine.Queues(t.Context(), "")
		must(t, err)
		oldest := make(map[string]pawl.Timestamp)
		for i := range queues {
			oldest[queues[i].Name], queues[i].Oldest = queues[i].Oldest, 0
		}
		one, two := 1, 2
		want := []pawl.QueueView{
			{Name: "default", Workspace: "default", Depth: 2, Running: 1, Limit: &one, Workers: 1},
			{Name: "gpu", Workspace: "default", Depth: 1},
			{Name: "idle", Workspace: "default", Limit: &two},
		}
		if diff := cmp.Diff(want, queues); diff != "" {
			t.Errorf("queues (-want +got):\n%s", diff)
		}
		made := p.job(id).CreatedAt
		if at := oldest["gpu"]; at < p.job(far).CreatedAt || at > made || oldest["default"] < made || oldest["idle"] != 0 {
			t.Errorf("oldest %v; the job of gpu was made at %v, the other at %v", oldest, p.job(far).CreatedAt, made)
		}
		if of, err := p.engine.Queues(t.Context(), "other"); err != nil || of == nil || len(of) > 0 {
			t.Errorf("queues of another workspace: %v, %v", of, err)
		}

		type counts = map[machine.State]int
		inFlight := &pawl.Counts{ActiveJobs: 2,
			Workers: counts{lifecycle.WorkerRunning: 1},
			Jobs:    counts{lifecycle.JobRunning: 2, lifecycle.JobCompleted: 1},
			Steps:   counts{lifecycle.StepEnqueued: 3, lifecycle.StepInProgress: 2}, // an instance, and the fan-out itself
		}
		for workspace, want := range map[string]*pawl.Counts{"": inFlight, "default": inFlight, "other": {Workers: counts{}, Jobs: counts{}, Steps: counts{}}} {
			got, err := p.engine.Counts(t.Context(), workspace)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("counts of %q (-want +got):\n%s", workspace, diff)
			}
		}
	})
}

// TestApprovals: the steps that wait for a decision now, of whatever job (J4).
func TestApprovals(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		one := p.submit(define(t, "name: one\nsteps: [{id: ask, approval: {prompt: \"Go?\", expires: 2h, form: {note: {type: string}}}}, {id: nap, sleep: 1h}, {id: told, event: {name: e}}]\n"), "")
		two := p.submit(define(t, "name: two\nsteps: [{id: each, foreach: [1, 2, 3], approval: {prompt: \"Take ${{ item }}?\"}}, {id: then, needs: [each], approval: {prompt: x}}]\n"), "")
		waiting := func(id pawl.ID, keys ...string) {
			for _, key := range keys {
				until(t, key+" waits", func() bool { s := steps(p.job(id))[key]; return s.Wait != nil && s.Status == lifecycle.StepInProgress })
			}
		}
		waiting(one, "ask", "nap", "told")
		waiting(two, "each[0]", "each[1]", "each[2]")
		must(t, errorOf(p.engine.Approve(t.Context(), two, "each[1]", nil, note("yes"))))

		view := func(id pawl.ID, workflow, key, prompt string) pawl.ApprovalView {
			s := steps(p.job(id))[key]
			return pawl.ApprovalView{JobID: id.Public(pawl.JobPrefix), Workspace: "default", Workflow: workflow, StepID: s.ID, Key: key, Prompt: prompt, Form: json.RawMessage("null"), Since: s.StartedAt}
		}
		ask := view(one, "one", "ask", "Go?")
		ask.Form, ask.DueAt = json.RawMessage(`{"note":{"type":"string"}}`), steps(p.job(one))["ask"].Wait.Until
		want := []pawl.ApprovalView{ask, view(two, "two", "each[0]", "Take 1?"), view(two, "two", "each[2]", "Take 3?")}
		if ask.DueAt == 0 || ask.Since == 0 {
			t.Errorf("%+v", ask)
		}
		for _, limit := range []int{0, 1, 2, 3} {
			for workspace, want := range map[string][]pawl.ApprovalView{"": want, "default": want, "other": nil} {
				var got []pawl.ApprovalView
				pages := 0
				for next := ""; ; pages++ {
					page, then, err := p.engine.Approvals(t.Context(), workspace, next, limit)
					if err != nil || page == nil || limit > 0 && len(page) > limit {
						t.Fatalf("a page of %d, by %d: %v", len(page), limit, err)
					}
					if got, next = append(got, page...), then; next == "" {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("approvals of %q, by %d (-want +got):\n%s", workspace, limit, diff)
				}
				if limit == 3 && pages != 0 {
					t.Errorf("%d pages before the last one", pages)
				}
			}
		}
		for _, err := range []error{
			func() error { _, _, err := p.engine.Approvals(t.Context(), "", "j_1", 0); return err }(),
			func() error { _, _, err := p.engine.Approvals(t.Context(), "", "", 1001); return err }(),
		} {
			if pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("%v; want an error of kind Invalid", err)
			}
		}
	})
}

// TestJobVersion rises with every move of a job and of its steps, and with nothing else (J4,
// J11).
func TestJobVersion(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		version := func(id pawl.ID) int64 {
			v, err := p.engine.JobVersion(t.Context(), id)
			must(t, err)
			return v
		}
		id := p.submit(define(t, "name: v\nsteps: [{id: a, handler: echo}, {id: ask, needs: [a], approval: {prompt: x}}]\n"), "")
		until(t, "ask waits", func() bool { return p.state(id, "ask") == string(lifecycle.StepInProgress) })
		was := version(id)
		p.wait(p.submit(define(t, "name: v\nsteps: [{id: a, handler: echo}]\n"), ""))
		if now := version(id); now != was {
			t.Errorf("version %d after another job has run, was %d", now, was)
		}
		must(t, errorOf(p.engine.PauseJob(t.Context(), id, note("wait"))))
		if now := version(id); now <= was {
			t.Errorf("version %d after a pause, was %d", now, was)
		}
		must(t, errorOf(p.engine.ResumeJob(t.Context(), id, note("go"))))
		was = version(id)
		must(t, errorOf(p.engine.Approve(t.Context(), id, "ask", nil, note("yes"))))
		p.wait(id)
		if now := version(id); now < was+2 {
			t.Errorf("version %d after the end of a step and of the job, was %d", now, was)
		}
		sum := int64(0)
		must(t, p.engine.History(t.Context(), id, func(pawl.Transition) error { sum++; return nil }))
		if now := version(id); now != sum {
			t.Errorf("version %d, and %d moves", now, sum)
		}
		if v, err := p.engine.Job(t.Context(), id); err != nil || v.Sequence != sum {
			t.Errorf("a view of version %d, and %d moves; %v", v.Sequence, sum, err)
		}
		if _, err := p.engine.JobVersion(t.Context(), p.engine.NewID()); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("of no job: %v", err)
		}
	})
}

// TestJobBeyondItsFirstPages has all of its steps and moves (J3).
func TestJobBeyondItsFirstPages(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		list := strings.TrimSuffix(strings.Repeat("1, ", store.ListPage+10), ", ")
		id := p.submit(define(t, "name: wide\nsteps:\n  - {id: each, handler: echo, foreach: ["+list+"]}\n  - {id: ask, needs: [each], approval: {prompt: x}}\n"), "")
		until(t, "ask waits", func() bool { return p.state(id, "ask") == string(lifecycle.StepInProgress) })
		for range store.ListPage/2 + 5 {
			must(t, errorOf(p.engine.PauseJob(t.Context(), id, note("wait"))))
			must(t, errorOf(p.engine.ResumeJob(t.Context(), id, note("go"))))
		}
		v := p.job(id)
		if len(v.Steps) != store.ListPage+12 {
			t.Errorf("%d steps, want %d", len(v.Steps), store.ListPage+12)
		}
		for i, move := range v.StateHistory {
			if move.Sequence != int64(i)+1 {
				t.Fatalf("move %d has the sequence %d", i+1, move.Sequence)
			}
		}
		if len(v.StateHistory) < store.ListPage+10 {
			t.Errorf("%d moves, want those of every pause", len(v.StateHistory))
		}
	})
}

// TestPagesShowWhatAJobShows: the steps of a job that has run, one by one and in pages, are
// those of the job itself, and so are the jobs of a list and the workers (J4, J11).
func TestPagesShowWhatAJobShows(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		p.register(define(t, "name: leaf\nsteps: [{id: one, handler: echo}]\noutput: 7\n"))
		id := p.submit(define(t, `
name: wide
steps:
  - {id: each, handler: echo, foreach: [1, 2, 3]}
  - {id: not, handler: echo, if: "${{ false }}"}
  - {id: sub, workflow: leaf, needs: [each]}
`), "")
		p.wait(id)
		pages := func(q pawl.StepQuery) (all []pawl.StepView) {
			for {
				page, next, err := p.engine.StepPage(t.Context(), id, q)
				must(t, err)
				if all = append(all, page...); next == "" {
					return all
				}
				q.After = next
			}
		}
		check := func() {
			t.Helper()
			job := p.job(id)
			for _, limit := range []int{0, 1, 4} {
				if diff := cmp.Diff(job.Steps, pages(pawl.StepQuery{Limit: limit})); diff != "" {
					t.Errorf("steps by %d (-job +pages):\n%s", limit, diff)
				}
			}
			for _, want := range job.Steps {
				if diff := cmp.Diff([]pawl.StepView{want}, pages(pawl.StepQuery{Key: want.Key, Statuses: []machine.State{want.Status}})); diff != "" {
					t.Errorf("step %s (-job +page):\n%s", want.Key, diff)
				}
				step, err := pawl.ParseID(pawl.StepPrefix, want.ID)
				must(t, err)
				got, of, workspace, err := p.engine.Step(t.Context(), step)
				if diff := cmp.Diff(&want, got); err != nil || diff != "" || of != id || workspace != "default" {
					t.Errorf("step %s of %v in %s, %v (-job +step):\n%s", want.Key, of, workspace, err, diff)
				}
			}
		}
		check()
		_, err := p.engine.RedactJob(t.Context(), id, "each", because, nil)
		must(t, err)
		check()
		if s := pages(pawl.StepQuery{Node: "each"}); len(s) != 4 || !s[3].Redacted || string(s[3].Output) != "null" {
			t.Errorf("steps after their redaction: %+v", s)
		}

		child := p.job(id).ChildJobs[0]
		for name, q := range map[string]pawl.JobQuery{
			"the child": {Parent: id.Public(pawl.JobPrefix)},
			"the depth": {Depth: new(int), Statuses: []machine.State{lifecycle.JobCompleted}},
			"all":       {},
			"in time":   {CreatedAfter: p.job(id).CreatedAt, CreatedBefore: p.job(id).CreatedAt + 1},
		} {
			jobs, next, err := p.engine.JobPage(t.Context(), q)
			must(t, err)
			list, err := p.engine.Jobs(t.Context(), q)
			if diff := cmp.Diff(list, jobs); err != nil || diff != "" || next != "" || len(jobs) == 0 || len(jobs) > 1 && name != "all" {
				t.Errorf("%s: %d jobs, next %q, %v (-list +page):\n%s", name, len(jobs), next, err, diff)
			}
			if name == "the child" && jobs[0].ID != child {
				t.Errorf("the child is %s, want %s", jobs[0].ID, child)
			}
		}
		workers, next, err := p.engine.WorkerPage(t.Context(), pawl.WorkerQuery{})
		if err != nil || next != "" || len(workers) != 1 || workers[0].ID != p.worker.ID() {
			t.Errorf("workers %+v, next %q, %v", workers, next, err)
		}
	})
}
