package remote_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// alike is what may differ between the results of a local engine and a remote one: how they
// write that there is nothing, and what JSON does not show.
var alike = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[json.RawMessage]() }, cmpopts.EquateEmpty()),
	cmp.Comparer(func(a, b json.RawMessage) bool {
		nothing := func(m json.RawMessage) bool { return len(m) == 0 || string(m) == "null" }
		return nothing(a) && nothing(b) || bytes.Equal(compact(a), compact(b))
	}),
	cmpopts.IgnoreFields(pawl.StepView{}, "Ord", "Claim"),
	cmpopts.IgnoreFields(pawl.Version{}, "Definition"),
	cmp.Comparer(func(a, b *workflow.Definition) bool { return a.Hash() == b.Hash() }),
}

func compact(m json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, m) != nil {
		return m
	}
	return b.Bytes()
}

// all returns what each yields.
func all[T any](each func(func(T) error) error) (list []T, err error) {
	err = each(func(v T) error {
		list = append(list, v)
		return nil
	})
	return list, err
}

// A pair is two results.
type pair struct{ A, B any }

// TestReadsAreTheSame calls each method that reads, on the engine and through its API, and
// compares the results (J3).
func TestReadsAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	ctx := t.Context()
	stop := s.work(t)
	def, err := workflow.Parse("test", []byte(quick))
	must(t, err)
	_, err = s.local.Submit(ctx, pawl.Submission{Definition: def.Canonical(), Metadata: json.RawMessage(`{"team": "billing, and more", "n": 1}`), Actor: "ada"})
	must(t, err)
	c := pawl.Change{Actor: "ada", Reason: "a test"}
	n := pawl.WorkflowName{Workspace: "default", Name: "order"}
	for _, source := range []string{order, order + "description: the second\n"} {
		_, _, err := s.local.RegisterWorkflow(ctx, "default", canonical(t, source), "", c)
		must(t, err)
	}
	nightly := pawl.ScheduleName{Workspace: "default", Name: "nightly"}
	_, err = s.local.PutSchedule(ctx, pawl.SchedulePlan{Workspace: "default", Name: "nightly", Workflow: "order", Cron: "0 3 1 1 *", CatchUp: time.Hour}, false, c)
	must(t, err)
	must(t, s.local.SetQuotas(ctx, []pawl.Quota{{Workspace: "default", Name: "queue/a", Slots: 2}}, c))
	_, err = s.local.PauseQueue(ctx, pawl.QueueName{Workspace: "default", Name: "b"}, c)
	must(t, err)
	job, done, failed := submit(t, s.local, order, `{}`), submit(t, s.local, quick, `{}`), submit(t, s.local, order, `{"fail":"no money"}`)
	var waiting []pawl.ID
	for range 120 { // more than a page
		waiting = append(waiting, submit(t, s.local, many, `{}`))
	}
	for _, id := range waiting {
		until(t, s.local, id, stepIs("go", func(v *pawl.StepView) bool { return v.Status == lifecycle.StepInProgress }))
	}
	_, err = s.local.Wait(ctx, done)
	must(t, err)
	until(t, s.local, job, stepIs("ship", func(v *pawl.StepView) bool { return v.Status == lifecycle.StepInProgress }))
	until(t, s.local, failed, stepIs("work", func(v *pawl.StepView) bool { return v.NotBefore != 0 }))
	text := strings.Repeat("line\n", 10)
	for i := range 130 {
		must(t, s.local.AppendLogs(ctx, []pawl.Chunk{{StepKey: pawl.StepKey{Job: job.JobKey(), Ord: pawl.MakeOrd(1, 0)}, Claim: 1, Stream: "stdout",
			Offset: int64(i * len(text)), At: 1e15 + int64(i), Data: []byte(text)}}))
	}
	stop()
	workers, err := s.local.Workers(ctx, pawl.WorkerQuery{Statuses: lifecycle.Worker.States})
	must(t, err)
	clerk, err := pawl.ParseID(pawl.WorkerPrefix, workers[0].ID)
	must(t, err)
	view, err := s.local.Job(ctx, job)
	must(t, err)
	step, err := pawl.ParseID(pawl.StepPrefix, view.Steps[1].ID)
	must(t, err)
	depth, unknown := 0, pawl.WorkflowName{Workspace: "default", Name: "none"}
	page := func(list any, next string, err error) (any, error) { return pair{list, next != ""}, err }

	for _, tt := range []struct {
		name string
		call func(link.Engine) (any, error)
	}{
		{"Job", func(e link.Engine) (any, error) { return e.Job(ctx, job) }},
		{"Job: unknown", func(e link.Engine) (any, error) { return e.Job(ctx, clerk) }},
		{"Jobs", func(e link.Engine) (any, error) { return e.Jobs(ctx, pawl.JobQuery{}) }},
		{"Jobs: many", func(e link.Engine) (any, error) { return e.Jobs(ctx, pawl.JobQuery{Limit: 1000}) }},
		{"Jobs: some", func(e link.Engine) (any, error) {
			return e.Jobs(ctx, pawl.JobQuery{Workspace: "default", Workflow: "order", Depth: &depth, TimedOut: true, Limit: 110,
				Statuses: []machine.State{lifecycle.JobRunning, lifecycle.JobCompleted}, CreatedAfter: 1, CreatedBefore: pawl.Timestamp(4e15)})
		}},
		{"Jobs: older", func(e link.Engine) (any, error) {
			return e.Jobs(ctx, pawl.JobQuery{Before: failed.Public(pawl.JobPrefix)})
		}},
		{"Jobs: bad limit", func(e link.Engine) (any, error) { return e.Jobs(ctx, pawl.JobQuery{Limit: -1}) }},
		{"JobPage", func(e link.Engine) (any, error) {
			jobs, next, err := e.JobPage(ctx, pawl.JobQuery{Limit: 100})
			if err != nil {
				return nil, err
			}
			rest, _, err := e.JobPage(ctx, pawl.JobQuery{Limit: 100, Before: next})
			return pair{jobs, rest}, err
		}},
		{"RecentJobs", func(e link.Engine) (any, error) {
			var ids []pawl.ID
			err := e.RecentJobs(ctx, "default", 115, func(j *pawl.Job) bool { ids = append(ids, j.ID); return true })
			return ids, err
		}},
		{"RecentJobs: two", func(e link.Engine) (any, error) {
			var names []string
			err := e.RecentJobs(ctx, "default", 115, func(j *pawl.Job) bool {
				names = append(names, j.Workflow+string(j.State))
				return len(names) < 2
			})
			return names, err
		}},
		{"StepPage", func(e link.Engine) (any, error) { return page(e.StepPage(ctx, job, pawl.StepQuery{Limit: 2})) }},
		{"StepPage: unknown step", func(e link.Engine) (any, error) { return page(e.StepPage(ctx, job, pawl.StepQuery{Key: "none"})) }},
		{"Step", func(e link.Engine) (any, error) {
			v, of, workspace, err := e.Step(ctx, step)
			return pair{v, pair{of, workspace}}, err
		}},
		{"StepHistory", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.Transition) error) error { return e.StepHistory(ctx, step, f) })
		}},
		{"History", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.Transition) error) error { return e.History(ctx, job, f) })
		}},
		{"History: until an error", func(e link.Engine) (any, error) {
			return nil, e.History(ctx, job, func(pawl.Transition) error { return pawl.Errorf(pawl.Conflict, "enough") })
		}},
		{"HistoryPage", func(e link.Engine) (any, error) {
			return page(e.HistoryPage(ctx, job, pawl.HistoryQuery{Step: "work", Limit: 2}))
		}},
		{"Past: sequence", func(e link.Engine) (any, error) { return e.Past(ctx, job, pawl.Moment{Sequence: 1}) }},
		{"Past: time", func(e link.Engine) (any, error) { return e.Past(ctx, job, pawl.Moment{Time: view.CreatedAt}) }},
		{"Why", func(e link.Engine) (any, error) { return e.Why(ctx, job, "") }},
		{"Why: step", func(e link.Engine) (any, error) { return e.Why(ctx, failed, "work") }},
		{"Why: unknown step", func(e link.Engine) (any, error) { return e.Why(ctx, failed, "none") }},
		{"Stuck", func(e link.Engine) (any, error) {
			return e.Stuck(ctx, pawl.JobQuery{Workspace: "default", Workflow: "order", Statuses: []machine.State{lifecycle.JobRunning}, Limit: 10}, 0)
		}},
		{"Stuck: that need attention", func(e link.Engine) (any, error) {
			return e.Stuck(ctx, pawl.JobQuery{Stuck: time.Microsecond, Metadata: map[string]string{"a&b": "c=d"}}, 0)
		}},
		{"JobPage: stuck", func(e link.Engine) (any, error) {
			return page(e.JobPage(ctx, pawl.JobQuery{Stuck: time.Microsecond, Limit: 10}))
		}},
		{"JobPage: metadata", func(e link.Engine) (any, error) {
			return page(e.JobPage(ctx, pawl.JobQuery{Metadata: map[string]string{"team": "billing, and more", "n": "1"}, Limit: 10}))
		}},
		{"JobPage: stuck and ended", func(e link.Engine) (any, error) {
			return page(e.JobPage(ctx, pawl.JobQuery{Stuck: time.Microsecond, Statuses: []machine.State{lifecycle.JobFailed}}))
		}},
		{"Logs", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.LogLine) error) error { return e.Logs(ctx, job, "", f) })
		}},
		{"LogPage", func(e link.Engine) (any, error) {
			return page(e.LogPage(ctx, job, pawl.LogQuery{Step: "work", Stream: "stdout", Limit: 3}))
		}},
		{"Definition", func(e link.Engine) (any, error) { return e.Definition(ctx, job) }},
		{"Counts", func(e link.Engine) (any, error) { return e.Counts(ctx, "default") }},
		{"JobVersion", func(e link.Engine) (any, error) { return e.JobVersion(ctx, job) }},
		{"VerifyTrail", func(e link.Engine) (any, error) { return e.VerifyTrail(ctx, job, nil) }},
		{"VerifyTrail: all", func(e link.Engine) (any, error) { return e.VerifyTrail(ctx, pawl.ID{}, func(int64) {}) }},
		{"VerifyTrail: unknown", func(e link.Engine) (any, error) { return e.VerifyTrail(ctx, clerk, nil) }},
		{"ExportTrail", func(e link.Engine) (any, error) {
			var b bytes.Buffer
			err := e.ExportTrail(ctx, job, &b)
			return b.String(), err
		}},
		{"ExportTrail: all", func(e link.Engine) (any, error) {
			var b bytes.Buffer
			err := e.ExportTrail(ctx, pawl.ID{}, &b)
			return b.String(), err
		}},
		{"ExportTrail: unknown", func(e link.Engine) (any, error) { return nil, e.ExportTrail(ctx, clerk, &bytes.Buffer{}) }},
		{"WriteCheckpoint", func(e link.Engine) (any, error) {
			var b bytes.Buffer
			head, err := e.WriteCheckpoint(ctx, &b, "")
			if err != nil {
				return nil, err
			}
			head.At = 0
			_, leaves, _ := bytes.Cut(b.Bytes(), []byte("\n"))
			return pair{head, string(leaves)}, nil
		}},
		{"Approvals", func(e link.Engine) (any, error) { return page(e.Approvals(ctx, "default", "", 10)) }},
		{"Wait", func(e link.Engine) (any, error) {
			j, err := e.Wait(ctx, done)
			if err != nil {
				return nil, err
			}
			return pair{j.State, pair{j.Output, j.ID}}, nil
		}},
		{"Lookup", func(e link.Engine) (any, error) {
			v, def, err := e.Lookup(ctx, n, 0)
			return pair{v, def}, err
		}},
		{"Lookup: version", func(e link.Engine) (any, error) {
			v, def, err := e.Lookup(ctx, n, 1)
			return pair{v, def}, err
		}},
		{"Lookup: unknown", func(e link.Engine) (any, error) { _, _, err := e.Lookup(ctx, unknown, 0); return nil, err }},
		{"Lookup: unknown version", func(e link.Engine) (any, error) { _, _, err := e.Lookup(ctx, n, 7); return nil, err }},
		{"Workflows", func(e link.Engine) (any, error) {
			return all(func(f func(*pawl.Version) error) error { return e.Workflows(ctx, "default", f) })
		}},
		{"Versions", func(e link.Engine) (any, error) {
			return all(func(f func(*pawl.Version) error) error { return e.Versions(ctx, n, f) })
		}},
		{"Versions: unknown", func(e link.Engine) (any, error) {
			return all(func(f func(*pawl.Version) error) error { return e.Versions(ctx, unknown, f) })
		}},
		{"PlanMoves", func(e link.Engine) (any, error) { return e.PlanMoves(ctx, "default", canonical(t, order)) }},
		{"Workers", func(e link.Engine) (any, error) {
			return e.Workers(ctx, pawl.WorkerQuery{Workspace: "default", Statuses: lifecycle.Worker.States})
		}},
		{"WorkerPage", func(e link.Engine) (any, error) { return page(e.WorkerPage(ctx, pawl.WorkerQuery{Limit: 1})) }},
		{"Worker", func(e link.Engine) (any, error) { return e.Worker(ctx, clerk) }},
		{"WorkerHistory", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.Transition) error) error { return e.WorkerHistory(ctx, clerk, f) })
		}},
		{"WorkerHistoryPage", func(e link.Engine) (any, error) {
			return page(e.WorkerHistoryPage(ctx, clerk, pawl.HistoryQuery{Limit: 1}))
		}},
		{"Schedules", func(e link.Engine) (any, error) {
			return all(func(f func(*pawl.ScheduleView) error) error { return e.Schedules(ctx, "default", 2, f) })
		}},
		{"Schedule", func(e link.Engine) (any, error) { return e.Schedule(ctx, nightly, 0) }},
		{"Schedule: unknown", func(e link.Engine) (any, error) {
			return e.Schedule(ctx, pawl.ScheduleName{Workspace: "default", Name: "none"}, 0)
		}},
		{"ScheduleHistory", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.Transition) error) error { return e.ScheduleHistory(ctx, nightly, f) })
		}},
		{"ScheduleHistoryPage", func(e link.Engine) (any, error) {
			return page(e.ScheduleHistoryPage(ctx, nightly, pawl.HistoryQuery{Limit: 1}))
		}},
		{"Queues", func(e link.Engine) (any, error) { return e.Queues(ctx, "default") }},
		{"Queue", func(e link.Engine) (any, error) { return e.Queue(ctx, pawl.QueueName{Workspace: "default", Name: "b"}) }},
		{"Queue: none", func(e link.Engine) (any, error) { return e.Queue(ctx, pawl.QueueName{Workspace: "default", Name: "z"}) }},
		{"QueueHistory", func(e link.Engine) (any, error) {
			return all(func(f func(pawl.Transition) error) error {
				return e.QueueHistory(ctx, pawl.QueueName{Workspace: "default", Name: "b"}, f)
			})
		}},
		{"Quotas", func(e link.Engine) (any, error) { return e.Quotas(ctx, "default") }},
		{"Prospects", func(e link.Engine) (any, error) { return e.Prospects(ctx, 24*time.Hour) }},
	} {
		want, wrong := tt.call(s.local)
		got, err := tt.call(e)
		if diff := cmp.Diff(want, got, alike); diff != "" {
			t.Errorf("%s: through the API there is a difference (-local +remote):\n%s", tt.name, diff)
		}
		sameError(t, tt.name, wrong, err)
	}
}

// sameError requires that an error of a remote engine is what that of a local one is.
func sameError(t *testing.T, what string, want, got error) {
	t.Helper()
	if (want == nil) != (got == nil) || want != nil && (want.Error() != got.Error() || pawl.KindOf(want) != pawl.KindOf(got)) {
		t.Errorf("%s: error %v (kind %d), and locally %v (kind %d)", what, got, pawl.KindOf(got), want, pawl.KindOf(want))
	}
	var ours, theirs *machine.Refusal
	errors.As(want, &ours)
	errors.As(got, &theirs)
	if diff := cmp.Diff(ours, theirs, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: the refusal differs (-local +remote):\n%s", what, diff)
	}
	var our, their *pawl.Error
	if errors.As(want, &our) && errors.As(got, &their) && our.Hint != their.Hint {
		t.Errorf("%s: hint %q, and locally %q", what, their.Hint, our.Hint)
	}
}

// A subject is what a command is given to: made anew for each of the two engines, with names
// of its own.
type subject struct {
	engine link.Engine
	job    pawl.ID
	name   string
}

// TestCommandsAreTheSame gives each command twice, to the engine and through its API, and then
// each once more: receipts and refusals are the same (J3, J5).
func TestCommandsAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	ctx := t.Context()
	defer s.work(t)()
	c := pawl.Change{Actor: "ada@host", Reason: "a test"}
	for _, source := range []string{order, order + "description: the second\n", many} {
		_, _, err := s.local.RegisterWorkflow(ctx, "default", canonical(t, source), "", c)
		must(t, err)
	}
	waiting := stepIs("ship", func(v *pawl.StepView) bool { return v.Status == lifecycle.StepInProgress })
	backoff := stepIs("work", func(v *pawl.StepView) bool { return v.NotBefore != 0 })
	broken := stepIs("work", func(v *pawl.StepView) bool { return v.Status == lifecycle.StepPermanentError })
	hasEnded := func(v *pawl.JobView) bool { return lifecycle.Job.Ended(v.Status) }
	plan := func(x *subject) pawl.SchedulePlan {
		return pawl.SchedulePlan{Workspace: "default", Name: x.name, Workflow: "order", Cron: "0 3 1 1 *", Inputs: json.RawMessage(`{"fail":""}`), Overlap: "queue"}
	}
	named := func(x *subject) pawl.ScheduleName { return pawl.ScheduleName{Workspace: "default", Name: x.name} }
	scheduled := func(x *subject) {
		_, err := s.local.PutSchedule(ctx, plan(x), false, c)
		must(t, err)
	}
	job := func(source, inputs string, ready func(*pawl.JobView) bool) func(*subject) {
		return func(x *subject) {
			x.job = submit(t, s.local, source, inputs)
			until(t, s.local, x.job, ready)
		}
	}
	none := func(*subject) {}

	for number, tt := range []struct {
		name string
		make func(*subject)
		do   func(*subject) (any, error)
	}{
		{"Submit", none, func(x *subject) (any, error) {
			done, err := x.engine.Submit(ctx, pawl.Submission{Definition: canonical(t, many), Actor: "ada", Description: "one", Priority: 999})
			done[0].ID = pawl.ID{}
			return done, err
		}},
		{"Submit: many", none, func(x *subject) (any, error) {
			sub := pawl.Submission{Definition: canonical(t, many), Actor: "ada", Inputs: json.RawMessage(`{}`)}
			bad, registered := sub, sub
			bad.Inputs, registered.Version = json.RawMessage(`{"size":1}`), 1
			registered.Definition = canonical(t, many)
			done, err := x.engine.Submit(ctx, sub, bad, registered)
			for i := range done {
				done[i].ID = pawl.ID{}
			}
			if len(done) != 3 || done[1].Err == nil {
				return done, err
			}
			wrong := done[1].Err.Error()
			done[1].Err = nil
			return pair{done, wrong}, err
		}},
		{"Cancel", job(order, `{}`, waiting), func(x *subject) (any, error) {
			r, err := x.engine.Cancel(ctx, x.job, c)
			until(t, s.local, x.job, hasEnded)
			return r, err
		}},
		{"PauseJob", job(order, `{}`, waiting), func(x *subject) (any, error) { return x.engine.PauseJob(ctx, x.job, c) }},
		{"ResumeJob", job(order, `{}`, waiting), func(x *subject) (any, error) { return x.engine.ResumeJob(ctx, x.job, c) }},
		{"RetryJob", job(quick, `{}`, hasEnded), func(x *subject) (any, error) {
			return x.engine.RetryJob(ctx, x.job, pawl.Retry{From: []string{"work"}}, c)
		}},
		{"RetryJob: unknown step", job(quick, `{}`, hasEnded), func(x *subject) (any, error) {
			return x.engine.RetryJob(ctx, x.job, pawl.Retry{From: []string{"none"}}, c)
		}},
		{"MoveJob", func(x *subject) {
			done, err := s.local.Submit(ctx, pawl.Submission{Definition: canonical(t, order), Version: 1, Actor: "ada"})
			must(t, err)
			x.job = done[0].ID
			until(t, s.local, x.job, waiting)
		}, func(x *subject) (any, error) {
			m, err := x.engine.MoveJob(ctx, x.job, 2, false, c)
			if m != nil {
				m.JobID = ""
			}
			return m, err
		}},
		{"Signal", job(order, `{}`, waiting), func(x *subject) (any, error) {
			return x.engine.Signal(ctx, x.job, "paid", json.RawMessage(`{"cents":1}`), c)
		}},
		{"Signal: unknown", job(order, `{}`, waiting), func(x *subject) (any, error) { return x.engine.Signal(ctx, x.job, "none", nil, c) }},
		{"RetryStep", job(order, `{"fail":"no"}`, backoff), func(x *subject) (any, error) {
			r, err := x.engine.RetryStep(ctx, x.job, "work", c)
			until(t, s.local, x.job, hasEnded)
			return r, err
		}},
		{"SkipStep", job(order, `{"fail":"no"}`, backoff), func(x *subject) (any, error) {
			r, err := x.engine.SkipStep(ctx, x.job, "work", c)
			until(t, s.local, x.job, hasEnded)
			return r, err
		}},
		{"ResolveStep", job(draining, `{}`, broken), func(x *subject) (any, error) {
			return x.engine.ResolveStep(ctx, x.job, "work", json.RawMessage(`"by hand"`), c)
		}},
		{"Approve", job(order, `{}`, waiting), func(x *subject) (any, error) {
			return x.engine.Approve(ctx, x.job, "ship", map[string]any{"note": "ok"}, c)
		}},
		{"Approve: unknown field", job(order, `{}`, waiting), func(x *subject) (any, error) {
			return x.engine.Approve(ctx, x.job, "ship", map[string]any{"size": 1}, c)
		}},
		{"Approve: unknown step", job(order, `{}`, waiting), func(x *subject) (any, error) { return x.engine.Approve(ctx, x.job, "none", nil, c) }},
		{"Reject", job(order, `{}`, waiting), func(x *subject) (any, error) {
			r, err := x.engine.Reject(ctx, x.job, "ship", c)
			until(t, s.local, x.job, hasEnded)
			return r, err
		}},
		{"RegisterWorkflow", none, func(x *subject) (any, error) {
			v, made, err := x.engine.RegisterWorkflow(ctx, "default", canonical(t, strings.Replace(quick, "quick", x.name, 1)), "", c)
			if v != nil {
				v.Name, v.At = "", 0
			}
			return pair{v, made}, err
		}},
		{"PutSchedule", none, func(x *subject) (any, error) { return x.engine.PutSchedule(ctx, plan(x), false, c) }},
		{"PutSchedule: replace", scheduled, func(x *subject) (any, error) { return x.engine.PutSchedule(ctx, plan(x), true, c) }},
		{"MoveSchedule: pause", scheduled, func(x *subject) (any, error) {
			return x.engine.MoveSchedule(ctx, named(x), lifecycle.SchedulePause, c)
		}},
		{"MoveSchedule: resume", scheduled, func(x *subject) (any, error) {
			return x.engine.MoveSchedule(ctx, named(x), lifecycle.ScheduleResume, c)
		}},
		{"MoveSchedule: remove", scheduled, func(x *subject) (any, error) {
			return x.engine.MoveSchedule(ctx, named(x), lifecycle.ScheduleRemove, c)
		}},
		{"TriggerSchedule", scheduled, func(x *subject) (any, error) { return x.engine.TriggerSchedule(ctx, named(x), c) }},
		{"SetQuotas", none, func(x *subject) (any, error) {
			return nil, x.engine.SetQuotas(ctx, []pawl.Quota{{Workspace: "default", Name: "queue/" + x.name, Slots: 2}, {Workspace: "default", Name: "depth/5", Slots: -5}}, c)
		}},
		{"PauseQueue", none, func(x *subject) (any, error) {
			return x.engine.PauseQueue(ctx, x.queue(), c)
		}},
		{"ResumeQueue", func(x *subject) {
			_, err := s.local.PauseQueue(ctx, x.queue(), c)
			must(t, err)
		}, func(x *subject) (any, error) { return x.engine.ResumeQueue(ctx, x.queue(), c) }},
		{"SetQuotas of a version", none, func(x *subject) (any, error) {
			return nil, x.engine.SetQuotas(ctx, []pawl.Quota{{Workspace: "default", Name: "queue/" + x.name, Slots: 3}}, pawl.Change{Actor: "ada", Version: 7})
		}},
		{"SetQuotas: bad name", none, func(x *subject) (any, error) {
			return nil, x.engine.SetQuotas(ctx, []pawl.Quota{{Workspace: "default", Name: "shelf/" + x.name, Slots: 2}}, c)
		}},
		{"RedactJob", job(quick, `{}`, hasEnded), func(x *subject) (any, error) {
			r, err := x.engine.RedactJob(ctx, x.job, "", c, nil)
			r.Job = ""
			return r, err
		}},
	} {
		var results [2][2]any
		var errs [2][2]error
		for i, engine := range []link.Engine{s.local, e} {
			x := &subject{engine: engine, name: fmt.Sprintf("name-%d-%d", number, i)}
			tt.make(x)
			for again := range 2 {
				v, err := tt.do(x)
				results[i][again], errs[i][again] = v, anonymous(err, x)
			}
		}
		ignore := cmp.Options{alike, cmpopts.IgnoreFields(pawl.Receipt{}, "ID", "At")}
		for again, what := range []string{"", ", again"} {
			if diff := cmp.Diff(results[0][again], results[1][again], ignore); diff != "" {
				t.Errorf("%s%s: through the API there is a difference (-local +remote):\n%s", tt.name, what, diff)
			}
			sameError(t, tt.name+what, errs[0][again], errs[1][again])
		}
	}
}

var scheduleID = regexp.MustCompile(`(sc|qp)_[0-9a-f]{32}`)

// anonymous replaces the names of a subject in an error.
func anonymous(err error, x *subject) error {
	if err == nil {
		return nil
	}
	r := strings.NewReplacer(x.job.Public(pawl.JobPrefix), "JOB", x.name, "NAME", x.queue().Name, "QUEUE")
	var refused *machine.Refusal
	if errors.As(err, &refused) {
		copied := *refused
		copied.Entity = scheduleID.ReplaceAllString(r.Replace(refused.Entity), "SCHEDULE")
		return &copied
	}
	var e *pawl.Error
	if errors.As(err, &e) {
		return &pawl.Error{Kind: e.Kind, Message: r.Replace(err.Error()), Hint: r.Replace(e.Hint)}
	}
	return err
}

// TestWorkerCommandsAreTheSame pauses, resumes and ends a worker through the API, and compares
// the refusals.
func TestWorkerCommandsAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	ctx, c := t.Context(), pawl.Change{Actor: "ada", Reason: "a test"}
	stop := s.work(t)
	submitted := submit(t, s.local, quick, `{}`)
	_, err := s.local.Wait(ctx, submitted)
	must(t, err)
	workers, err := e.Workers(ctx, pawl.WorkerQuery{})
	must(t, err)
	id, err := pawl.ParseID(pawl.WorkerPrefix, workers[0].ID)
	must(t, err)
	for _, tt := range []struct {
		name string
		do   func(link.Workers) (pawl.Receipt, error)
	}{
		{"pause", func(e link.Workers) (pawl.Receipt, error) { return e.PauseWorker(ctx, id, c) }},
		{"resume", func(e link.Workers) (pawl.Receipt, error) { return e.ResumeWorker(ctx, id, c) }},
		{"terminate", func(e link.Workers) (pawl.Receipt, error) { return e.TerminateWorker(ctx, id, c) }},
	} {
		if tt.name == "terminate" {
			stop()
		}
		if r, err := tt.do(e); err != nil || r.ID != workers[0].ID || r.Actor != "ada" {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
		}
		_, want := tt.do(s.local)
		_, got := tt.do(e)
		sameError(t, tt.name, want, got)
	}
}

// What a server cannot do is an error that says what to use instead.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	e := open(t, newSite(t).url)
	ctx, c := t.Context(), pawl.Change{}
	submitting := func(s pawl.Submission) error {
		s.Definition = canonical(t, quick)
		done, err := e.Submit(ctx, s)
		return errors.Join(err, done[0].Err)
	}
	_, inTx := e.SubmitTx(ctx, nil)
	_, private := e.RetryJob(ctx, pawl.ID{}, pawl.Retry{Private: true}, c)
	_, pruned := e.Prune(ctx, time.Hour, pawl.Change{RequestID: "once"}, nil)
	_, _, registered := e.Register(ctx, link.Registration{Job: 1})
	for name, err := range map[string]error{
		"SubmitTx": inTx, "Private": submitting(pawl.Submission{Private: true}), "Dir": submitting(pawl.Submission{Dir: "/tmp"}),
		"RetryJob": private, "Prune": pruned, "Register": registered, "CompleteTx": e.CompleteTx(ctx, nil, link.Report{}),
	} {
		var p *pawl.Error
		if !errors.As(err, &p) || p.Kind != pawl.Invalid || p.Hint == "" {
			t.Errorf("%s: %v, want an error of kind Invalid with a hint", name, err)
		}
	}
}

// queue returns a queue that only this subject has.
func (x *subject) queue() pawl.QueueName {
	return pawl.QueueName{Workspace: "default", Name: strings.ToLower(strings.NewReplacer("-", "_", ".", "_", " ", "_").Replace("q_" + x.name))}
}
