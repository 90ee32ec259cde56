package engine_test

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// trailOf returns the trail of the entity with that public id; none if it does not exist.
func (p *process) trailOf(id string) (entries []audit.Entry) {
	p.t.Helper()
	must(p.t, p.store.Trails(p.t.Context(), 0, func(t store.TrailOf) error {
		if t.ID == id {
			entries = append(entries, t.Entries...)
		}
		return nil
	}))
	return entries
}

// A deed is one verb of an operator.
type deed struct {
	name string
	of   string // the public id of the entity; empty: a new one
	from machine.State
	to   machine.State
	do   func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error)
}

// check compares a receipt with the trail of its entity, of which before was there.
func (d *deed) check(p *process, r pawl.Receipt, before []audit.Entry) {
	p.t.Helper()
	from := machine.State("")
	if r.From != nil {
		from = *r.From
	}
	if d.of != "" && r.ID != d.of || from != d.from || r.To != d.to || r.Status != d.to || r.Actor != "ann" || r.Replayed {
		p.t.Errorf("%s: %+v from %q; want %s from %q to %q by ann", d.name, r, from, d.of, d.from, d.to)
	}
	trail := p.trailOf(r.ID)
	if int64(len(trail)) < r.Sequence || r.Sequence <= int64(len(before)) {
		p.t.Errorf("%s: sequence %d, in a trail of %d entries, %d of them from before", d.name, r.Sequence, len(trail), len(before))
		return
	}
	first, last := trail[len(before)], trail[r.Sequence-1]
	if first.Actor != "ann" || first.From != d.from || last.Sequence != r.Sequence || last.To != r.To || pawl.Timestamp(last.At) != r.At {
		p.t.Errorf("%s: %+v; the trail has %+v to %+v", d.name, r, first, last)
	}
}

// TestReceipts: each verb returns what it did to the entity that it names, as the trail
// shows it (J5), and the same request returns the same bytes, after a restart too (J8).
func TestReceipts(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		g, ctx := newGate(false), t.Context()
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"gate": g.run, "shaky": func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Failure: &pawl.Failure{Class: "x", Message: "not yet"}}
		}}})
		id := p.submit(define(t, `
name: flow
on_error: drain
steps:
- {id: yes, approval: {prompt: x}}
- {id: no, approval: {prompt: x}}
- {id: skipped, handler: nobody, needs: [yes]}
- {id: resolved, handler: nobody, needs: [yes]}
- {id: shaky, handler: shaky, retry: {max_attempts: 9, base: 1h, cap: 1h, jitter: none}}
- {id: news, event: {name: go}}
- {id: held, handler: gate}
`), "")
		g.wait(t)
		for _, key := range []string{"yes", "no", "news"} {
			p.waiting(id, key)
		}
		p.see(id, "shaky", func(s *pawl.StepView) bool { return s.Attempts == 1 && s.Status == lifecycle.StepPending })
		p.register(define(t, "name: ask\nsteps: [{id: a, approval: {prompt: x}}]\n"))
		ended := p.submit(define(t, "name: ended\nsteps: [{id: a, approval: {prompt: x}}]\n"), "")
		must(t, errorOf(p.engine.Cancel(ctx, ended, note("stop"))))
		p.wait(ended)
		pending := p.submit(define(t, "name: pending\nsteps: [{id: a, handler: nobody}]\n"), "")

		w, plan := workerID(t, p.worker), pawl.SchedulePlan{Name: "s", Workflow: "ask", Cron: "@yearly"}
		schedule := pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "s"}
		job := func(do func(*engine.Engine, context.Context, pawl.ID, pawl.Change) (pawl.Receipt, error), id pawl.ID) func(*engine.Engine, pawl.Change) (pawl.Receipt, error) {
			return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return do(e, ctx, id, c) }
		}
		step := func(do func(*engine.Engine, context.Context, pawl.ID, string, pawl.Change) (pawl.Receipt, error), key string) func(*engine.Engine, pawl.Change) (pawl.Receipt, error) {
			return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return do(e, ctx, id, key, c) }
		}
		move := func(event machine.Event) func(*engine.Engine, pawl.Change) (pawl.Receipt, error) {
			return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.MoveSchedule(ctx, schedule, event, c)
			}
		}
		put := func(replace bool) func(*engine.Engine, pawl.Change) (pawl.Receipt, error) {
			return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.PutSchedule(ctx, plan, replace, c)
			}
		}
		of, at, all := id.Public(pawl.JobPrefix), steps(p.job(id)), []pawl.Receipt{}
		scheduled := func() string {
			v, err := p.engine.Schedule(ctx, schedule, 0)
			must(t, err)
			return v.ID
		}
		deeds := []deed{
			{"pause", of, lifecycle.JobRunning, lifecycle.JobRunning, job((*engine.Engine).PauseJob, id)},
			{"resume", of, lifecycle.JobRunning, lifecycle.JobRunning, job((*engine.Engine).ResumeJob, id)},
			{"signal", of, lifecycle.JobRunning, lifecycle.JobRunning, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.Signal(ctx, id, "go", []byte("1"), c)
			}},
			{"retry step", at["shaky"].ID, lifecycle.StepPending, lifecycle.StepEnqueued, step((*engine.Engine).RetryStep, "shaky")},
			{"skip", at["skipped"].ID, lifecycle.StepPending, lifecycle.StepSkipped, step((*engine.Engine).SkipStep, "skipped")},
			{"resolve", at["resolved"].ID, lifecycle.StepPending, lifecycle.StepResolvedManually, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.ResolveStep(ctx, id, "resolved", []byte("1"), c)
			}},
			{"approve", at["yes"].ID, lifecycle.StepInProgress, lifecycle.StepComplete, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.Approve(ctx, id, "yes", nil, c)
			}},
			{"reject", at["no"].ID, lifecycle.StepInProgress, lifecycle.StepPermanentError, step((*engine.Engine).Reject, "no")},
			{"cancel", of, lifecycle.JobRunning, lifecycle.JobRunning, job((*engine.Engine).Cancel, id)},
			{"cancel pending", pending.Public(pawl.JobPrefix), lifecycle.JobPending, lifecycle.JobCanceled, job((*engine.Engine).Cancel, pending)},
			{"retry", "", "", lifecycle.JobPending, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.RetryJob(ctx, ended, pawl.Retry{}, c)
			}},
			{"submit", "", "", lifecycle.JobPending, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				done, err := e.Submit(ctx, pawl.Submission{Definition: define(t, "name: new\nsteps: [{id: a, handler: nobody}]\n").Canonical(), Actor: c.Actor, RequestID: c.RequestID})
				if err != nil {
					return pawl.Receipt{}, err
				}
				if done[0].Replayed != done[0].Receipt.Replayed || done[0].Err == nil && done[0].ID.Public(pawl.JobPrefix) != done[0].Receipt.ID {
					t.Errorf("submit: %+v", done[0])
				}
				return done[0].Receipt, done[0].Err
			}},
			{"pause worker", p.worker.ID(), lifecycle.WorkerRunning, lifecycle.WorkerPaused, job((*engine.Engine).PauseWorker, w)},
			{"resume worker", p.worker.ID(), lifecycle.WorkerPaused, lifecycle.WorkerRunning, job((*engine.Engine).ResumeWorker, w)},
			{"terminate worker", p.worker.ID(), lifecycle.WorkerRunning, lifecycle.WorkerTerminated, job((*engine.Engine).TerminateWorker, w)},
			{"create schedule", "", "", lifecycle.ScheduleActive, put(false)},
			{"update schedule", "s", lifecycle.ScheduleActive, lifecycle.ScheduleActive, put(true)},
			{"trigger", "", "", lifecycle.JobPending, func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
				return e.TriggerSchedule(ctx, schedule, c)
			}},
			{"pause schedule", "s", lifecycle.ScheduleActive, lifecycle.SchedulePaused, move(lifecycle.SchedulePause)},
			{"resume schedule", "s", lifecycle.SchedulePaused, lifecycle.ScheduleActive, move(lifecycle.ScheduleResume)},
			{"remove schedule", "s", lifecycle.ScheduleActive, lifecycle.ScheduleRemoved, move(lifecycle.ScheduleRemove)},
		}
		for i := range deeds {
			d := &deeds[i]
			if d.of == "s" {
				d.of = scheduled()
			}
			before := p.trailOf(cmp.Or(d.of, "none"))
			r, err := d.do(p.engine, requested(i))
			if err != nil {
				t.Fatalf("%s: %v", d.name, err)
			}
			d.check(p, r, before)
			all = append(all, r)
		}

		g.release()
		p.stop()
		again := start(t, db.open(), setup{})
		for i, d := range deeds {
			r, err := d.do(again.engine, requested(i))
			want := all[i]
			want.Replayed = true
			if diff := gocmp.Diff(want, r); err != nil || diff != "" {
				t.Errorf("%s again: %v (-want +got)\n%s", d.name, err, diff)
			}
			if was, is := asJSON(t, all[i]), asJSON(t, r); was != is {
				t.Errorf("%s again: %s; want %s", d.name, is, was)
			}
		}
		verify(t, again.store)
	})
}

// requested returns a change with a request id.
func requested(n int) pawl.Change {
	c := ann
	c.RequestID = "r-" + string(rune('a'+n))
	return c
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}
