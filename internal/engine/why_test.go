package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// aFile returns a SQLite file of the test's own.
func aFile(t *testing.T) *database {
	return &database{t: t, kind: "sqlite", where: filepath.Join(t.TempDir(), "pawl.db")}
}

// why returns the reasons of a job, or of one step.
func (p *process) why(id pawl.ID, step string) []pawl.Reason {
	p.t.Helper()
	reasons, err := p.engine.Why(p.t.Context(), id, step)
	if err != nil {
		p.t.Fatal(err)
	}
	return reasons
}

// reasonOf returns the reason of a step; "" is the job itself.
func reasonOf(reasons []pawl.Reason, step string) *pawl.Reason {
	i := slices.IndexFunc(reasons, func(r pawl.Reason) bool { return r.Step == step })
	if i < 0 {
		return nil
	}
	return &reasons[i]
}

// because waits until a step, or the job itself, has a reason of that kind, and checks its
// text and its hint.
func (p *process) because(id pawl.ID, step string, kind pawl.ReasonKind, words ...string) pawl.Reason {
	p.t.Helper()
	var r *pawl.Reason
	until(p.t, fmt.Sprintf("%q is %s, with %q", step, kind, words), func() bool {
		if r = reasonOf(p.why(id, step), step); r == nil || r.Kind != kind {
			return false
		}
		// Each part of a reason is read separately: a change meanwhile may be in one part
		// and not in another.
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.Text+"\n"+r.Hint, w) })
	})
	return *r
}

func (p *process) state(id pawl.ID, step string) string { return string(steps(p.job(id))[step].Status) }

func change(reason string) pawl.Change { return pawl.Change{Actor: "ann", Reason: reason} }

func TestWhyAPendingJob(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"other": nop})
	id := p.submit(define(t, "name: n\nsteps: [{id: a, handler: train, queue: gpu}, {id: b, command: [ls], needs: [a]}]\n"), "")
	job := id.Public(pawl.JobPrefix)

	r := p.because(id, "", pawl.ReasonNoWorker, "gpu/train of workspace default", "serves default/other", "start a worker that serves gpu/train")
	if diff := cmp.Diff([]string{"gpu/train"}, r.Names); diff != "" || len(r.Workers) != 1 || r.Workers[0].ID != p.worker.ID() {
		t.Errorf("names, workers %+v: %s", r.Workers, diff)
	}
	p.because(id, "a", pawl.ReasonUnstarted, "PENDING")
	n := p.because(id, "b", pawl.ReasonNeeds, "a (pending)")
	if diff := cmp.Diff([]pawl.Need{{Step: "a", Status: lifecycle.StepPending}}, n.Needs); diff != "" {
		t.Error(diff)
	}

	if _, err := p.engine.PauseJob(t.Context(), id, change("maintenance")); err != nil {
		t.Fatal(err)
	}
	r = p.because(id, "", pawl.ReasonPaused, "paused by ann", "maintenance", "pawl job resume "+job)
	if r.Change == nil || r.Change.Actor != "ann" || r.Change.Reason != "maintenance" || r.Change.At == 0 {
		t.Errorf("%+v; want who paused it, when and why", r.Change)
	}
	if main := pawl.MainReason(p.why(id, "")); main.Kind != pawl.ReasonPaused {
		t.Errorf("the main reason is %s; want the pause", main.Kind)
	}
}

func TestWhyBuiltInStepsNameTheCommand(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	def := define(t, "name: n\nsteps: [{id: a, command: [ls], queue: gpu}, {id: b, run: ls}]\n")
	answers, err := p.engine.Submit(t.Context(), pawl.Submission{Workspace: "w", Definition: def.Canonical(), Actor: "test"})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	r := p.because(answers[0].ID, "", pawl.ReasonNoWorker, "no worker lives")
	if r.Hint != "pawl dev --workspace w --queue gpu" {
		t.Errorf("hint %q", r.Hint)
	}
}

func TestWhyQuotas(t *testing.T) { // T9, J7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": g.run})
	if err := p.engine.SetQuotas(t.Context(), []pawl.Quota{{Name: "depth/0", Slots: 3}}, note("few")); err != nil {
		t.Fatal(err)
	}
	sized := func(workers int) pawl.ID {
		return p.submit(define(t, fmt.Sprintf("name: n\nworkers: %d\nsteps: [{id: a, handler: h}]\n", workers)), "")
	}
	sized(2)
	g.wait(t)
	r := p.because(sized(2), "", pawl.ReasonQuota, "2 slots of the quota depth/0, of which 2 of 3 are taken", "pawl quota set depth/0 4")
	if diff := cmp.Diff(&pawl.Slots{Of: "depth/0", Takes: 2, Used: 2, Slots: 3}, r.Slots); diff != "" {
		t.Error(diff)
	}
	p.because(sized(4), "", pawl.ReasonQuota, "more than the 3 that it has in all", "pawl quota set depth/0 4")
}

func TestWhyAConcurrencyKey(t *testing.T) { // T9, J7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": g.run})
	def := define(t, "name: n\nconcurrency: {key: all, limit: 1}\nsteps: [{id: a, handler: h}]\n")
	holder := p.submit(def, "")
	g.wait(t)
	r := p.because(p.submit(def, ""), "", pawl.ReasonConcurrency, "1 of 1", "pawl job cancel "+holder.Public(pawl.JobPrefix))
	if diff := cmp.Diff([]string{holder.Public(pawl.JobPrefix)}, r.Names); diff != "" {
		t.Errorf("holders: %s", diff)
	}
}

func TestWhyAPrivateJob(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	def := define(t, "name: n\nsteps: [{id: a, command: [ls]}]\n")
	answers, err := p.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Private: true})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	id, hint := answers[0].ID, "pawl run FILE --resume="+answers[0].ID.Public(pawl.JobPrefix)
	p.because(id, "", pawl.ReasonOwner, "not alive", hint)

	// Its owner dies with a step of it. The step is not mistaken for another worker's.
	e := engine.New(engine.Config{Store: p.store, Passive: true})
	t.Cleanup(e.Close)
	p.engine.Close()
	q := &process{t: t, engine: e}
	route := pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "command", id.JobKey())
	w, release, err := e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 1, Routes: []rowkey.Route{route}}, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	release()
	if got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Free: 1}); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	q.because(id, "a", pawl.ReasonOwner, "not alive", hint)
}

func TestWhyAStepWaits(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	def := define(t, "name: n\nsteps: [{id: gate, approval: {prompt: Ship it?, expires: 48h, form: {n: {type: integer, required: true}, why: {type: string}}}}, {id: nap, sleep: 2h}, {id: paid, event: {name: payment}}, {id: many, event: {name: payment}, foreach: \"${{ [1, 2, 3] }}\"}]\n")
	id := p.submit(def, "")
	job := id.Public(pawl.JobPrefix)
	if r := p.because(id, "gate", pawl.ReasonApproval, "Ship it?", "it fails at"); r.Until == 0 || r.Hint != "pawl approve "+job+" gate --set n=INTEGER" {
		t.Errorf("until %s, hint %q; want the time until which it waits, and what the form requires", r.Until, r.Hint)
	}
	if r := p.because(id, "nap", pawl.ReasonSleep, "sleeps until"); r.Until.Time().Before(time.Now().Add(time.Hour)) || r.Hint != "" {
		t.Errorf("until %s, hint %q", r.Until, r.Hint)
	}
	if r := p.because(id, "paid", pawl.ReasonEvent, "pawl job signal "+job+" payment"); !slices.Equal(r.Names, []string{"payment"}) {
		t.Errorf("names %q", r.Names)
	}
	until(t, "the instances wait", func() bool {
		r := p.because(id, "many", pawl.ReasonFanOut)
		return len(r.Because) == 1 && r.Because[0].Kind == pawl.ReasonEvent && r.Because[0].Count == 3
	})
	p.because(id, "many", pawl.ReasonFanOut, "3 of 3 instances wait for an event")
	all := p.why(id, "")
	if len(all) != 1+4+3 || all[0].Kind != pawl.ReasonRunning {
		t.Errorf("%d reasons, the first %s; want the job's, 4 of steps and 3 of instances", len(all), all[0].Kind)
	}
	if main := pawl.MainReason(all); main.Step != "gate" {
		t.Errorf("the main reason is that of %q: %s; want the approval", main.Step, main.Kind)
	}
}

func TestWhyAChildJob(t *testing.T) { // T9, J6
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	registerAs(t, p, "name: below\nsteps: [{id: x, handler: train}]\n")
	id := p.submit(define(t, "name: n\nsteps: [{id: c, workflow: below}]\n"), "")
	r := p.because(id, "c", pawl.ReasonChild, "which is PENDING", "no live worker serves default/train")
	child := p.job(id).ChildJobs
	if len(child) != 1 || !slices.Equal(r.Names, child) || len(r.Because) != 2 || r.Because[0].Job != child[0] {
		t.Errorf("child %q, names %q, because %+v", child, r.Names, r.Because)
	}
}

// registerAs registers a workflow under its name.
func registerAs(t *testing.T, p *process, source string) {
	t.Helper()
	if _, _, err := p.engine.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, define(t, source).Canonical(), "", change("")); err != nil {
		t.Fatal(err)
	}
}

func TestWhyAStepIsPending(t *testing.T) { // T9, T7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop, "gate": g.run, "fail": fails})
	id := p.submit(define(t, `
name: n
workers: 2
on_error: drain
steps:
  - {id: bad, handler: fail, retry: {max_attempts: 1}}
  - {id: flaky, handler: fail, retry: {max_attempts: 5, base: 1h, jitter: none}}
  - {id: one, handler: gate, needs: [flaky]}
  - {id: behind, handler: h, needs: [bad]}
  - {id: x, handler: gate}
  - {id: y, handler: gate}
  - {id: z, handler: h}
  - {id: fan, handler: h, foreach: "${{ [1, 2] }}"}
hooks: {always: [{id: bye, handler: h}, {id: end, handler: h}]}
`), "")
	job := id.Public(pawl.JobPrefix)
	b := p.because(id, "flaky", pawl.ReasonBackoff, "attempt 2 of 5", "the last one failed: it failed", "pawl step retry "+job+" flaky")
	if b.Until == 0 || b.Attempt != 2 {
		t.Errorf("%+v; want when the second attempt is", b)
	}
	g.wait(t)
	g.wait(t)
	s := p.because(id, "z", pawl.ReasonJobSlots, "all 2 slots of the job are in use: x, y")
	if diff := cmp.Diff(&pawl.Slots{Of: "job", Takes: 1, Used: 2, Slots: 2}, s.Slots); diff != "" || !slices.Equal(s.Names, []string{"x", "y"}) {
		t.Errorf("names %q: %s", s.Names, diff)
	}
	p.because(id, "one", pawl.ReasonNeeds, "flaky (pending)")
	p.because(id, "behind", pawl.ReasonBlocked, "behind bad, which failed", "pawl step resolve "+job+" bad")
	p.because(id, "bye", pawl.ReasonHook, "when all other steps have ended")
	p.because(id, "fan", pawl.ReasonFanOut, "2 still to be made as slots of the job become free")
	p.because(id, "x", pawl.ReasonRunning, "attempt 1 of 3 runs")
	p.because(id, "bad", pawl.ReasonEnded, "it failed")
	if r := p.because(id, "", pawl.ReasonRunning, "2 steps run on workers: x, y", "FAILED"); !slices.Equal(r.Names, []string{"x", "y"}) {
		t.Errorf("names %q", r.Names)
	}
	if r := reasonOf(p.why(id, ""), "x"); r != nil {
		t.Errorf("%+v; want nothing about a step that runs", r)
	}

	if _, err := p.engine.PauseJob(t.Context(), id, change("stop")); err != nil {
		t.Fatal(err)
	}
	p.because(id, "z", pawl.ReasonPaused, "the job is paused by ann", "pawl job resume")
	p.because(id, "fan", pawl.ReasonFanOut, "2 still to be made when the job is resumed")
}

func TestWhyAHookWaitsItsTurn(t *testing.T) { // T9, T7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop, "gate": g.run})
	id := p.submit(define(t, "name: n\nsteps: [{id: a, handler: h}]\nhooks: {always: [{id: bye, handler: gate}, {id: end, handler: h}]}\n"), "")
	g.wait(t)
	p.because(id, "end", pawl.ReasonHook, "bye (in_progress) runs first")
	p.because(id, "", pawl.ReasonRunning, "it is going to be COMPLETED; its hooks run first")
}

func TestWhyAStepIsEnqueued(t *testing.T) { // T9, J7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	db := aFile(t)
	p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"gate": g.run, "h": nop}, capacity: 1})
	busy := p.submit(define(t, "name: n\nsteps: [{id: a, handler: gate}]\n"), "")
	g.wait(t)
	id := p.submit(define(t, "name: m\nsteps: [{id: w, sleep: 0s}, {id: a, handler: h, needs: [w], queue_timeout: 1h}, {id: b, handler: train, needs: [w]}]\n"), "")
	r := p.because(id, "a", pawl.ReasonWorkersBusy, "1 of 1 slots", "1 step waits", "start another worker")
	if diff := cmp.Diff(&pawl.Slots{Of: "workers", Takes: 1, Used: 1, Slots: 1}, r.Slots); diff != "" || r.Until == 0 {
		t.Errorf("until %s: %s; want the slots, and when it leaves the queue", r.Until, diff)
	}
	p.because(id, "b", pawl.ReasonNoWorker, "default/train", "those that live")
	p.because(p.submit(define(t, oneStep), ""), "", pawl.ReasonWorkersBusy, "1 of 1 slots")

	if err := p.engine.MoveWorker(t.Context(), p.workerKey(), lifecycle.WorkerPause, workerNote("away")); err != nil {
		t.Fatal(err)
	}
	p.because(id, "a", pawl.ReasonWorkersPaused, "every worker that serves it is paused")
	if j := p.state(busy, "a"); j != "in_progress" {
		t.Errorf("step a of the first job is %s", j)
	}
}

func TestWhyALimitOfAQueue(t *testing.T) { // T9, J7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := start(t, aFile(t).open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 5})
	if err := p.engine.SetQuotas(t.Context(), []pawl.Quota{{Name: "queue/default", Slots: 1}}, note("few")); err != nil {
		t.Fatal(err)
	}
	id := p.submit(define(t, "name: n\nsteps: [{id: w, handler: h, foreach: \"${{ [1, 2, 3] }}\"}]\n"), "")
	g.wait(t)
	r := p.because(id, "w[1]", pawl.ReasonQueueLimit, "queue default", "1 of 1", "pawl quota set queue/default 2")
	if diff := cmp.Diff(&pawl.Slots{Of: "queue/default", Takes: 1, Used: 1, Slots: 1}, r.Slots); diff != "" {
		t.Error(diff)
	}
	p.because(id, "w", pawl.ReasonFanOut, "1 of 3 instances run", "2 of 3 instances are in the queue")
}

// TestWhyALimitOfAQueueHoldsAJob: a worker starts no job whose first steps it may
// not take.
func TestWhyALimitOfAQueueHoldsAJob(t *testing.T) { // T9, J7
	t.Parallel()
	g := newGate(false)
	defer g.release()
	p := start(t, aFile(t).open(), setup{handlers: map[string]worker.Handler{"h": g.run}, capacity: 5})
	limit := func(slots int) {
		if err := p.engine.SetQuotas(t.Context(), []pawl.Quota{{Name: "queue/default", Slots: slots}}, note("few")); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	p.submit(define(t, oneStep), "")
	g.wait(t)
	id := p.submit(define(t, oneStep), "")
	r := p.because(id, "", pawl.ReasonQueueLimit, "queue default is reached: 1 of 1", "pawl quota set queue/default 2")
	if diff := cmp.Diff(&pawl.Slots{Of: "queue/default", Takes: 1, Used: 1, Slots: 1}, r.Slots); diff != "" {
		t.Error(diff)
	}
	stuck, err := p.engine.Stuck(t.Context(), pawl.JobQuery{Statuses: []machine.State{lifecycle.JobPending}}, 0)
	if err != nil || len(stuck) != 1 || stuck[0].Reason.Kind != pawl.ReasonQueueLimit {
		t.Errorf("%+v, %v; want the pending job, and the limit as its reason", stuck, err)
	}
	limit(0)
	p.because(id, "", pawl.ReasonQueueLimit, "queue default is 0", "pawl quota set queue/default 2")
}

func TestWhyAJobIsEnding(t *testing.T) { // T9, T1
	t.Parallel()
	g := newGate(true)
	defer g.release()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": g.run})
	id := p.submit(define(t, oneStep), "")
	g.wait(t)
	if _, err := p.engine.Cancel(t.Context(), id, note("enough")); err != nil {
		t.Fatal(err)
	}
	if r := p.because(id, "a", pawl.ReasonStopping, "asked to stop"); r.Until == 0 {
		t.Error("want the time at which it ends without its worker")
	}
	p.because(id, "", pawl.ReasonEnding, "ending as CANCELED")
	g.release()
	p.wait(id)
	if all := p.why(id, ""); len(all) != 1 || all[0].Kind != pawl.ReasonEnded || !strings.Contains(all[0].Text, "enough") {
		t.Errorf("%+v; want one reason: it has ended", all)
	}
}

// TestWhyNobodyIsThere: an engine that only serves queries gives the reason of a step that
// a dead worker held, and of one that waits for an evaluator.
func TestWhyNobodyIsThere(t *testing.T) { // T9, J9
	t.Parallel()
	e := engine.New(engine.Config{Store: aFile(t).open(), Passive: true})
	t.Cleanup(e.Close)
	p := &process{t: t, engine: e}
	lost := p.submit(define(t, oneStep), "")
	route := pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "h", 0)
	w, release, err := e.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 1, Routes: []rowkey.Route{route}}, Actor: "test"}) // whose name nobody holds
	if err != nil {
		t.Fatal(err)
	}
	release()
	if got, err := e.Exchange(t.Context(), link.Exchange{Worker: w, Free: 1}); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	p.because(lost, "a", pawl.ReasonWorkerLost, "its process is gone", "no process is seen", "pawl dev")
	if main := pawl.MainReason(p.why(lost, "")); main.Kind != pawl.ReasonWorkerLost {
		t.Errorf("the main reason is %s", main.Kind)
	}
	p.because(p.submit(define(t, "name: n\nsteps: [{id: a, sleep: 1h}]\n"), ""), "", pawl.ReasonEvaluation, "no process is seen", "pawl dev")
}

// TestWhyASignalIsNotTaken: it arrived when no process ran that could deliver it.
func TestWhyASignalIsNotTaken(t *testing.T) { // T9
	t.Parallel()
	for private, hint := range map[bool]string{false: "pawl dev", true: "pawl run FILE --resume="} {
		s := aFile(t).open()
		there := &process{t: t, engine: engine.New(engine.Config{Store: s})}
		t.Cleanup(there.engine.Close)
		def := define(t, "name: n\nsteps: [{id: a, event: {name: payment}}, {id: b, event: {name: refund}}]\n")
		answers, err := there.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Private: private})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
		id := answers[0].ID
		there.because(id, "a", pawl.ReasonEvent)
		there.because(id, "b", pawl.ReasonEvent)
		there.engine.Close()

		e := engine.New(engine.Config{Store: s, Passive: true})
		t.Cleanup(e.Close)
		p := &process{t: t, engine: e}
		if _, err := e.Signal(t.Context(), id, "payment", nil, change("paid")); err != nil {
			t.Fatal(err)
		}
		if r := p.because(id, "a", pawl.ReasonEvaluation, "the signal payment has come", "no process is seen"); !strings.HasPrefix(r.Hint, hint) {
			t.Errorf("private %t: hint %q, want %s", private, r.Hint, hint)
		}
		p.because(id, "b", pawl.ReasonEvent, "pawl job signal")
	}
}

// TestWhyAnExecutedCommand: a job of "pawl exec" has no file to continue it with.
func TestWhyAnExecutedCommand(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	def := define(t, "name: exec\nsteps: [{id: command, command: [ls]}]\n")
	answers, err := p.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test", Private: true})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	job := answers[0].ID.Public(pawl.JobPrefix)
	if r := p.because(answers[0].ID, "", pawl.ReasonOwner, "pawl job cancel "+job, "pawl job retry "+job); strings.Contains(r.Hint, "FILE") {
		t.Errorf("hint %q; there is no file", r.Hint)
	}
}

func TestWhyRefuses(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	id := p.submit(define(t, "name: n\nsteps: [{id: a, handler: h, foreach: \"${{ [1] }}\"}]\n"), "")
	for step, kind := range map[string]pawl.Kind{"b": pawl.NotFound, "a[0]": pawl.NotFound, "a[x]": pawl.Invalid} {
		if _, err := p.engine.Why(t.Context(), id, step); err == nil || pawl.KindOf(err) != kind {
			t.Errorf("step %s: %v; want kind %d", step, err, kind)
		}
	}
	if _, err := p.engine.Why(t.Context(), p.engine.NewID(), ""); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("no job: %v", err)
	}
}

// A counting store counts the steps that are read, and records whether anything is written.
type counting struct {
	store.Store
	pages, largest, writes int
}

func (c *counting) Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	page, err := c.Store.Steps(ctx, job, after, limit)
	c.pages, c.largest = c.pages+1, max(c.largest, len(page))
	return page, err
}

func (c *counting) Do(ctx context.Context, q *store.Query, f func(*store.Facts) (*store.Changes, error)) error {
	c.writes++
	return c.Store.Do(ctx, q, f)
}

// TestWhyAWideFanOut: thousands of instances are read in pages, and reported in groups;
// ended instances are not read, and nothing is written.
func TestWhyAWideFanOut(t *testing.T) { // T9
	t.Parallel()
	many := 1500
	if raceDetector {
		many = 500
	}
	s := aFile(t).open()
	p := startProcess(t, s, map[string]worker.Handler{"h": nop})
	id := p.submit(define(t, `
name: wide
inputs: {items: {type: array, required: true}}
steps:
  - {id: over, handler: h, foreach: "${{ inputs.items }}"}
  - {id: each, needs: [over], event: {name: go}, foreach: "${{ inputs.items }}"}
`), items(many))
	until(t, "all instances wait", func() bool {
		r := reasonOf(p.why(id, ""), "each")
		return r.Kind == pawl.ReasonFanOut && len(r.Because) == 1 && r.Because[0].Count == many
	})
	c := &counting{Store: s}
	e := engine.New(engine.Config{Store: c, Passive: true})
	defer e.Close()
	reasons, err := e.Why(t.Context(), id, "")
	if err != nil || len(reasons) != 1+1+10 {
		t.Fatalf("%d reasons, %v; want the job's, the fan-out's and those of 10 instances", len(reasons), err)
	}
	if c.pages > 12 || c.largest > 200 || c.writes > 0 {
		t.Errorf("%d pages of %d steps at most, %d writes; want what has ended left out", c.pages, c.largest, c.writes)
	}
}

func TestStuck(t *testing.T) { // T9, J4
	t.Parallel()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop})
	ended := p.submit(define(t, oneStep), "")
	p.wait(ended)
	id := p.submit(define(t, "name: stands\nsteps: [{id: a, handler: h}, {id: b, needs: [a], approval: {prompt: Well?}}]\n"), "")
	p.because(id, "b", pawl.ReasonApproval)
	stuck, err := p.engine.Stuck(t.Context(), pawl.JobQuery{}, 0)
	if err != nil || len(stuck) != 1 || stuck[0].ID != id.Public(pawl.JobPrefix) {
		t.Fatalf("%+v, %v; want the job that waits", stuck, err)
	}
	if r := stuck[0].Reason; r == nil || r.Step != "b" || r.Kind != pawl.ReasonApproval {
		t.Errorf("reason %+v; want the approval", r)
	}
	moved := int64(0)
	recorded, err := p.store.Steps(t.Context(), id.JobKey(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range recorded {
		moved = max(moved, s.UpdatedAt)
	}
	if int64(stuck[0].Still) != moved {
		t.Errorf("still since %s; want when a step moved last, %s", stuck[0].Still, pawl.Timestamp(moved))
	}
	if stuck, err = p.engine.Stuck(t.Context(), pawl.JobQuery{}, time.Hour); err != nil || len(stuck) != 0 {
		t.Errorf("%d jobs are stuck for an hour, %v", len(stuck), err)
	}
	for _, wrong := range []pawl.JobQuery{{Limit: -1}, {Statuses: []machine.State{lifecycle.JobFailed}}, {Before: "x"}} {
		if _, err := p.engine.Stuck(t.Context(), wrong, 0); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%+v: %v; want it refused", wrong, err)
		}
	}
	if _, err := p.engine.Stuck(t.Context(), pawl.JobQuery{}, -1); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("%v; want a negative time refused", err)
	}
}

// Reasons are data: a program reads back what was written.
func TestReasonsAsJSON(t *testing.T) { // T9
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	id := p.submit(define(t, "name: n\nsteps: [{id: a, sleep: 1h}, {id: b, handler: h, needs: [a]}]\n"), "")
	p.because(id, "a", pawl.ReasonSleep)
	want := p.why(id, "")
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []pawl.Reason
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestListOfStuckJobs: a list has the jobs that ought to move, and have a member of metadata,
// in pages of any size (J4, T9).
func TestListOfStuckJobs(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), map[string]worker.Handler{"h": nop})
		submit := func(src, metadata string) string {
			answers, err := p.engine.Submit(t.Context(), pawl.Submission{Definition: define(t, src).Canonical(), Metadata: json.RawMessage(metadata), Actor: "test"})
			if err != nil || answers[0].Err != nil {
				t.Fatal(err, answers)
			}
			return answers[0].ID.Public(pawl.JobPrefix)
		}
		const unserved = "name: unserved\nsteps: [{id: a, handler: other}]\n"
		billing, shipping, several := submit(unserved, `{"team": "billing"}`), submit(unserved, `{"team": "shipping"}`), submit(unserved, `{"team": "billing", "n": 3}`)
		waits := submit("name: waits\nsteps: [{id: b, approval: {prompt: Well?}}]\n", `{"team": "billing"}`)
		id, err := pawl.ParseID(pawl.JobPrefix, waits)
		if err != nil {
			t.Fatal(err)
		}
		p.because(id, "b", pawl.ReasonApproval)

		team := map[string]string{"team": "billing"}
		for name, tt := range map[string]struct {
			q    pawl.JobQuery
			want []string
		}{
			"stuck":           {pawl.JobQuery{Stuck: time.Microsecond}, []string{several, shipping, billing}},
			"pending":         {pawl.JobQuery{Stuck: time.Microsecond, Statuses: []machine.State{lifecycle.JobRunning}}, nil},
			"of a team":       {pawl.JobQuery{Metadata: team}, []string{waits, several, billing}},
			"of a team stuck": {pawl.JobQuery{Stuck: time.Microsecond, Metadata: team}, []string{several, billing}},
			"two members":     {pawl.JobQuery{Metadata: map[string]string{"team": "billing", "n": "3"}}, []string{several}},
			"for an hour":     {pawl.JobQuery{Stuck: time.Hour}, nil},
			"before":          {pawl.JobQuery{Stuck: time.Microsecond, Before: shipping}, []string{billing}},
		} {
			for _, limit := range []int{1, 2, 50} {
				tt.q.Limit, tt.q.Summary = limit, limit == 2
				var got []string
				for q := tt.q; ; {
					page, next, err := p.engine.JobPage(t.Context(), q)
					if err != nil || len(page) > limit {
						t.Fatal(name, len(page), err)
					}
					for i := range page {
						got = append(got, page[i].ID)
					}
					if q.Before = next; next == "" {
						break
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s, %d at once: %v; want %v", name, limit, got, tt.want)
				}
			}
			tt.q.Limit = 2
			list, err := p.engine.Jobs(t.Context(), tt.q)
			if err != nil || len(list) != min(2, len(tt.want)) {
				t.Errorf("%s: a list of %d, %v", name, len(list), err)
			}
			if chosen, next, err := p.engine.Choose(t.Context(), tt.q, 2); err != nil || len(chosen) != len(list) || (next != "") != (len(tt.want) > 2) {
				t.Errorf("%s: %d are chosen, next %q, %v", name, len(chosen), next, err)
			}
		}
		quiet, err := p.engine.Stuck(t.Context(), pawl.JobQuery{Metadata: team}, 0)
		if err != nil || len(quiet) != 3 || quiet[0].ID != waits {
			t.Errorf("%d jobs of a team do not move, %v", len(quiet), err)
		}
		stuck, err := p.engine.Stuck(t.Context(), pawl.JobQuery{Stuck: time.Microsecond, Limit: 2}, 0)
		if err != nil || len(stuck) != 2 || stuck[0].ID != several || stuck[1].Reason.Kind != pawl.ReasonNoWorker {
			t.Errorf("stuck %+v, %v", stuck, err)
		}
		many := map[string]string{}
		for i := range pawl.MaxMetadataFilter + 1 {
			many[strconv.Itoa(i)] = ""
		}
		for _, wrong := range []pawl.JobQuery{{Stuck: -1}, {Stuck: 1, Statuses: []machine.State{lifecycle.JobFailed}}, {Stuck: 1, TimedOut: true}, {Metadata: many}} {
			if _, _, err := p.engine.JobPage(t.Context(), wrong); pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("%+v: %v; want it refused", wrong, err)
			}
		}
	})
}
