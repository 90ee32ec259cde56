package workflow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// TestKindsInGo: each key of the second half, in Go and in YAML, is the same
// workflow (T12).
func TestKindsInGo(t *testing.T) {
	t.Parallel()
	type inputs = map[string]workflow.InputSchema
	child := build(t, workflow.File{Name: "child", Inputs: inputs{"day": {}}})
	for _, c := range []struct {
		name, yaml string
		file       workflow.File
	}{
		{"matrix", "steps: [{id: a, matrix: {os: [linux, darwin], n: [1, 1.5, true]}, parallel: 2, command: [x]}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Parallel: 2, Command: []string{"x"},
			Matrix: []workflow.Axis{{Name: "os", Values: []any{"linux", "darwin"}}, {Name: "n", Values: []any{1, 1.5, true}}},
		}}}},
		{"approval", "steps: [{id: a, approval: {prompt: ok?, form: {note: {required: true}}, expires: 24h}}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Approval: &workflow.ApprovalStep{Prompt: "ok?", Form: inputs{"note": {Required: true}}, Expires: 24 * time.Hour},
		}}}},
		{"approval without a form", "steps: [{id: a, approval: {prompt: ok?, form: {}}}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Approval: &workflow.ApprovalStep{Prompt: "ok?", Form: inputs{}},
		}}}},
		{"sleep", "steps: [{id: a, sleep: 90s}]", workflow.File{Steps: []workflow.Step{{ID: "a", Sleep: "1m30s"}}}},
		{"event", "steps: [{id: a, event: {name: paid, timeout: 1h}}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Event: &workflow.EventStep{Name: "paid", Timeout: time.Hour},
		}}}},
		{"workflow", "steps: [{id: a, workflow: other@3, inputs: {day: '${{ job.id }}'}}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Workflow: &workflow.ChildStep{Name: "other", Version: 3}, Inputs: map[string]any{"day": "${{ job.id }}"},
		}}}},
		{"the newest workflow", "steps: [{id: a, workflow: other, inputs: {}}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Workflow: &workflow.ChildStep{Name: "other"},
		}}}},
		{"a file", "steps: [{id: a, workflow: child.yaml}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Workflow: &workflow.ChildStep{File: "child.yaml", Definition: child.Canonical()},
		}}}},
		{"queue", "steps: [{id: a, command: [x], queue: big, priority: -5, queue_timeout: 1m}]", workflow.File{Steps: []workflow.Step{{
			ID: "a", Command: []string{"x"}, Queue: "big", Priority: -5, QueueTimeout: time.Minute,
		}}}},
		{"default queue", "steps: [{id: a, command: [x], queue: default, priority: 0}]", workflow.File{Steps: []workflow.Step{{ID: "a", Command: []string{"x"}}}}},
		{"hooks", "steps: []\nhooks: {failure: [{id: a, run: x, if: 'true'}], always: [{id: b, handler: h}]}", workflow.File{Hooks: workflow.Hooks{
			Failure: []workflow.Step{{ID: "a", Run: "x", If: "true"}}, Always: []workflow.Step{{ID: "b", Handler: "h"}},
		}}},
		{"empty hooks", "steps: []\nhooks: {failure: []}", workflow.File{Hooks: workflow.Hooks{Always: []workflow.Step{}}}},
		{"concurrency", "steps: []\nconcurrency: {key: a}", workflow.File{Concurrency: workflow.Concurrency{Key: "a"}}},
		{"concurrency without a key", "steps: []\nconcurrency: {}", workflow.File{Concurrency: workflow.Concurrency{Limit: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			open := func(string, string) (string, []byte, error) {
				return "child.yaml", []byte("name: child\ninputs: {day: {}}\nsteps: []\n"), nil
			}
			inYAML, err := workflow.ParseWith("w.yaml", []byte("name: w\n"+c.yaml+"\n"), open)
			if err != nil {
				t.Fatal(err)
			}
			c.file.Name = "w"
			inGo := build(t, c.file)
			if diff := cmp.Diff(string(inYAML.Canonical()), string(inGo.Canonical())); diff != "" {
				t.Errorf("canonical (-yaml +go):\n%s", diff)
			}
			checkRoundTrip(t, inGo)
		})
	}
}

// TestKindsOfNodes: what the kinds that wait, hooks, queues and matrices become.
func TestKindsOfNodes(t *testing.T) {
	t.Parallel()
	d, err := parseFile("testdata/good/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]string{}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		kinds[string(n.Kind)] = append(kinds[string(n.Kind)], n.ID)
		if n.Kind.Waits() && (n.Handler != string(n.Kind) || n.Output != "" || n.Retry.MaxAttempts != 0 || n.Queue != workflow.DefaultQueue) {
			t.Errorf("%s waits: %+v", n.ID, n)
		}
	}
	want := map[string][]string{
		"command": {"builds"}, "approval": {"ports", "ask"}, "sleep": {"nap", "rest", "none"}, "event": {"told", "paid"},
		"workflow": {"newest", "second", "third", "each", "again"}, "handler": {"plain", "count"}, "http": {"tell"}, "run": {"tidy"},
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	node := func(id string) *workflow.Node { return d.Node(d.NodeByID(id)) }
	if n := node("builds"); n.Queue != "builds" || n.Priority != -10 || n.QueueTimeout != 90*time.Second || n.Combinations() != 12 || !n.Fans() || n.HasForeach {
		t.Errorf("%+v", n)
	}
	if n := node("ask"); n.Expires != 90*time.Minute || len(n.Approval.Form) != 3 || n.Approval.Form[1].Name != "size" {
		t.Errorf("%+v", n)
	}
	if n := node("paid"); n.Event != "paid" || n.Expires != 48*time.Hour || n.Fans() || n.Combinations() != 0 {
		t.Errorf("%+v", n)
	}
	if n := node("second"); n.Child.Name != "other" || n.Child.Version != 2 || n.Child.Definition != nil {
		t.Errorf("%+v", n.Child)
	}
	if n := node("each"); n.Child.File != "children/outer.yaml" || n.Child.Definition.Name != "outer" {
		t.Errorf("%+v", n.Child)
	}
	if got := fmt.Sprint(d.Hooks, d.Roots(), d.Events, d.Concurrency); got != "[15 16 17] [1 2 4 6 7 8 9 10 11 12 13 14] true 3" {
		t.Errorf("hooks, roots, events, concurrency: %s", got)
	}
	if tell, count := node("tell"), node("count"); tell.Hook != workflow.HookOnFailure || count.Hook != workflow.HookAlways || node("plain").Hook != workflow.NoHook {
		t.Errorf("%q, %q", tell.Hook, count.Hook)
	}
}

// TestStoredForms: what an earlier version stored still loads, as it was.
func TestStoredForms(t *testing.T) {
	t.Parallel()
	const stored = `{"name":"minimal","on_error":"halt","steps":[{"command":["x"],"id":"a","output":"text","retry":{"backoff":"exponential","base":"1s","cap":"1m0s","jitter":"full","max_attempts":3,"permanent_exit_codes":[]}}],"workers":10}`
	d, err := workflow.Load([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Canonical()) != stored || d.Workers != 10 || d.Node(1).Queue != workflow.DefaultQueue {
		t.Errorf("%s", d.Canonical())
	}
	if n := parse(t, "name: w\nsteps: []\n").Workers; n != workflow.MaxWorkers {
		t.Errorf("without workers there are %d", n)
	}
}

// TestMatrix: the order of the product, and the keys of instances.
func TestMatrix(t *testing.T) {
	t.Parallel()
	d := parse(t, "name: w\nsteps: [{id: test, matrix: {os: [linux, darwin], go: [1.25, 2.0, tip], race: [true]}, command: [x]}]\n")
	for i, want := range []struct{ key, item string }{
		{"test[linux,1.25,true]", `{"go":1.25,"os":"linux","race":true}`},
		{"test[linux,2,true]", `{"go":2,"os":"linux","race":true}`},
		{"test[linux,tip,true]", `{"go":"tip","os":"linux","race":true}`},
		{"test[darwin,1.25,true]", `{"go":1.25,"os":"darwin","race":true}`},
		{"test[darwin,2,true]", `{"go":2,"os":"darwin","race":true}`},
		{"test[darwin,tip,true]", `{"go":"tip","os":"darwin","race":true}`},
	} {
		ord := pawl.MakeOrd(1, i+1)
		if got := d.Key(ord); got != want.key {
			t.Errorf("instance %d is %s, want %s", i+1, got, want.key)
		}
		if got, err := d.OrdOf(want.key); got != ord || err != nil {
			t.Errorf("%s is at %d, %v", want.key, got, err)
		}
		if got := string(d.MatrixItem(1, i+1)); got != want.item {
			t.Errorf("instance %d: %s, want %s", i+1, got, want.item)
		}
	}
	if d.MatrixItem(1, 0) != nil || d.MatrixItem(1, 7) != nil {
		t.Error("there are instances outside of the product")
	}
	if ord, err := d.OrdOf("test[linux,tip]"); err == nil {
		t.Errorf("half a combination is at %d", ord)
	}
}

// TestMatrixProperty: every instance has a key of its own, by which it is found
// again, and as many values as there are axes.
func TestMatrixProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, err := workflow.File{Name: "w", Steps: []workflow.Step{{ID: "a", Handler: "h", Matrix: randomMatrix(t)}}}.Build()
		if err != nil {
			if !strings.Contains(err.Error(), "two combinations are both written") {
				t.Fatal(err)
			}
			return
		}
		seen := map[string]bool{}
		for i := 1; i <= d.Node(1).Combinations(); i++ {
			ord := pawl.MakeOrd(1, i)
			key := d.Key(ord)
			if found, err := d.OrdOf(key); found != ord || err != nil || seen[key] {
				t.Fatalf("%q of %d is found at %d: %v", key, ord, found, err)
			}
			seen[key] = true
			var item map[string]any
			if err := json.Unmarshal(d.MatrixItem(1, i), &item); err != nil || len(item) != len(d.Node(1).Matrix) {
				t.Fatalf("%v: %v", item, err)
			}
		}
	})
}

func randomMatrix(t *rapid.T) []workflow.Axis {
	value := rapid.OneOf(
		rapid.Map(rapid.StringMatching(`[a-z,\]\[" é]{0,4}`), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-9, 9), func(i int) any { return i }),
		rapid.Map(rapid.Float64Range(-1e3, 1e3), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	var axes []workflow.Axis
	for i := range rapid.IntRange(1, 3).Draw(t, "axes") {
		values := rapid.SliceOfNDistinct(value, 1, 4, func(v any) string {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) == "-0" { // is stored as 0
				return "0"
			}
			return strings.Trim(string(text), `"`)
		})
		axes = append(axes, workflow.Axis{Name: fmt.Sprintf("n%d", i), Values: values.Draw(t, "values")})
	}
	return axes
}

// TestMatrixRender: an instance sees its values and its index.
func TestMatrixRender(t *testing.T) {
	t.Parallel()
	d := parse(t, `name: w
steps:
  - id: a
    matrix: {os: [linux, darwin], n: [1]}
    env: {OS: "${{ matrix.os }}"}
    command: ["${{ matrix.n + 1 }}", "${{ index }}", "${{ matrix }}"]
`)
	s := &workflow.Scope{Item: d.MatrixItem(1, 2), Index: 1}
	w, err := d.Render(1, s)
	want := &workflow.Work{Kind: "command", Argv: []string{"2", "1", `{"n":1,"os":"darwin"}`}, Env: map[string]string{"OS": "darwin"}}
	if diff := cmp.Diff(want, w); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestOrdered: nodes keep their numbers where a canonical form says so, and
// problems keep naming the place in the file.
func TestOrdered(t *testing.T) {
	t.Parallel()
	d := parse(t, `name: w
steps:
  - {id: a, command: [x]}
  - {id: b, needs: [a], command: ["${{ steps.a.output.x }}"]}
hooks: {always: [{id: c, command: ["${{ steps.b.output.x }}"]}]}
`)
	o, err := d.Ordered([]string{"c", "b", "a"})
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, o)
	if o.Hash() == d.Hash() {
		t.Error("the order is not part of the hash")
	}
	if got := fmt.Sprint(o.NodeByID("a"), o.NodeByID("b"), o.NodeByID("c"), o.Hooks, o.Roots(), o.Node(2).Needs, o.Levels()); got != "3 2 1 [1] [3] [3] [[3] [2]]" {
		t.Error(got)
	}
	_, err = o.Render(2, &workflow.Scope{Outputs: map[int]json.RawMessage{3: json.RawMessage(`1`)}})
	checkFailure(t, err, "step b: command[0]: ", "cannot fetch x")
	_, err = o.Render(1, &workflow.Scope{Outputs: map[int]json.RawMessage{2: json.RawMessage(`1`)}})
	checkFailure(t, err, "hook c: command[0]: ", "cannot fetch x")
	if again, err := o.Ordered([]string{"a", "b", "c"}); err != nil || again.NodeByID("a") != 1 {
		t.Error(err)
	}
	for _, c := range []struct{ order, want string }{
		{"a b", "order: it does not name each step and each hook once"},
		{"a b c c", `order[3]: the id "c" appears twice`},
		{"a b d", `order[2]: there is no step "d"`},
		{"a-b b c", `order[0]: "a-b" is not an id`},
	} {
		if _, err := d.Ordered(strings.Fields(c.order)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.order, err, c.want)
		}
	}
}

// TestEvalWait: what steps wait for, with the expressions written out (T1).
func TestEvalWait(t *testing.T) {
	t.Parallel()
	d, err := parseFile("testdata/good/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	outer, cleanup := d.Node(d.NodeByID("each")).Child.Definition, d.Node(d.NodeByID("again")).Child.Definition
	type given = map[string]any
	for id, want := range map[string]*workflow.Waiting{
		"ports": {Wait: pawl.Wait{Kind: "approval", Prompt: "Open 8.5 in north?"}},
		"ask": {Wait: pawl.Wait{Kind: "approval", Prompt: "Release 2024-05-06?\n", Form: json.RawMessage(
			`{"note":{"description":"why","pattern":"^\\w","type":"string"},"size":{"default":1,"enum":[1,2],"type":"integer"},"sure":{"required":true,"type":"boolean"}}`)},
			For: 90 * time.Minute},
		"nap":    {Wait: pawl.Wait{Kind: "sleep"}, For: 1500 * time.Millisecond},
		"rest":   {Wait: pawl.Wait{Kind: "sleep"}, For: 5*time.Minute + 2*time.Second},
		"none":   {Wait: pawl.Wait{Kind: "sleep"}, For: time.Microsecond},
		"told":   {Wait: pawl.Wait{Kind: "event", Event: "host_ready"}},
		"paid":   {Wait: pawl.Wait{Kind: "event", Event: "paid"}, For: 48 * time.Hour},
		"newest": {Wait: pawl.Wait{Kind: "workflow"}, Child: &workflow.Born{Name: "other", Given: given{"day": "2024-05-06", "list": []any{json.Number("5"), json.Number("1.5"), nil}}}},
		"second": {Wait: pawl.Wait{Kind: "workflow"}, Child: &workflow.Born{Name: "other", Version: 2, Given: given{}}},
		"again": {Wait: pawl.Wait{Kind: "workflow"}, Child: &workflow.Born{
			Definition: cleanup, Given: given{"day": "2024-01-02", "keep": json.Number("3")}, Inputs: json.RawMessage(`{"day":"2024-01-02","keep":3}`)}},
		"each": {Wait: pawl.Wait{Kind: "workflow"}, Child: &workflow.Born{
			Definition: outer, Given: given{"host": "b", "n": json.Number("1")}, Inputs: json.RawMessage(`{"host":"b","n":1}`)}},
	} {
		s := &workflow.Scope{
			Inputs:  json.RawMessage(`{"day":"2024-05-06","pause":5,"hosts":["a","b"]}`),
			Outputs: map[int]json.RawMessage{d.NodeByID("ask"): json.RawMessage(`{"size":2}`)},
			Item:    json.RawMessage(`"b"`), Index: 1, JobID: "j_1", Workflow: "kinds",
		}
		if id == "ports" {
			s.Item = d.MatrixItem(d.NodeByID(id), 2)
		}
		got, err := d.EvalWait(d.NodeByID(id), s)
		same := cmp.Comparer(func(a, b *workflow.Definition) bool { return a == b })
		if diff := cmp.Diff(want, got, same, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	if got := fmt.Sprint(d.WaitNeeds(d.NodeByID("rest")), d.WaitNeeds(d.NodeByID("nap"))); got != fmt.Sprint([]int{d.NodeByID("ask")}, []int(nil)) {
		t.Errorf("needs of waits: %s", got)
	}
	_, err = d.EvalWait(d.NodeByID("builds"), &workflow.Scope{})
	if pawl.KindOf(err) != pawl.Internal {
		t.Errorf("a command waits: %v", err)
	}
}

// TestEvalWaitFailures: what cannot be waited for is refused, by step and key.
func TestEvalWaitFailures(t *testing.T) {
	t.Parallel()
	child := build(t, workflow.File{Name: "child", Inputs: map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger, Required: true}}})
	for _, c := range []struct {
		name         string
		step         workflow.Step
		prefix, want string
	}{
		{"no unit", workflow.Step{Sleep: "${{ inputs.n }}"}, "step a: sleep: ", `"5" is not a duration (write durations as 500ms, 90s, 10m or 1h30m)`},
		{"negative", workflow.Step{Sleep: "-${{ inputs.n }}s"}, "step a: sleep: ", "-5s is out of range: 0s to 8784h0m0s are allowed"},
		{"too long", workflow.Step{Sleep: "${{ inputs.n }}0000h"}, "step a: sleep: ", "50000h0m0s is out of range"},
		{"prompt", workflow.Step{Approval: &workflow.ApprovalStep{Prompt: "${{ fromJSON('1').x }}"}}, "step a: approval.prompt: ", "cannot fetch x"},
		{"null is not given", workflow.Step{Workflow: &workflow.ChildStep{Definition: child.Canonical()}, Inputs: map[string]any{"n": "${{ inputs.none }}"}},
			"step a: inputs: ", `input "n" is required: want an integer`},
		{"wrong type", workflow.Step{Workflow: &workflow.ChildStep{Definition: child.Canonical()}, Inputs: map[string]any{"n": "${{ 'x' }}"}},
			"step a: inputs: ", `input "n": want an integer, got string "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.step.ID = "a"
			d := build(t, workflow.File{Name: "w", Inputs: map[string]workflow.InputSchema{"n": {Type: workflow.TypeInteger}, "none": {}}, Steps: []workflow.Step{c.step}})
			_, err := d.EvalWait(1, &workflow.Scope{Inputs: json.RawMessage(`{"n":5}`)})
			checkFailure(t, err, c.prefix, c.want)
		})
	}
}

// TestHookScope: hooks see all steps, and how their job ends (T7).
func TestHookScope(t *testing.T) {
	t.Parallel()
	d := parse(t, `name: w
steps: [{id: a, command: [x]}, {id: b, command: [x]}]
hooks: {always: [{id: tell, if: job.status == 'FAILED', command: ["${{ job }}", "${{ job.error }}", "${{ steps.a.output }}", "${{ steps.b.status }}", "${{ job.status }}"]}]}
`)
	s := &workflow.Scope{
		Outputs: map[int]json.RawMessage{1: json.RawMessage(`"out"`)}, Statuses: map[int]machine.State{2: lifecycle.StepPermanentError},
		JobID: "j_1", Workflow: "w", JobStatus: lifecycle.JobFailed, JobError: "it broke",
	}
	w, err := d.Render(3, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`{"error":"it broke","id":"j_1","status":"FAILED","workflow":"w"}`, "it broke", "out", "permanent_error", "FAILED"}
	if diff := cmp.Diff(want, w.Argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ok, err := d.EvalIf(3, s); !ok || err != nil {
		t.Errorf("if: %v, %v", ok, err)
	}
	s.JobStatus, s.JobError = lifecycle.JobCompleted, ""
	if w, err = d.Render(3, s); err != nil || w.Argv[1] != "" || w.Argv[4] != "COMPLETED" {
		t.Errorf("%v, %v", w, err)
	}
	if got := fmt.Sprint(d.RenderNeeds(3)); got != "[1 2]" {
		t.Errorf("needs of the hook: %s", got)
	}
}

// TestEvalConcurrency: the key of a job, from its inputs (J7).
func TestEvalConcurrency(t *testing.T) {
	t.Parallel()
	s := &workflow.Scope{Inputs: json.RawMessage(`{"day":"monday","n":7}`), Workflow: "w"}
	for key, want := range map[string]string{
		"":                                    "",
		"one":                                 "one",
		"${{ inputs.day }}-${{ inputs.n }}":   "monday-7",
		"${{ job.workflow }}/${{ inputs.n }}": "w/7",
		"${{ inputs.n }}":                     "7",
	} {
		f := workflow.File{Name: "w", Inputs: map[string]workflow.InputSchema{"day": {}, "n": {Type: workflow.TypeInteger}}}
		f.Concurrency = workflow.Concurrency{Key: key, Limit: 2}
		if got, err := build(t, f).EvalConcurrency(s); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", key, got, err, want)
		}
	}
	long := build(t, workflow.File{Name: "w", Concurrency: workflow.Concurrency{Key: "${{ repeat('x', 2000) }}"}})
	_, err := long.EvalConcurrency(s)
	checkFailure(t, err, "concurrency.key: ", "the key is 2000 bytes long; at most 1024 are allowed")
}

// TestForm: what a person filled in is checked as inputs are.
func TestForm(t *testing.T) {
	t.Parallel()
	d := parse(t, `name: w
steps:
  - {id: a, approval: {prompt: ok?, form: {note: {}, size: {type: integer, default: 1}, sure: {type: boolean, required: true}}}}
  - {id: b, approval: {prompt: ok?}}
  - {id: c, command: [x]}
`)
	type m = map[string]any
	for _, c := range []struct {
		node        int
		given       m
		want, fails string
	}{
		{node: 1, given: m{"sure": true}, want: `{"size":1,"sure":true}`},
		{node: 1, given: m{"sure": false, "note": "x", "size": json.Number("3")}, want: `{"note":"x","size":3,"sure":false}`},
		{node: 1, given: m{}, fails: `field "sure" is required: want a boolean`},
		{node: 1, given: m{"sure": "yes", "nte": "x"}, fails: `there is no field "nte" (did you mean "note"?); field "sure": want a boolean, got string "yes"`},
		{node: 2, want: `{}`},
		{node: 2, given: m{"note": "x"}, fails: `there is no field "note" (the approval has no form)`},
		{node: 3, fails: `step c is not an approval`},
	} {
		got, err := d.BindForm(c.node, c.given)
		if c.fails != "" {
			checkFailure(t, err, "", c.fails)
		} else if string(got) != c.want || err != nil {
			t.Errorf("%v: %s, %v, want %s", c.given, got, err, c.want)
		}
	}
	if v, err := d.ParseForm(1, "size", "7"); v != 7 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	for key, want := range map[string]string{"size": `field "size": "x" is not an integer`, "siz": `there is no field "siz" (did you mean "size"?)`} {
		_, err := d.ParseForm(1, key, "x")
		checkFailure(t, err, "", want)
	}
	_, err := d.ParseForm(3, "size", "7")
	checkFailure(t, err, "", "step c is not an approval")
}

// TestTooManyNodes: hooks count as steps do.
func TestTooManyNodes(t *testing.T) {
	t.Parallel()
	f := workflow.File{Name: "w", Hooks: workflow.Hooks{Always: []workflow.Step{{ID: "last", Handler: "h"}}}}
	for i := range pawl.MaxNodes {
		f.Steps = append(f.Steps, workflow.Step{ID: fmt.Sprintf("s%d", i), Handler: "h"})
	}
	_, err := f.Build()
	checkFailure(t, err, "hooks: ", "the workflow has 1001 steps and hooks; at most 1000 are allowed")
	f.Steps = f.Steps[1:]
	if d := build(t, f); len(d.Nodes) != pawl.MaxNodes || d.Hooks[0] != pawl.MaxNodes {
		t.Errorf("%d nodes", len(d.Nodes))
	}
}

// files opens what a map holds, and notes what was opened.
type files struct {
	texts  map[string]string
	opened []string
}

func (f *files) open(from, path string) (string, []byte, error) {
	f.opened = append(f.opened, from+">"+path)
	text, ok := f.texts[path]
	if !ok {
		return "", nil, errors.New("cannot read " + path + ": it does not exist")
	}
	return path, []byte(text), nil
}

// TestChildren: the files of children become part of the definition, and of its
// hash (T12); each is read once.
func TestChildren(t *testing.T) {
	t.Parallel()
	const top = "name: top\nsteps:\n  - {id: a, workflow: one.yaml}\n  - {id: b, workflow: two.yaml}\n  - {id: c, workflow: registered}\n"
	f := &files{texts: map[string]string{
		"one.yaml": "name: one\nsteps: [{id: a, workflow: two.yaml}]\n",
		"two.yaml": "name: two\nsteps: [{id: a, command: [x]}]\n",
	}}
	d, err := workflow.ParseWith("top.yaml", []byte(top), f.open)
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, d)
	if diff := cmp.Diff([]string{"top.yaml>one.yaml", "one.yaml>two.yaml", "top.yaml>two.yaml"}, f.opened); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	one, two := d.Node(1).Child.Definition, d.Node(2).Child.Definition
	if one.Node(1).Child.Definition.Hash() != two.Hash() || !bytes.Contains(d.Canonical(), two.Canonical()) {
		t.Error("the child of the child is another")
	}
	f.texts["two.yaml"] = "name: two\nsteps: [{id: a, command: [y]}]\n"
	if other, err := workflow.ParseWith("top.yaml", []byte(top), f.open); err != nil || other.Hash() == d.Hash() {
		t.Errorf("the hash does not cover children: %v", err)
	}
	_, err = workflow.Parse("top.yaml", []byte(top))
	checkFailure(t, err, "", "top.yaml:3:23: steps[0].workflow: the file one.yaml of a child workflow cannot be opened here (register the workflow, and write its name)")
	delete(f.texts, "two.yaml")
	_, err = workflow.ParseWith("top.yaml", []byte(top), f.open)
	checkFailure(t, err, "", "one.yaml:2:27: steps[0].workflow: cannot read two.yaml: it does not exist")
}

// TestChildLevels: five levels of children are allowed, however they are given.
func TestChildLevels(t *testing.T) {
	t.Parallel()
	d := build(t, workflow.File{Name: "level0"})
	for level := 1; level <= workflow.MaxChildren+1; level++ {
		f := workflow.File{Name: fmt.Sprintf("level%d", level), Steps: []workflow.Step{{ID: "a", Workflow: &workflow.ChildStep{Definition: d.Canonical()}}}}
		next, err := f.Build()
		if level > workflow.MaxChildren {
			checkFailure(t, err, "", "child workflows are nested deeper than 5")
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkRoundTrip(t, next)
		d = next
	}
}

// TestChildProblems: a definition inside of another one is checked like any, and
// its problems say where it stands.
func TestChildProblems(t *testing.T) {
	t.Parallel()
	inner := `{"name":"inner","steps":[{"id":"x","workflow":{"definition":{"name":"innermost","steps":[{"id":"y"}]}}}]}`
	f := workflow.File{Name: "w", Steps: []workflow.Step{{ID: "a", Workflow: &workflow.ChildStep{Definition: json.RawMessage(inner)}}}}
	_, err := f.Build()
	checkFailure(t, err, "steps[0].workflow.definition.steps[0].workflow.definition.steps[0]: ", "the step does nothing")
	for definition, want := range map[string]string{`[]`: "steps[0].workflow.definition: want a mapping, got a list", `{"name":"x","steps":[],"order":["z"]}`: `steps[0].workflow.definition.order[0]: there is no step "z"`} {
		f.Steps[0].Workflow.Definition = json.RawMessage(definition)
		_, err := f.Build()
		checkFailure(t, err, "", want)
	}
	f.Steps[0].Workflow.Definition = json.RawMessage(`{`)
	if _, err := f.Build(); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("half a definition: %v", err)
	}
	f.Steps[0].Workflow = &workflow.ChildStep{File: "x.yaml"}
	_, err = f.Build()
	checkFailure(t, err, "steps[0].workflow: ", "cannot be opened here")
	f.Steps[0].Workflow = &workflow.ChildStep{Name: "x", Definition: build(t, workflow.File{Name: "y"}).Canonical()}
	_, err = f.Build()
	checkFailure(t, err, "steps[0].workflow: ", "a child workflow has a name or a file, and not both")
}

// TestChildExpressions: the number of expressions is bounded for a workflow and
// its children together, whether the children are files or stand inside.
func TestChildExpressions(t *testing.T) {
	t.Parallel()
	child := func(n int) string {
		var b strings.Builder
		b.WriteString("name: child\nsteps:\n")
		for i := 0; i < n; i += 100 {
			args := make([]string, 100)
			for j := range args {
				args[j] = fmt.Sprintf("'${{ %d }}'", i+j)
			}
			fmt.Fprintf(&b, "  - {id: s%d, command: [%s]}\n", i, strings.Join(args, ", "))
		}
		return b.String()
	}
	f := &files{texts: map[string]string{"child.yaml": child(2400)}}
	const top = "name: top\nsteps:\n  - {id: a, workflow: child.yaml}\n  - {id: b, workflow: child.yaml}\n"
	d, err := workflow.ParseWith("top.yaml", []byte(top), f.open)
	if err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, d)
	const want = "the workflow and its children have more than 5000 different expressions"
	_, err = workflow.ParseWith("top.yaml", []byte(top+"  - {id: c, workflow: child.yaml}\n"), f.open)
	checkFailure(t, err, "", "top.yaml:5:23: steps[2].workflow: "+want)
	var steps []workflow.Step
	for _, id := range []string{"a", "b", "c"} {
		steps = append(steps, workflow.Step{ID: id, Workflow: &workflow.ChildStep{Definition: d.Node(1).Child.Definition.Canonical()}})
	}
	_, err = workflow.File{Name: "top", Steps: steps}.Build()
	checkFailure(t, err, "", want)
}
