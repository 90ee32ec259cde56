package exchange

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	workerText = "w_019a3c7e5b7a7c1d8000000040a1b2c3"
	stepText   = "st_019a3c7e5b7a7c1d8000000040100000"
)

func id(t *testing.T, prefix, text string) pawl.ID {
	t.Helper()
	id, err := pawl.ParseID(prefix, text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestReportsComeBack: what a Go worker reports reaches the engine unchanged (T5, T6).
func TestReportsComeBack(t *testing.T) {
	t.Parallel()
	w, step := id(t, pawl.WorkerPrefix, workerText), id(t, pawl.StepPrefix, stepText)
	failure := &pawl.Failure{Class: "exit_3", Message: "it broke", Delay: pawl.Duration(2 * time.Second), Metadata: []byte(`{"code":3}`)}
	permanent := *failure
	permanent.Permanent = true
	for name, r := range map[string]decide.Report{
		"success":     {Event: lifecycle.StepSuccess, Output: []byte(`{"a":1}`)},
		"failure":     {Event: lifecycle.StepFail, Failure: failure},
		"for good":    {Event: lifecycle.StepFailPermanently, Failure: &permanent},
		"timeout":     {Event: lifecycle.StepTimeout, Failure: failure},
		"cancel":      {Event: lifecycle.StepCancel, Failure: failure},
		"interrupted": {Event: lifecycle.StepInterrupt, Failure: failure},
		"snooze":      {Event: lifecycle.StepInterrupt, Snooze: time.Minute},
	} {
		want := link.Report{Step: step.StepKey(), Claim: 4, Actor: workerText, By: w.WorkerKey(), Report: r}
		message := ReportOf(Of(step, link.Stop{Claim: want.Claim}), &want)
		got, err := message.report(w, workerText)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-reported +received)\n%s", name, err, diff)
		}
	}
}

// TestAnOutputTooLarge: an output that no server takes is a failure of its step, and not an
// exchange that is refused again and again (T8).
func TestAnOutputTooLarge(t *testing.T) {
	t.Parallel()
	step := id(t, pawl.StepPrefix, stepText)
	large := link.Report{Step: step.StepKey(), Claim: 1, Report: decide.Report{Event: lifecycle.StepSuccess, Output: []byte(`"` + strings.Repeat("x", MaxOutput) + `"`)}}
	r := ReportOf(Of(step, link.Stop{Claim: large.Claim}), &large)
	if r.Outcome != "fail" || !r.Error.Permanent || r.Error.Class != pawl.ClassTooLarge || r.Output != nil {
		t.Errorf("it is reported as %s with %+v", r.Outcome, r.Error)
	}
	r.Outcome, r.Output = "complete", large.Output
	if _, err := reports(id(t, pawl.WorkerPrefix, workerText), []Report{{Claim: r.Claim, Outcome: "cancel"}, r}); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), "reports[1].output: it has 1048578 bytes: want at most 1048576") {
		t.Errorf("a server says %v", err)
	}
}

// TestStepsComeBack: what a step needs to be run reaches the worker.
func TestStepsComeBack(t *testing.T) {
	t.Parallel()
	step := id(t, pawl.StepPrefix, stepText)
	for _, w := range []workflow.Work{
		{Kind: workflow.KindCommand, Argv: []string{"a", "b"}, Env: map[string]string{"X": "1"}, Dir: "sub"},
		{Kind: workflow.KindRun, Script: "true"},
		{Kind: workflow.KindHTTP, HTTP: &workflow.Request{Method: "PUT", URL: "http://x", Headers: map[string]string{"A": "b"}, Body: "c", Expect: []int{201}}},
		{Kind: workflow.KindHandler, Handler: "mail", With: []byte(`{"to":1}`)},
	} {
		n := &workflow.Node{Kind: w.Kind, Handler: string(w.Kind), Queue: "slow", Timeout: time.Minute, Output: workflow.OutputLines, Isolation: workflow.IsolationStop}
		if w.Handler != "" {
			n.Handler = w.Handler
		}
		n.Retry.PermanentExitCodes = []int{3}
		want := link.StepInput{Work: &w, Input: func() json.RawMessage { return []byte(`{"inputs":{}}`) }, JobID: "j_1", StepID: stepText, Key: "load[3]", Workflow: "flow", Dir: "/d", Node: n}
		s := stepOf(&link.Assignment{Step: link.Claimed{StepKey: step.StepKey(), Claims: 2, Attempts: 1}}, &want)
		received := s.StepInput(new(link.StepInput))
		if got := received.Input(); string(got) != string(want.Input()) {
			t.Errorf("%s: input %s, want %s", w.Kind, got, want.Input())
		} else if got[0] = 'x'; string(received.Input()) != string(want.Input()) {
			t.Errorf("%s: input %s after a change of the previous, want it made anew", w.Kind, received.Input())
		}
		if diff := cmp.Diff(want, received, cmpopts.IgnoreFields(link.StepInput{}, "Input"), cmp.AllowUnexported(workflow.Node{}), cmp.FilterPath(func(p cmp.Path) bool {
			name := p.Last().String()
			return len(name) > 1 && name[1] >= 'a' && name[1] <= 'z' // compiled parts, which a step that is delivered has none of
		}, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-sent +received)\n%s", w.Kind, diff)
		}
		if s.Claim.Claim != 2 || s.Attempt != 1 || s.TimeoutMS != 60_000 {
			t.Errorf("%s: %+v", w.Kind, s)
		}
	}
}

// TestRegistrations: a registration that is wrong has one error that names the field (J1).
func TestRegistrations(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Registration{
		"silence_ms: 1999: want 2000 to 3600000":    {SilenceMS: 1999},
		"silence_ms: 3600001: want 2000 to 3600000": {SilenceMS: 3_600_001},
		"queues[1], handlers[0]: want names":        {Queues: []string{"a", ""}},
		"predecessor.worker_id:":                    {Predecessor: &Predecessor{WorkerID: "w_1"}},
		"predecessor.holding[0].step_id:":           {Predecessor: &Predecessor{WorkerID: workerText, Holding: []Claim{{"st_1", 1}}}},
	} {
		if _, err := r.Worker(); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r, err := (&Registration{Queues: []string{"a", "b"}, Handlers: []string{"x", "y"}, SilenceMS: 60_000, Isolation: "stop"}).Worker()
	if err != nil || r.Worker.Silence != time.Minute || len(r.Worker.Routes) != 4 || string(r.Worker.Metadata) != `{"isolation":"stop","silence":"1m0s"}` {
		t.Errorf("%+v, %v", r.Worker, err)
	}
}
