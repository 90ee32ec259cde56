package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func (p *process) past(id pawl.ID, at pawl.Moment) *pawl.JobView {
	p.t.Helper()
	v, err := p.engine.Past(p.t.Context(), id, at)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// TestThePastOfRandomJobs: at the end of its trail a job equals the stored one, and at
// every earlier move it equals the fold of the rows up to then.
func TestThePastOfRandomJobs(t *testing.T) { // K5, K6
	onShared(t, func(t *testing.T, db *database) {
		r := rand.New(rand.NewPCG(seed(t), 0))
		c := newCrowd(t, r, 25)
		p := startProcess(t, db.open(), map[string]worker.Handler{"h0": c.run, "h1": c.run})
		c.processes = append(c.processes, p)
		for _, name := range sortedNames(c.jobs) {
			id := p.submit(c.jobs[name].def, "")
			c.ids[name] = id
			switch r.IntN(4) {
			case 0:
				cancelLater(t, p, id, time.Duration(r.IntN(30))*time.Millisecond)
				c.canceled[name] = true
			case 1:
				if errorOf(p.engine.PauseJob(t.Context(), id, change("for a moment"))) == nil {
					if _, err := p.engine.ResumeJob(t.Context(), id, change("")); err != nil && pawl.KindOf(err) != pawl.Conflict { // it may have ended
						t.Error(err)
					}
				}
			}
		}
		c.finish()
		for _, name := range sortedNames(c.jobs) {
			p.comparePast(c.ids[name])
		}
	})
}

// comparePast compares the past of an ended job with what is stored, and with
// its history.
func (p *process) comparePast(id pawl.ID) {
	p.t.Helper()
	stored := p.job(id)
	last := int64(len(stored.StateHistory))
	for _, at := range []pawl.Moment{{Sequence: last}, {Time: stored.UpdatedAt + 1e9}} {
		got := p.past(id, at)
		got.AsOf = 0
		if diff := cmp.Diff(comparable(p.t, stored), comparable(p.t, got)); diff != "" {
			p.t.Errorf("job %s at %+v (-stored +rebuilt):\n%s", stored.ID, at, diff)
		}
	}
	history, err := collected(p.t.Context(), p.engine.History, id)
	if err != nil {
		p.t.Fatal(err)
	}
	for seq := int64(1); seq <= last; seq++ {
		p.compareFold(p.past(id, pawl.Moment{Sequence: seq}), history, seq)
	}
	for i := 0; i < len(history); i += 1 + len(history)/20 {
		p.compareFold(p.past(id, pawl.Moment{Time: history[i].At}), history, 0)
	}
}

// comparable returns a view as it appears in JSON.
func comparable(t *testing.T, v *pawl.JobView) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// compareFold is the dumb twin: it reads the history row by row. A sequence of 0
// is the job's last one by then.
func (p *process) compareFold(v *pawl.JobView, history []pawl.Transition, seq int64) {
	p.t.Helper()
	status, counts, rows := machine.State(""), make(map[machine.State]int), 0
	states, claims := make(map[string]machine.State), make(map[string]int)
	for _, row := range history {
		switch {
		case row.Refused:
		case row.Step == "":
			if seq == 0 && row.At <= v.AsOf || row.Sequence <= seq {
				status = row.To
				rows++
			}
		case row.At <= v.AsOf:
			states[row.Step] = row.To
			if row.Event == lifecycle.StepClaim {
				claims[row.Step]++
			}
		}
	}
	for _, s := range states {
		counts[s]++
	}
	if v.Status != status || len(v.StateHistory) != rows || len(v.Steps) != len(states) {
		p.t.Errorf("job %s as of %s, move %d: %s with %d moves and %d steps; want %s with %d and %d", v.ID, v.AsOf, seq, v.Status, len(v.StateHistory), len(v.Steps), status, rows, len(states))
	}
	if diff := cmp.Diff(counts, v.StepCounts); diff != "" {
		p.t.Errorf("job %s as of %s: counts (-history +past):\n%s", v.ID, v.AsOf, diff)
	}
	for _, s := range v.Steps {
		if s.Status != states[s.Key] || s.Claims != claims[s.Key] {
			p.t.Errorf("job %s as of %s, step %s: %s after %d claims; want %s after %d", v.ID, v.AsOf, s.Key, s.Status, s.Claims, states[s.Key], claims[s.Key])
		}
		if ended := lifecycle.Step.Ended(s.Status); !ended && string(s.Output) != "null" || ended != (s.CompletedAt != 0) || s.CompletedAt > v.AsOf || s.StartedAt > v.AsOf {
			p.t.Errorf("job %s as of %s, step %s: %s, output %s, started %s, completed %s", v.ID, v.AsOf, s.Key, s.Status, s.Output, s.StartedAt, s.CompletedAt)
		}
	}
}

// TestThePastOfAStep: attempts, errors, workers and outputs are those of the time.
func TestThePastOfAStep(t *testing.T) { // K6, T6
	t.Parallel()
	db := aFile(t)
	calls := 0
	p := startProcess(t, db.open(), map[string]worker.Handler{"flaky": func(context.Context, *worker.Task) worker.Result {
		if calls++; calls < 3 {
			return worker.Result{Failure: &pawl.Failure{Class: "test", Message: fmt.Sprintf("try %d", calls)}}
		}
		return worker.Result{Output: json.RawMessage("7")}
	}})
	id := p.submit(define(t, `
name: n
steps:
  - {id: a, handler: flaky, retry: {max_attempts: 3, base: 1ms, jitter: none}}
  - {id: gate, needs: [a], approval: {prompt: Well?}}
`), "")
	p.because(id, "gate", pawl.ReasonApproval)
	if _, err := p.engine.PauseJob(t.Context(), id, change("")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.engine.Approve(t.Context(), id, "gate", nil, change("fine")); err != nil {
		t.Fatal(err)
	}
	v := p.wait(id)

	moments := p.moments(id, "a")
	if len(moments) == 0 {
		t.Fatal("step a has no history")
	}
	first := p.stepAt(id, "a", moments[lifecycle.StepFail])
	if first.Attempts != 1 || first.Claims != 1 || first.Error == nil || first.Error.Message != "try 1" || string(first.Output) != "null" || first.CompletedAt != 0 {
		t.Errorf("after the first attempt: %+v, error %v", first, first.Error)
	}
	if first.WorkerID == nil || *first.WorkerID != p.worker.ID() {
		t.Errorf("worker %v; want %s", first.WorkerID, p.worker.ID())
	}
	last := p.stepAt(id, "a", moments[lifecycle.StepSuccess])
	if last.Attempts != 3 || string(last.Output) != "7" || last.Error != nil {
		t.Errorf("when it was complete: %+v", last)
	}
	gate := p.stepAt(id, "gate", p.moments(id, "gate")[lifecycle.StepClaim])
	if gate.Wait == nil || gate.Wait.Kind != "approval" || gate.Wait.By != "" || gate.Wait.Reason != "" {
		t.Errorf("while nobody had approved: %+v", gate.Wait)
	}
	var paused int64
	for _, row := range v.StateHistory {
		if row.Event == lifecycle.JobPause {
			paused = row.Sequence
		}
	}
	if p.past(id, pawl.Moment{Sequence: paused - 1}).Paused || !p.past(id, pawl.Moment{Sequence: paused}).Paused {
		t.Error("want it paused from the pause on")
	}
	if was := p.past(id, pawl.Moment{Sequence: paused}); was.Status != lifecycle.JobRunning || was.CompletedAt != 0 || was.AsOf == 0 {
		t.Errorf("at the pause: %s, completed %s, as of %s", was.Status, was.CompletedAt, was.AsOf)
	}
}

// moments returns when each event first happened to a step.
func (p *process) moments(id pawl.ID, step string) map[machine.Event]pawl.Timestamp {
	p.t.Helper()
	history, err := collected(p.t.Context(), p.engine.History, id)
	if err != nil {
		p.t.Fatal(err)
	}
	at := make(map[machine.Event]pawl.Timestamp)
	for _, row := range history {
		if _, seen := at[row.Event]; row.Step == step && !row.Refused && !seen {
			at[row.Event] = row.At
		}
	}
	return at
}

func (p *process) stepAt(id pawl.ID, step string, at pawl.Timestamp) pawl.StepView {
	p.t.Helper()
	return steps(p.past(id, pawl.Moment{Time: at}))[step]
}

func TestThePastOfAFanOut(t *testing.T) { // K6
	t.Parallel()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop})
	id := p.submit(define(t, fanOut), items(20))
	p.wait(id)
	made := p.moments(id, "each[4]")[lifecycle.StepCreate]
	n := p.stepAt(id, "each", made).Instances
	if n == nil || n.Total != 20 || n.Made < 5 || n.Made > 20 || n.Live < 1 || n.Live > 8 {
		t.Errorf("instances %+v; want those of then, 8 at once", n)
	}
}

func TestThePastThatWasNot(t *testing.T) { // K6
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	id := p.submit(define(t, oneStep), "")
	v := p.job(id)
	for _, at := range []pawl.Moment{{Time: v.CreatedAt - 1}, {Sequence: 99}, {Sequence: -1}} {
		if _, err := p.engine.Past(t.Context(), id, at); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%+v: %v; want it not found", at, err)
		}
	}
	if _, err := p.engine.Past(t.Context(), p.engine.NewID(), pawl.Moment{Sequence: 1}); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("no job: %v", err)
	}
}

// TestThePastOfAJobThatMoved: it has the definition that it had.
func TestThePastOfAJobThatMoved(t *testing.T) { // K6, T12
	t.Parallel()
	p := startProcess(t, aFile(t).open(), nil)
	registerAs(t, p, "name: n\nsteps: [{id: a, sleep: 1h}, {id: b, handler: h, needs: [a]}]\n")
	registerAs(t, p, "name: n\nsteps: [{id: a, sleep: 1h}, {id: c, handler: h, needs: [a]}]\n")
	v, def, err := p.engine.Lookup(t.Context(), pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: "n"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := p.engine.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Version: v.Version, Actor: "test"})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	id := answers[0].ID
	p.because(id, "a", pawl.ReasonSleep)
	if _, err := p.engine.MoveJob(t.Context(), id, 2, false, change("better")); err != nil {
		t.Fatal(err)
	}
	now, was := p.job(id), p.past(id, pawl.Moment{Sequence: 1})
	if was.DefinitionHash != def.HashString() || was.Version != 1 || now.DefinitionHash == was.DefinitionHash || now.Version != 2 {
		t.Errorf("now version %d %s, then version %d %s", now.Version, now.DefinitionHash, was.Version, was.DefinitionHash)
	}
	if _, ok := steps(p.past(id, pawl.Moment{Sequence: int64(len(now.StateHistory))}))["c"]; !ok || strings.Contains(fmt.Sprint(was.Steps), `Key:c `) {
		t.Errorf("steps then %v; want c to come with the move", was.Steps)
	}
	p.because(id, "c", pawl.ReasonNeeds, "a (in_progress)")
}

func TestHistoryTellsHowLong(t *testing.T) { // K5
	t.Parallel()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop})
	id := p.submit(define(t, oneStep), "")
	p.wait(id)
	history, err := collected(t.Context(), p.engine.History, id)
	if err != nil {
		t.Fatal(err)
	}
	entered := make(map[string]pawl.Timestamp)
	for _, row := range history {
		if leaves := row.From != nil && *row.From != row.To; leaves != (row.Took != nil) {
			t.Errorf("%s %s: took %v", row.Step, row.Event, row.Took)
		} else if leaves && time.Duration(*row.Took) != row.At.Time().Sub(entered[row.Step].Time()) {
			t.Errorf("%s %s: took %s", row.Step, row.Event, time.Duration(*row.Took))
		}
		if row.From == nil || *row.From != row.To {
			entered[row.Step] = row.At
		}
	}
}

// TestThePastOfATakenStep: an attempt that was interrupted, or whose worker was
// ended, is given back, and its claim is not.
func TestThePastOfATakenStep(t *testing.T) { // K6, T5, J9
	t.Parallel()
	db := aFile(t)
	g := newGate(false)
	defer g.release()
	p := startProcess(t, db.open(), map[string]worker.Handler{"h": g.run})
	id := p.submit(define(t, oneStep), "")
	g.wait(t)
	if err := p.engine.Terminate(t.Context(), p.workerKey(), decide.Note{Reason: "on purpose"}); err != nil {
		t.Fatal(err)
	}
	g.wait(t) // by the worker that was registered again
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p.worker.Drain(over)
	p.engine.Close()

	q := startProcess(t, db.open(), map[string]worker.Handler{"h": nop})
	q.wait(id)
	q.comparePast(id)
	at := q.moments(id, "a")
	for event, want := range map[machine.Event][2]int{lifecycle.StepLost: {0, 1}, lifecycle.StepInterrupt: {0, 2}, lifecycle.StepSuccess: {1, 3}} {
		s := q.stepAt(id, "a", at[event])
		if s.Attempts != want[0] || s.Claims != want[1] {
			t.Errorf("after %s: %d attempts, %d claims; want %v", event, s.Attempts, s.Claims, want)
		}
		if event != lifecycle.StepSuccess && (s.Error == nil || s.Error.Class != "lost") {
			t.Errorf("after %s: error %v; want the loss, an interrupt being no failure", event, s.Error)
		}
	}
}
