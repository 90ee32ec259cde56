package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// TestRender: every kind of step, written out (T12).
func TestRender(t *testing.T) {
	t.Parallel()
	d := parse(t, readGood(t, "everything.yaml"))
	inputs, err := d.BindInputs(map[string]any{"wanted": "w"})
	if err != nil {
		t.Fatal(err)
	}
	s := &workflow.Scope{
		Inputs: inputs, Item: json.RawMessage(`{"b":[1],"a":"x"}`), Index: 1, JobID: "j_1", Workflow: d.Name,
		Outputs: map[int]json.RawMessage{3: json.RawMessage(`["p","q"]`)},
	}
	env := map[string]string{"MODE": "0755", "VERSION": "1.10", "SWITCH": "on", "FLAG": "True", "DAY": "2024-01-02", "EMPTY": "", "JOB": "j_1"}
	want := []*workflow.Work{
		{Kind: "command", Argv: []string{"echo", "0755", "1.10", "on", "yes", "12:30", "${{ not an expression }}", "1.5"}, Env: env, Dir: "work/x"},
		{Kind: "run", Script: `echo "$SWITCH"`, Env: env},
		{Kind: "handler", Handler: "go.func-1", With: json.RawMessage(`{"a":"x","b":[1]}`), Env: env},
		{Kind: "http", Env: env, HTTP: &workflow.Request{
			Method: "PUT", URL: "https://example.org/x?q=1", Expect: []int{200, 204},
			Headers: map[string]string{"X-A": "1", "Authorization": "Bearer 0755", "Content-Type": "application/json"},
			Body:    `{"list":[["p","q"]],"n":1,"t":"x3"}`,
		}},
	}
	for n := 1; n <= len(want); n++ {
		got, err := d.Render(n, s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[n-1], got); diff != "" {
			t.Errorf("node %d (-want +got):\n%s", n, diff)
		}
	}
}

// TestRenderInstances: one scope serves all instances; env of the step refers
// to that of the workflow, and everything else to both.
func TestRenderInstances(t *testing.T) {
	t.Parallel()
	d := build(t, workflow.File{
		Name: "instances", Env: map[string]string{"A": "outer", "B": "b"},
		Steps: []workflow.Step{{
			ID: "a", Foreach: []any{1}, Command: []string{"x", "${{ item.v }}-${{ index }}", "${{ env.A }}"},
			Env: map[string]string{"A": "inner of ${{ env.A }}, ${{ item.v }}"},
		}},
	})
	s := &workflow.Scope{}
	for i := range 3 {
		s.Item, s.Index = json.RawMessage(fmt.Sprintf(`{"v":%d}`, 10*i)), i
		w, err := d.Render(1, s)
		if err != nil {
			t.Fatal(err)
		}
		want := &workflow.Work{
			Kind: "command", Argv: []string{"x", fmt.Sprintf("%d-%d", 10*i, i), fmt.Sprintf("inner of outer, %d", 10*i)},
			Env: map[string]string{"A": fmt.Sprintf("inner of outer, %d", 10*i), "B": "b"},
		}
		if diff := cmp.Diff(want, w); diff != "" {
			t.Errorf("instance %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestScopeFollowsOutputs: an output that is replaced is seen.
func TestScopeFollowsOutputs(t *testing.T) {
	t.Parallel()
	d := build(t, example(`${{ steps.extract.output }}`))
	s := exampleScope(`1`)
	for _, output := range []string{`1`, `2`, `"3"`} {
		s.Outputs[1] = json.RawMessage(output)
		if got, err := d.EvalOutput(s); err != nil || string(got) != output {
			t.Errorf("got %s, %v, want %s", got, err, output)
		}
	}
}

// TestRenderFailures: what cannot be run is refused, by step and key.
func TestRenderFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		step         workflow.Step
		prefix, want string
	}{
		{"no program", workflow.Step{Command: []string{"${{ inputs.none }}"}}, "step a: command[0]: ", "the program has no name"},
		{"address", workflow.Step{HTTP: &workflow.HTTP{URL: "${{ 'ftp://h' }}"}}, "step a: http.url: ", "is not an address"},
		{"space in the address", workflow.Step{HTTP: &workflow.HTTP{URL: "http://h/${{ 'a b' }}"}}, "step a: http.url: ", "holds a space"},
		{"header", workflow.Step{HTTP: &workflow.HTTP{URL: "http://h", Headers: map[string]string{"X-A": "${{ 'a\\r\\nX-B: c' }}"}}}, "step a: http.headers.X-A: ", "a header is one line"},
		{"env", workflow.Step{Run: "x", Env: map[string]string{"E": "${{ fromJSON('1').x }}"}}, "step a: env.E: ", "cannot fetch x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.step.ID = "a"
			d := build(t, workflow.File{Name: "w", Inputs: map[string]workflow.InputSchema{"none": {}}, Steps: []workflow.Step{c.step}})
			_, err := d.Render(1, &workflow.Scope{})
			checkFailure(t, err, c.prefix, c.want)
		})
	}
}

// TestBody: text is sent as it is, everything else as JSON.
func TestBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body          any
		want, content string
	}{
		{nil, "", ""},
		{"a ${{ 1 }}", "a 1", ""},
		{"${{ 'text' }}", "text", ""},
		{"${{ nil }}", "", ""},
		{"${{ {'b': 1, 'a': [2]} }}", `{"a":[2],"b":1}`, "application/json"},
		{map[string]any{"a": "${{ 1 + 1 }}"}, `{"a":2}`, "application/json"},
		{[]any{1, "x"}, `[1,"x"]`, "application/json"},
	} {
		d := build(t, workflow.File{Name: "w", Steps: []workflow.Step{{ID: "a", HTTP: &workflow.HTTP{URL: "http://h", Body: c.body}}}})
		w, err := d.Render(1, &workflow.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if w.HTTP.Body != c.want || w.HTTP.Headers["Content-Type"] != c.content || w.HTTP.Method != "GET" || len(w.HTTP.Expect) != 0 {
			t.Errorf("%v: %+v", c.body, w.HTTP)
		}
	}
	d := build(t, workflow.File{Name: "w", Steps: []workflow.Step{{ID: "a", HTTP: &workflow.HTTP{
		URL: "http://h", Headers: map[string]string{"content-type": "application/x"}, Body: []any{1},
	}}}})
	if w, err := d.Render(1, &workflow.Scope{}); err != nil || len(w.HTTP.Headers) != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestConcurrentUse: one definition, many at once (run under the race detector).
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	d := build(t, example(`${{ map(steps.extract.output.files, .path) }}`))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := d.EvalOutput(exampleScope(exampleOutput)); err != nil || string(got) != `["a","b"]` {
					t.Errorf("got %s, %v", got, err)
				}
				if _, err := d.Render(1, exampleScope(exampleOutput)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestBindInputs: types, defaults, patterns, enums and unknown names.
func TestBindInputs(t *testing.T) {
	t.Parallel()
	d := parse(t, `name: w
inputs:
  day: {required: true, pattern: '^\d+$'}
  mode: {enum: [fast, slow], default: fast}
  n: {type: integer, default: 3}
  f: {type: number}
  yes: {type: boolean}
  o: {type: object, default: {b: 1, a: 2}}
  l: {type: array}
steps: []
`)
	type m = map[string]any
	for _, c := range []struct {
		name, want, fails string
		given             m
	}{
		{name: "defaults", given: m{"day": "1"}, want: `{"day":"1","mode":"fast","n":3,"o":{"a":2,"b":1}}`},
		{name: "all", given: m{"day": "1", "mode": "slow", "n": 4.0, "f": json.Number("1.50"), "yes": true, "o": m{}, "l": []string{"x"}},
			want: `{"day":"1","f":1.5,"l":["x"],"mode":"slow","n":4,"o":{},"yes":true}`},
		{name: "large integer", given: m{"day": "1", "n": int64(9223372036854775807)}, want: `{"day":"1","mode":"fast","n":9223372036854775807,"o":{"a":2,"b":1}}`},
		{name: "missing", given: nil, fails: `input "day" is required: want a string`},
		{name: "unknown", given: m{"day": "1", "mdoe": "fast"}, fails: `there is no input "mdoe" (did you mean "mode"?)`},
		{name: "unknown, nothing near", given: m{"day": "1", "zzzzzz": 1}, fails: `there is no input "zzzzzz" (known: day, f, l, mode, n, o, yes)`},
		{name: "type", given: m{"day": 1}, fails: `input "day": want a string, got integer 1`},
		{name: "pattern", given: m{"day": "x"}, fails: `input "day": "x" does not match the pattern ^\d+$`},
		{name: "enum", given: m{"day": "1", "mode": "quick"}, fails: `input "mode": "quick" is not one of "fast", "slow"`},
		{name: "fraction", given: m{"day": "1", "n": 1.5}, fails: `input "n": want an integer, got number 1.5`},
		{name: "null", given: m{"day": nil}, fails: `input "day": want a string, got null`},
		{name: "two faults", given: m{"n": "x"}, fails: `input "n": want an integer, got string "x"; input "day" is required`},
		{name: "not JSON", given: m{"day": make(chan int)}, fails: `input "day": not a JSON value`},
		{name: "too large", given: m{"day": "1", "l": []string{strings.Repeat("x", 2<<20)}}, fails: "larger than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := d.BindInputs(c.given)
			if c.fails != "" {
				checkFailure(t, err, "", c.fails)
				return
			}
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

// TestParseInput: texts of a command line, by type.
func TestParseInput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ         workflow.InputType
		text, fails string
		want        any
	}{
		{typ: "string", text: "007", want: "007"},
		{typ: "string", text: "", want: ""},
		{typ: "integer", text: "7", want: 7},
		{typ: "integer", text: "1.5", fails: `"1.5" is not an integer`},
		{typ: "integer", text: "x", fails: `"x" is not an integer`},
		{typ: "number", text: "1e3", want: 1000.0},
		{typ: "boolean", text: "true", want: true},
		{typ: "boolean", text: "yes", fails: `"yes" is not a boolean: want true or false`},
		{typ: "object", text: `{"a": 1}`, want: map[string]any{"a": 1}},
		{typ: "object", text: `[1]`, fails: `is not an object: want JSON such as {"key": "value"}`},
		{typ: "array", text: `[1, "x"]`, want: []any{1, "x"}},
		{typ: "array", text: `a,b`, fails: `is not an array: want JSON such as ["a", "b"]`},
		{typ: "array", text: ``, fails: `is not an array`},
	} {
		got, err := workflow.ParseInput(c.typ, c.text)
		if c.fails != "" {
			checkFailure(t, err, "", c.fails)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s %q: %v (-want +got):\n%s", c.typ, c.text, err, diff)
		}
	}
	d := build(t, example(nil))
	if v, err := d.ParseInput("count", "5"); v != 5 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	_, err := d.ParseInput("cuont", "5")
	checkFailure(t, err, "", `there is no input "cuont" (did you mean "count"?)`)
	_, err = d.ParseInput("count", "many")
	checkFailure(t, err, "", `input "count": "many" is not an integer`)
	if pawl.KindOf(err) != pawl.Invalid {
		t.Error(err)
	}
}

// TestFixedWork: what no expression changes is rendered once, and is what rendering
// it each time would be; one expression, in the workflow's env too, and it is not.
func TestFixedWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, src string
		fixed     bool
	}{
		{"without expressions", "name: x\nenv: {A: '1'}\nsteps: [{id: a, command: [x, y], env: {B: '2'}}]\n", true},
		{"with one", "name: x\nsteps: [{id: a, handler: h, with: '${{ job.id }}'}]\n", false},
		{"with one in the workflow's env", "name: x\nenv: {A: '${{ job.id }}'}\nsteps: [{id: a, handler: h}]\n", false},
	} {
		d := parse(t, tt.src)
		one, err := d.Render(1, &workflow.Scope{JobID: "j_1"})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		two, err := d.Render(1, &workflow.Scope{JobID: "j_2"})
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if same := cmp.Equal(one, two); same != tt.fixed || (one == two) != tt.fixed {
			t.Errorf("%s: rendered to %v and %v; the same: %v, want %v", tt.name, one, two, same, tt.fixed)
		}
	}
	d := parse(t, "name: x\nenv: {A: '1'}\nsteps: [{id: a, command: [x, y], env: {B: '2'}}]\n")
	want := &workflow.Work{Kind: "command", Argv: []string{"x", "y"}, Env: map[string]string{"A": "1", "B": "2"}}
	got, err := d.Render(1, &workflow.Scope{})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
