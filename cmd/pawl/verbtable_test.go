package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

const verbsHead = `# What operators can do, and when

The result of every verb in every state of a job and of a step. A test generates this
file: it drives jobs and steps into these states:
` + "`go test ./cmd/pawl -run TestVerbsInEveryState -update`" + `.

A job is never seen as SUBMITTED, since submission and validation are one commit.
The verbs cancel, pause, resume, retry, signal and redact are those of
` + "`pawl job`" + `; "retry --from" names a step. Those of steps are retry, skip and resolve of
` + "`pawl step`" + `, and ` + "`pawl approve`" + ` and ` + "`pawl reject`" + `.

What a script has to expect around failures and deadlines:

- A refused verb ends with exit code 5 and has changed nothing.
- Just after a step has failed for good, an engine still has to apply the outcome.
  Resolve waits for that, 2 s at most. If no engine runs, or none is fast enough, the
  refusal is "has failed at this moment"; the script should try again later.
- A deadline that has passed takes effect when an engine handles it: mostly at once, else
  as soon as an engine runs. Until then the old state and its verbs hold: retry still
  begins the next attempt of a step whose backoff has just ended, which changes only the
  name of the move; a step of a job whose timeout has passed may be retried, skipped or
  resolved, and is then canceled with its job if it has not ended. So exit code 0 of a
  verb means that it was done, not how the job ends: ask "pawl job show". Only an
  expired approval is refused at once, by the clock.
`

// TestVerbsInEveryState drives jobs and steps into each state, applies each verb
// of operators, and writes down what comes of it (T13, J2, K3). A verb that is
// refused leaves no trace.
func TestVerbsInEveryState(t *testing.T) {
	t.Parallel()
	text := verbsHead + "\n## Jobs\n" + table(t, "job", jobSituations(), jobVerbs()) + "\n## Steps\n" + table(t, "step", stepSituations(), stepVerbs())
	golden(t, "../../../docs/verbs.md", text)
}

// A situation is a job or a step in some state.
type situation struct {
	name    string // STATE, or STATE, and what else there is to it
	source  string
	arrange func(w *world)
	step    string // the step that verbs are applied to
}

// A verb returns the error of a refusal.
type operatorVerb struct {
	name string
	do   func(w *world, step string) error
}

// table applies each verb in each situation.
func table(t *testing.T, of string, situations []situation, verbs []operatorVerb) string {
	t.Helper()
	var b strings.Builder
	for _, s := range situations {
		fmt.Fprintf(&b, "\n### %s\n\n| verb | works | what comes of it |\n|---|---|---|\n", s.name)
		var w *world
		for _, v := range verbs {
			if w == nil {
				w = newWorld(t, s.source)
				s.arrange(w)
				state, _, _ := strings.Cut(s.name, ",")
				w.until(of+" "+s.name, func(*pawl.JobView) bool { return w.state(s.step) == state })
				w.freeze()
			}
			before, trail := w.state(s.step), w.trail()
			err := v.do(w, s.step)
			if err == nil {
				fmt.Fprintf(&b, "| %s | yes | %s |\n", v.name, w.outcome(before, s.step))
				w.close()
				w = nil
				continue
			}
			if kind := pawl.KindOf(err); kind != pawl.Conflict && kind != pawl.Invalid {
				t.Errorf("%s %s, %s: %v is of kind %d; want a conflict", of, s.name, v.name, err, kind)
			}
			if now := w.trail(); now != trail {
				t.Errorf("%s %s, %s: refused, but there are %d entries in the trail, not %d", of, s.name, v.name, now, trail)
			}
			fmt.Fprintf(&b, "| %s | | %s |\n", v.name, anonymous(err.Error()))
		}
		if w != nil {
			w.close()
		}
	}
	return b.String()
}

var anyID = regexp.MustCompile(`\bj_[0-9a-f]{32}`)

func anonymous(text string) string { return anyID.ReplaceAllString(text, "j_…") }

// errorOf returns the error of a verb whose receipt does not matter.
func errorOf(_ pawl.Receipt, err error) error { return err }

var byTester = pawl.Change{Actor: "test", Reason: "to see"}

func jobVerbs() []operatorVerb {
	ctx := context.Background()
	return []operatorVerb{
		{"cancel", func(w *world, _ string) error {
			return errorOf(w.engine.Cancel(ctx, w.id, pawl.Change{Actor: "test", Reason: "to see"}))
		}},
		{"pause", func(w *world, _ string) error { return errorOf(w.engine.PauseJob(ctx, w.id, byTester)) }},
		{"resume", func(w *world, _ string) error { return errorOf(w.engine.ResumeJob(ctx, w.id, byTester)) }},
		{"retry", func(w *world, _ string) error { return w.retry(pawl.Retry{}) }},
		{"retry --from", func(w *world, _ string) error { return w.retry(pawl.Retry{From: []string{"one"}}) }},
		{"signal", func(w *world, _ string) error { return errorOf(w.engine.Signal(ctx, w.id, "news", nil, byTester)) }},
		{"redact", func(w *world, _ string) error {
			_, err := w.engine.RedactJob(ctx, w.id, "", byTester, nil)
			return err
		}},
	}
}

func stepVerbs() []operatorVerb {
	ctx := context.Background()
	return []operatorVerb{
		{"retry", func(w *world, step string) error { return errorOf(w.engine.RetryStep(ctx, w.id, step, byTester)) }},
		{"skip", func(w *world, step string) error { return errorOf(w.engine.SkipStep(ctx, w.id, step, byTester)) }},
		{"resolve", func(w *world, step string) error {
			return errorOf(w.engine.ResolveStep(ctx, w.id, step, json.RawMessage("1"), byTester))
		}},
		{"approve", func(w *world, step string) error { return errorOf(w.engine.Approve(ctx, w.id, step, nil, byTester)) }},
		{"reject", func(w *world, step string) error { return errorOf(w.engine.Reject(ctx, w.id, step, byTester)) }},
	}
}

// Workflows of situations. Every step that a worker runs has the handler hand.
const (
	plainFile = "name: w\nsteps:\n  - {id: one, handler: hand}\n  - {id: two, needs: [one], handler: hand}\n  - {id: news, needs: [two], event: {name: news}}\n"
	retryFile = "name: w\nsteps:\n  - {id: one, handler: hand, retry: {max_attempts: %d, base: 1h, cap: 1h, jitter: none}}\n  - {id: news, needs: [one], event: {name: news}}\n"
	queueFile = "name: w\nsteps:\n  - {id: one, handler: hand}\n  - {id: two, handler: hand}\n"
	drainFile = "name: w\non_error: drain\nsteps:\n  - {id: one, handler: hand, retry: {max_attempts: 1}}\n  - {id: two, handler: hand}\n"
	hooksFile = "name: w\nsteps:\n  - {id: one, handler: hand}\n  - {id: news, event: {name: news}, if: \"${{ false }}\"}\nhooks:\n  always: [{id: tidy, handler: hand}]\n"
	waitFile  = "name: w\nsteps:\n  - {id: one, %s}\n"
	skipFile  = "name: w\nsteps:\n  - {id: one, handler: hand, if: \"${{ false }}\"}\n  - {id: two, handler: hand}\n"
	fanFile   = "name: w\non_error: drain\nsteps:\n  - {id: one, handler: hand, retry: {max_attempts: 1}, foreach: \"${{ [1, 2] }}\"}\n"
	childFile = "name: w\nsteps:\n  - {id: one, workflow: child}\n"
)

func once() string  { return fmt.Sprintf(retryFile, 1) }
func twice() string { return fmt.Sprintf(retryFile, 3) }

func nothing(*world) {}

func jobSituations() []situation {
	finish := func(w *world) {
		w.succeed("one")
		w.succeed("two")
		w.check(errorOf(w.engine.Signal(context.Background(), w.id, "news", nil, byTester)))
		w.until("it has ended", func(v *pawl.JobView) bool { return lifecycle.Job.Ended(v.Status) })
	}
	return []situation{
		{name: "PENDING", source: plainFile, arrange: nothing},
		{name: "PENDING, paused", source: plainFile, arrange: func(w *world) { w.pause() }},
		{name: "RUNNING", source: plainFile, arrange: func(w *world) { w.claim("one") }},
		{name: "RUNNING, paused", source: plainFile, arrange: func(w *world) { w.claim("one"); w.pause() }},
		{name: "RUNNING, about to be CANCELED", source: plainFile, arrange: func(w *world) { w.claim("one"); w.cancel() }},
		{name: "RUNNING, its hooks run", source: hooksFile, arrange: func(w *world) { w.succeed("one"); w.claim("tidy") }},
		{name: "COMPLETED", source: plainFile, arrange: finish},
		{name: "FAILED", source: once(), arrange: func(w *world) { w.fail("one") }},
		{name: "CANCELED", source: plainFile, arrange: func(w *world) { w.cancel() }},
	}
}

func stepSituations() []situation {
	waits := func(what string) string { return fmt.Sprintf(waitFile, what) }
	begun := func(w *world) {
		w.until("it waits", func(*pawl.JobView) bool { return w.state("one") == string(lifecycle.StepInProgress) })
	}
	drained := func(w *world) { w.claimAll("one", "two"); w.report("one", failed) }
	return []situation{
		{name: "pending, its job has not begun", source: plainFile, step: "one", arrange: nothing},
		{name: "pending, what it needs runs", source: plainFile, step: "two", arrange: func(w *world) { w.claim("one") }},
		{name: "pending, until its backoff is over", source: twice(), step: "one", arrange: func(w *world) { w.fail("one") }},
		{name: "pending, its job is paused", source: plainFile, step: "two", arrange: func(w *world) { w.claim("one"); w.pause() }},
		{name: "pending, it is a hook whose time has not come", source: hooksFile, step: "tidy", arrange: func(w *world) { w.claim("one") }},
		{name: "enqueued", source: queueFile, step: "two", arrange: func(w *world) { w.claim("one") }},
		{name: "in_progress, a worker has it", source: plainFile, step: "one", arrange: func(w *world) { w.claim("one") }},
		{name: "in_progress, asked to stop", source: plainFile, step: "one", arrange: func(w *world) { w.claim("one"); w.cancel() }},
		{name: "in_progress, a hook", source: hooksFile, step: "tidy", arrange: func(w *world) { w.succeed("one"); w.claim("tidy") }},
		{name: "in_progress, an approval", source: waits("approval: {prompt: \"Go?\"}"), step: "one", arrange: begun},
		{name: "in_progress, an event", source: waits("event: {name: news}"), step: "one", arrange: begun},
		{name: "in_progress, a sleep", source: waits("sleep: 1h"), step: "one", arrange: begun},
		{name: "in_progress, the parent of a foreach", source: fanFile, step: "one", arrange: func(w *world) { w.claim("one[0]") }},
		{name: "in_progress, an instance of a foreach", source: fanFile, step: "one[0]", arrange: func(w *world) { w.claim("one[0]") }},
		{name: "in_progress, a child job", source: childFile, step: "one", arrange: begun},
		{name: "complete, its job runs", source: plainFile, step: "one", arrange: func(w *world) { w.succeed("one"); w.claim("two") }},
		{name: "complete, its job has ended", source: queueFile, step: "one", arrange: func(w *world) { w.claimAll("one", "two"); w.report("one", succeeded); w.report("two", succeeded) }},
		{name: "retryable_error, not yet applied", source: twice(), step: "one", arrange: func(w *world) { w.claim("one"); w.freeze(); w.report("one", failed) }},
		{name: "permanent_error, its job drains", source: drainFile, step: "one", arrange: drained},
		{name: "permanent_error, an instance of a foreach", source: fanFile, step: "one[0]", arrange: func(w *world) { w.claimAll("one[0]", "one[1]"); w.report("one[0]", failed) }},
		{name: "permanent_error, its job has FAILED", source: once(), step: "one", arrange: func(w *world) { w.fail("one") }},
		{name: "cancelled", source: plainFile, step: "two", arrange: func(w *world) { w.claim("one"); w.cancel() }},
		{name: "skipped", source: skipFile, step: "one", arrange: func(w *world) { w.claim("two") }},
		{name: "resolved_manually", source: queueFile, step: "two", arrange: func(w *world) {
			w.claim("one")
			w.check(errorOf(w.engine.ResolveStep(context.Background(), w.id, "two", nil, byTester)))
		}},
	}
}

// A world is one job, and a worker whose hands are the test's.
type world struct {
	t      *testing.T
	store  store.Store
	engine *engine.Engine
	worker *pawl.Worker
	id     pawl.ID
	held   map[string]link.Assignment // by key
}

var succeeded = decide.Report{Event: lifecycle.StepSuccess, Output: json.RawMessage("1")}

var failed = decide.Report{Event: lifecycle.StepFail, Failure: &pawl.Failure{Class: "exit_1", Message: "exit status 1"}}

const childOf = "name: child\nsteps:\n  - {id: one, event: {name: news}}\n"

func newWorld(t *testing.T, source string) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, held: make(map[string]link.Assignment)}
	w.engine = engine.New(engine.Config{Store: s, Silence: time.Hour, Jitter: func() float64 { return 1 }})
	child, err := workflow.Parse("child.yaml", []byte(childOf))
	w.check(err)
	_, _, err = w.engine.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, child.Canonical(), "", byTester)
	w.check(err)
	def, err := workflow.Parse("w.yaml", []byte(source))
	w.check(err)
	done, err := w.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Actor: "test"})
	w.check(err)
	w.check(done[0].Err)
	w.id = done[0].ID
	return w
}

func (w *world) close() {
	w.engine.Close()
	w.check(w.store.Close())
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// freeze leaves an engine that does what it is told and nothing by itself.
func (w *world) freeze() {
	w.engine.Close()
	w.engine = engine.New(engine.Config{Store: w.store, Passive: true})
}

// hands returns the worker; its name is held for as long as the database is open.
func (w *world) hands() *pawl.Worker {
	w.t.Helper()
	if w.worker != nil {
		return w.worker
	}
	route := pawl.Route(pawl.DefaultWorkspace, workflow.DefaultQueue, "hand", 0)
	var err error
	w.worker, _, err = w.engine.Register(w.t.Context(), link.Registration{Actor: "test", Worker: pawl.Worker{Workspace: pawl.DefaultWorkspace, Capacity: 2,
		Routes: []rowkey.Route{route}, Handlers: []string{workflow.DefaultQueue + "/hand"}}})
	w.check(err)
	return w.worker
}

// claim lets the worker take one step, which must be that one.
func (w *world) claim(key string) { w.claimAll(key) }

func (w *world) claimAll(keys ...string) {
	w.t.Helper()
	want := len(w.held) + len(keys)
	w.until("the worker has "+strings.Join(keys, ", "), func(*pawl.JobView) bool {
		got, err := w.engine.Exchange(w.t.Context(), link.Exchange{Worker: w.hands(), Free: want - len(w.held)})
		w.check(err)
		for _, a := range got {
			w.held[a.Definition.Key(a.Step.Ord)] = a
		}
		return len(w.held) == want
	})
	for _, key := range keys {
		if _, ok := w.held[key]; !ok {
			w.t.Fatalf("the worker has %v, not %s", w.held, key)
		}
	}
}

func (w *world) report(key string, r decide.Report) {
	w.t.Helper()
	a := w.held[key]
	delete(w.held, key)
	_, err := w.engine.Exchange(w.t.Context(), link.Exchange{Worker: w.worker,
		Reports: []link.Report{{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: "test", Report: r}}})
	w.check(err)
	if w.state(key) == string(lifecycle.StepRetryableError) {
		return // nobody weighs it
	}
	w.until("the report is weighed", func(v *pawl.JobView) bool {
		j, err := w.store.Job(w.t.Context(), w.id.JobKey())
		w.check(err)
		return j.Mark == pawl.Clear
	})
}

func (w *world) succeed(key string) { w.claim(key); w.report(key, succeeded) }

func (w *world) fail(key string) { w.claim(key); w.report(key, failed) }

func (w *world) pause() { w.check(errorOf(w.engine.PauseJob(w.t.Context(), w.id, byTester))) }

func (w *world) cancel() {
	w.check(errorOf(w.engine.Cancel(w.t.Context(), w.id, pawl.Change{Actor: "test"})))
}

func (w *world) retry(r pawl.Retry) error {
	_, err := w.engine.RetryJob(w.t.Context(), w.id, r, byTester)
	return err
}

func (w *world) job() *pawl.JobView {
	w.t.Helper()
	v, err := w.engine.Job(w.t.Context(), w.id)
	w.check(err)
	return v
}

func (w *world) until(what string, f func(*pawl.JobView) bool) {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !f(w.job()) {
		select {
		case <-tick.C:
		case <-late:
			b, _ := json.MarshalIndent(w.job(), "", "  ")
			w.t.Fatalf("it did not happen: %s\n%s", what, b)
		}
	}
}

// state returns the state of a step, or of the job.
func (w *world) state(step string) string {
	w.t.Helper()
	v := w.job()
	if step == "" {
		return string(v.Status)
	}
	for _, s := range v.Steps {
		if s.Key == step {
			return string(s.Status)
		}
	}
	return "missing"
}

// trail returns how many entries there are in the history of the job.
func (w *world) trail() int {
	w.t.Helper()
	n := 0
	w.check(w.engine.History(w.t.Context(), w.id, func(pawl.Transition) error { n++; return nil }))
	return n
}

// outcome says what a verb that worked has done.
func (w *world) outcome(before, step string) string {
	w.t.Helper()
	v := w.job()
	after := w.state(step)
	text := "it stays " + after
	if after != before {
		text = "it is " + after
	}
	all, err := w.engine.Jobs(w.t.Context(), pawl.JobQuery{Workflow: "w"})
	w.check(err)
	for i := range all {
		if all[i].Continues != nil {
			text += fmt.Sprintf("; a new job continues it, which is %s", all[i].Status)
		}
	}
	if step != "" && v.Status != lifecycle.JobRunning {
		text += fmt.Sprintf("; the job is %s", v.Status)
	}
	if v.Ending != "" {
		text += fmt.Sprintf("; the job is going to be %s", v.Ending)
	}
	if v.Paused && step == "" {
		text += ", paused"
	}
	return text
}
