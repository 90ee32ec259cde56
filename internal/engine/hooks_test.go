package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// TestAJobRunsUntilItsHooksEnd, and then ends as determined before them.
func TestAJobRunsUntilItsHooksEnd(t *testing.T) { // T7
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"fail": fails, "block": g.run, "h": nop}})
		id := p.submit(define(t, `
name: hooked
timeout: 1h
steps: [{id: bad, handler: fail, retry: {max_attempts: 1}}, {id: after, needs: [bad], handler: h}]
hooks:
  failure: [{id: tell, handler: block}, {id: then, handler: fail, retry: {max_attempts: 1}}]
  always: [{id: tidy, handler: h}]
`), "")
		g.wait(t)
		v := p.job(id)
		if v.Status != lifecycle.JobRunning || v.Ending != lifecycle.JobFailed || steps(v)["after"].Status != lifecycle.StepCancelled || steps(v)["then"].Claims != 0 {
			t.Errorf("while its hook runs the job is %s, ending %s, with steps %v", v.Status, v.Ending, v.StepCounts)
		}
		db.elapse(2 * time.Hour) // the job's deadline is lifted
		g.release()
		v = p.wait(id)
		all := steps(v)
		if v.Status != lifecycle.JobFailed || v.Error.Step != "bad" {
			t.Errorf("the job is %s by %+v; want what it was before its hooks", v.Status, v.Error)
		}
		if all["tell"].Status != lifecycle.StepComplete || all["then"].Status != lifecycle.StepPermanentError || all["tidy"].Status != lifecycle.StepComplete {
			t.Errorf("the hooks are %v; want the one that failed to stop none", v.StepCounts)
		}
		if !(all["tell"].CompletedAt <= all["then"].StartedAt && all["then"].CompletedAt <= all["tidy"].StartedAt) {
			t.Error("the hooks did not run one after another")
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestTheFailureOfAHookChangesNothing about a job that has succeeded.
func TestTheFailureOfAHookChangesNothing(t *testing.T) { // T7
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"fail": fails, "h": nop}})
		id := p.submit(define(t, "name: w\nsteps: [{id: a, handler: h}]\nhooks: {always: [{id: tidy, handler: fail, retry: {max_attempts: 2, base: 1ms}}]}\noutput: ${{ steps.a.output }}\n"), "")
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || string(v.Output) != "1" || v.Error != nil || steps(v)["tidy"].Attempts != 2 {
			t.Errorf("the job is %s (%v), output %s, its hook %+v", v.Status, v.Error, v.Output, steps(v)["tidy"])
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestAHookIsRetried like any step, at once if an operator says so.
func TestAHookIsRetried(t *testing.T) { // T7, T13
	onShared(t, func(t *testing.T, db *database) {
		var calls atomic.Int64
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": func(ctx context.Context, task *worker.Task) worker.Result {
			if calls.Add(1) < 3 {
				return worker.Result{Failure: &pawl.Failure{Class: "flaky", Message: "not yet"}}
			}
			return nop(ctx, task)
		}}})
		id := p.submit(define(t, "name: w\nsteps: []\nhooks: {always: [{id: tidy, handler: h, retry: {base: 1h, cap: 1h, jitter: none}}]}\n"), "")
		for attempt := range 2 {
			p.see(id, "tidy", func(s *pawl.StepView) bool { return s.NotBefore != 0 && s.Attempts == attempt+1 })
			must(t, errorOf(p.engine.RetryStep(t.Context(), id, "tidy", ann)))
		}
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || steps(v)["tidy"].Attempts != 3 {
			t.Errorf("the job is %s, its hook %+v", v.Status, steps(v)["tidy"])
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestCancelDuringHooks ends the hooks, and does not change how the job ends.
func TestCancelDuringHooks(t *testing.T) { // T7, J2
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p, other := start(t, db.open(), setup{handlers: map[string]worker.Handler{"fail": fails, "block": g.run, "h": nop}}), start(t, db.open(), setup{})
		for first, want := range map[string]machine.State{"h": lifecycle.JobCompleted, "fail": lifecycle.JobFailed} {
			id := p.submit(define(t, "name: w\nsteps: [{id: a, handler: "+first+", retry: {max_attempts: 1}}]\nhooks: {always: [{id: tidy, handler: block}, {id: more, handler: h}]}\n"), "")
			g.wait(t)
			must(t, errorOf(other.engine.Cancel(t.Context(), id, note("enough"))))
			if _, err := other.engine.Cancel(t.Context(), id, note("again")); pawl.KindOf(err) != pawl.Conflict {
				t.Errorf("canceling twice: %v", err)
			}
			v := p.wait(id)
			if all := steps(v); v.Status != want || all["tidy"].Status != lifecycle.StepCancelled || all["more"].Status != lifecycle.StepCancelled || all["more"].Claims != 0 {
				t.Errorf("the job is %s with %v; want %s with its hooks cancelled", v.Status, v.StepCounts, want)
			}
			p.settled(id)
		}
		verify(t, p.store)
	})
}

// TestHooksOfACanceledJob: its always hooks run, unless the job never ran.
func TestHooksOfACanceledJob(t *testing.T) { // T7
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"block": g.run, "input": func(_ context.Context, task *worker.Task) worker.Result {
			return worker.Result{Output: task.Work.With}
		}}})
		hooks := "hooks: {failure: [{id: tell, handler: input}], always: [{id: tidy, handler: input, with: \"${{ job.status }}: ${{ job.error }}\"}]}\n"
		ran := p.submit(define(t, "name: ran\nsteps: [{id: a, handler: block}]\n"+hooks), "")
		never := p.submit(define(t, "name: never\nsteps: [{id: a, handler: nobody}]\n"+hooks), "")
		g.wait(t)
		for _, id := range []pawl.ID{ran, never} {
			must(t, errorOf(p.engine.Cancel(t.Context(), id, note("enough"))))
		}
		v := p.wait(ran)
		if all := steps(v); v.Status != lifecycle.JobCanceled || all["tell"].Status != lifecycle.StepSkipped || string(all["tidy"].Output) != `"CANCELED: enough"` {
			t.Errorf("the job is %s, its hooks %s and %+v", v.Status, all["tell"].Status, all["tidy"])
		}
		v = p.wait(never)
		if all := steps(v); v.Status != lifecycle.JobCanceled || all["tell"].Claims+all["tidy"].Claims != 0 || all["tidy"].Status != lifecycle.StepCancelled {
			t.Errorf("the job that never ran is %s, its hooks %s and %s", v.Status, all["tell"].Status, all["tidy"].Status)
		}
		p.settled(ran)
		p.settled(never)
		verify(t, p.store)
	})
}

// TestAWorkerThatDiesInAHook: the hook runs again elsewhere.
func TestAWorkerThatDiesInAHook(t *testing.T) { // T7, T10
	onShared(t, func(t *testing.T, db *database) {
		observer := startProcess(t, db.open(), nil)
		id := observer.submit(define(t, "name: w\nsteps: [{id: nap, sleep: 0s}]\nhooks: {always: [{id: tidy, handler: h, retry: {max_attempts: 1}}, {id: more, handler: h}]}\n"), "")
		kill := startVictim(t, db, 1)
		p := startProcess(t, db.open(), map[string]worker.Handler{"h": echo})
		kill()
		v := p.wait(id)
		if s := steps(v)["tidy"]; v.Status != lifecycle.JobCompleted || s.Status != lifecycle.StepComplete || s.Claims != 2 || s.Attempts != 1 {
			t.Errorf("the job is %s, its hook %+v", v.Status, s)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestOperatorsAndHooks: an operator can end hooks while they run, and not before; a pause
// holds them back.
func TestOperatorsAndHooks(t *testing.T) { // T13, J2
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		id := p.submit(define(t, `
name: w
steps: [{id: told, event: {name: e}}]
hooks: {always: [{id: one, handler: nobody}, {id: two, handler: nobody}, {id: three, handler: h}]}
`), "")
		p.waiting(id, "told")
		if _, err := p.engine.SkipStep(t.Context(), id, "one", ann); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "hooks can be settled when they run") {
			t.Errorf("skipping a hook before its time: %v", err)
		}
		must(t, errorOf(p.engine.PauseJob(t.Context(), id, ann)))
		p.signal(id, "e", "1")
		p.see(id, "told", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepComplete })
		until(t, "the hooks have begun", func() bool { return p.job(id).Ending == lifecycle.JobCompleted })
		if s := steps(p.job(id))["one"]; s.Status != lifecycle.StepPending {
			t.Errorf("the hook of a paused job is %s", s.Status)
		}
		must(t, errorOf(p.engine.ResumeJob(t.Context(), id, ann)))
		p.see(id, "one", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepEnqueued })
		must(t, errorOf(p.engine.SkipStep(t.Context(), id, "one", ann)))
		p.see(id, "two", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepEnqueued })
		must(t, errorOf(p.engine.ResolveStep(t.Context(), id, "two", json.RawMessage(`"by hand"`), ann)))
		v := p.wait(id)
		if all := steps(v); v.Status != lifecycle.JobCompleted || all["one"].Status != lifecycle.StepSkipped || string(all["two"].Output) != `"by hand"` || all["three"].Status != lifecycle.StepComplete {
			t.Errorf("the job is %s, %v", v.Status, v.StepCounts)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestHooksOfATimeoutAndOfACancel: a job that times out runs its failure hooks, a canceled
// job its cancel hooks; both are CANCELED, and a list distinguishes them (T8).
func TestHooksOfATimeoutAndOfACancel(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop, "fail": fails, "tell": func(_ context.Context, task *worker.Task) worker.Result {
			return worker.Result{Output: task.Work.With}
		}, "block": func(ctx context.Context, _ *worker.Task) worker.Result {
			<-ctx.Done()
			return worker.Result{Failure: &pawl.Failure{Class: "stopped", Message: context.Cause(ctx).Error()}}
		}}})
		flow := func(name, first, timeout string) pawl.ID {
			return p.submit(define(t, "name: "+name+"\n"+timeout+"steps: [{id: a, handler: "+first+", retry: {max_attempts: 1}}]\nhooks:\n"+
				"  cancel: [{id: undo, handler: h}]\n  failure: [{id: page, handler: tell, with: \"${{ job.status }}: ${{ job.error }}\"}, {id: more, handler: h}]\n  always: [{id: tidy, handler: h}]\n"), "")
		}
		late, stopped, failed := flow("late", "block", "timeout: 100ms\n"), flow("stopped", "block", ""), flow("failed", "fail", "")
		p.see(stopped, "a", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepInProgress })
		must(t, errorOf(p.engine.Cancel(t.Context(), stopped, note("enough"))))
		for id, want := range map[pawl.ID]struct {
			status           machine.State
			class            string
			page, more, undo machine.State
		}{
			late:    {lifecycle.JobCanceled, pawl.ClassTimeout, lifecycle.StepComplete, lifecycle.StepComplete, lifecycle.StepSkipped},
			stopped: {lifecycle.JobCanceled, "canceled", lifecycle.StepSkipped, lifecycle.StepSkipped, lifecycle.StepComplete},
			failed:  {lifecycle.JobFailed, "broken", lifecycle.StepComplete, lifecycle.StepComplete, lifecycle.StepSkipped},
		} {
			v := p.wait(id)
			all := steps(v)
			if v.Status != want.status || v.Error == nil || v.Error.Class != want.class && id != failed {
				t.Errorf("job %s is %s by %+v, want %s by %s", v.Workflow, v.Status, v.Error, want.status, want.class)
			}
			if all["page"].Status != want.page || all["more"].Status != want.more || all["undo"].Status != want.undo || all["tidy"].Status != lifecycle.StepComplete {
				t.Errorf("the hooks of %s: page %s, more %s, undo %s, tidy %s", v.Workflow, all["page"].Status, all["more"].Status, all["undo"].Status, all["tidy"].Status)
			}
			p.settled(id)
		}
		if page := steps(p.job(late))["page"]; string(page.Output) != `"CANCELED: timeout: it took longer than 100ms"` {
			t.Errorf("the failure hook was told %s", page.Output)
		}
		for name, tt := range map[string]struct {
			q    pawl.JobQuery
			want []pawl.ID
		}{
			"timed out":           {pawl.JobQuery{TimedOut: true}, []pawl.ID{late}},
			"canceled":            {pawl.JobQuery{Statuses: []machine.State{lifecycle.JobCanceled}}, []pawl.ID{stopped, late}},
			"failed or timed out": {pawl.JobQuery{Statuses: []machine.State{lifecycle.JobFailed}, TimedOut: true}, []pawl.ID{failed, late}},
		} {
			list, err := p.engine.Jobs(t.Context(), tt.q)
			must(t, err)
			var got, want []string
			for i := range list {
				got = append(got, list[i].ID)
			}
			for _, id := range tt.want {
				want = append(want, id.Public(pawl.JobPrefix))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		verify(t, p.store)
	})
}
