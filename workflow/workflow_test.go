package workflow_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

func parse(t *testing.T, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse("w.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readGood(t *testing.T, name string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata/good", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// TestGoodFiles: what is accepted is canonical, and loads to the same thing
// (T12: the definition is pinned by its hash).
func TestGoodFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(paths) < 7 {
		t.Fatalf("found %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			d, err := parseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			checkRoundTrip(t, d)
			if again, err := parseFile(path); err != nil || again.Hash() != d.Hash() {
				t.Errorf("read again it is another: %v", err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".json", string(d.Canonical())+"\n")
		})
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkRoundTrip(t fataler, d *workflow.Definition) {
	t.Helper()
	again, err := workflow.Load(d.Canonical())
	if err != nil {
		t.Fatalf("load: %v\n%s", err, d.Canonical())
	}
	if !bytes.Equal(again.Canonical(), d.Canonical()) || again.Hash() != d.Hash() {
		t.Fatalf("it does not come back:\n%s\n%s", d.Canonical(), again.Canonical())
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Canonical()); err != nil || !bytes.Equal(compact.Bytes(), d.Canonical()) {
		t.Fatalf("not compact JSON: %v\n%s", err, d.Canonical())
	}
}

// TestHash: layout, comments, order of keys and written defaults do not count;
// meaning does.
func TestHash(t *testing.T) {
	t.Parallel()
	base := "name: h\nsteps:\n  - id: a\n    command: [x]\n"
	want := parse(t, base).HashString()
	for _, same := range []string{
		"# a comment\nsteps: [{command: [\"x\"], id: 'a'}]\nname: h # there\n",
		"name: h\non_error: halt\nhooks: {always: []}\nsteps:\n  - id: a\n    command: [x]\n    queue: default\n    priority: 0\n    retry: {max_attempts: 3, base: 1000ms, cap: 60s}\n",
		strings.ReplaceAll(base, "\n", "\r\n"),
		"\ufeff" + base,
	} {
		if got := parse(t, same).HashString(); got != want {
			t.Errorf("%s hashes to %s, want %s", same, got, want)
		}
	}
	for _, other := range []string{
		"name: i\nsteps:\n  - id: a\n    command: [x]\n",
		"name: h\nsteps:\n  - id: a\n    command: [x, y]\n",
		"name: h\nsteps:\n  - id: a\n    command: [x]\n    timeout: 24h\n",
		"name: h\nsteps:\n  - id: a\n    run: x\n",
		"name: h\nsteps: []\nhooks: {always: [{id: a, command: [x]}]}\n",
		"name: h\nworkers: 10\nsteps:\n  - id: a\n    command: [x]\n", // a ceiling may be lower one day, or higher
		"name: h\nsteps:\n  - id: a\n    command: [x]\n    queue: q\n",
		"name: h\nsteps:\n  - id: a\n    command: [x]\n    output: text\n", // kept though nothing uses it
		"name: h\nconcurrency: {}\nsteps:\n  - id: a\n    command: [x]\n",
	} {
		if got := parse(t, other).HashString(); got == want {
			t.Errorf("%s hashes to the same", other)
		}
	}
	if !strings.HasPrefix(want, "sha256:") || len(want) != 7+64 {
		t.Errorf("hash is %q", want)
	}
}

// TestGoAndYAML: the same workflow, written in Go and in YAML, has one hash, and
// one set of errors.
func TestGoAndYAML(t *testing.T) {
	t.Parallel()
	inGo := build(t, workflow.File{
		Name:        "nightly-report",
		Description: "what it is for",
		Inputs: map[string]workflow.InputSchema{
			"day":     {Type: workflow.TypeString, Required: true, Pattern: `^\d{4}-\d{2}-\d{2}$`},
			"dry_run": {Type: workflow.TypeBoolean, Default: false},
		},
		Workers: 4,
		Timeout: time.Hour,
		Env:     map[string]string{"LANG": "C"},
		Steps: []workflow.Step{
			{
				ID: "extract", Command: []string{"./extract", "--day", "${{ inputs.day }}"},
				Output: workflow.OutputJSON, Timeout: 10 * time.Minute,
				Retry: workflow.Retry{MaxAttempts: 5, Cap: time.Minute, PermanentExitCodes: []int{2}},
			},
			{
				ID: "load", Needs: []string{"extract"}, Foreach: "${{ steps.extract.output.files }}", Parallel: 8,
				Env: map[string]string{"FILE": "${{ item.path }}", "N": "${{ index }}"},
				Run: "./load.sh \"$FILE\"\n",
			},
			{
				ID: "publish", Needs: []string{"load"}, If: "${{ !inputs.dry_run && len(steps.load.output) > 0 }}",
				HTTP: &workflow.HTTP{
					Method: "POST", URL: "https://example.org/publish", Headers: map[string]string{"X-Day": "${{ inputs.day }}"},
					Body: "${{ steps.extract.output.note }}", Expect: []int{200, 201},
				},
			},
			{ID: "charge", Needs: []string{"publish"}, Handler: "billing.charge", With: map[string]any{"day": "${{ inputs.day }}"}},
		},
		Output: "${{ steps.load.output }}",
	})
	inYAML := parse(t, readGood(t, "nightly-report.yaml"))
	if diff := cmp.Diff(string(inYAML.Canonical()), string(inGo.Canonical())); diff != "" {
		t.Errorf("canonical (-yaml +go):\n%s", diff)
	}
	if inGo.Hash() != inYAML.Hash() {
		t.Error("the hashes differ")
	}

	_, err := workflow.File{Name: "bad", Workers: 99, Steps: []workflow.Step{{ID: "a-b", Needs: []string{"a"}, Timeout: -1}}}.Build()
	want := `workers: 99 is out of range: 1 to 10 are allowed`
	var problems workflow.Problems
	if !errors.As(err, &problems) || len(problems) != 5 || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if _, err := (workflow.File{Name: "bad", Output: make(chan int)}).Build(); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("a channel: %v", err)
	}
}

// TestLimits: sizes that are refused rather than worked on.
func TestLimits(t *testing.T) {
	t.Parallel()
	steps := func(n int) string {
		var b strings.Builder
		b.WriteString("name: many\nsteps:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {id: s%d, command: [x]}\n", i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, src, want string }{
		{"file", "name: " + strings.Repeat("x", workflow.MaxSource), "the file has more than 1048576 bytes"},
		{"steps", steps(pawl.MaxNodes + 1), "the list has 1001 elements; at most 1000 are allowed"},
		{"brackets", "name: x\nsteps: " + strings.Repeat("[", 500_000), "nested deeper than 100"},
		{"braces", "name: x\nsteps: " + strings.Repeat("{a: ", 200_000), "nested deeper than 100"},
		{"dashes", "name: x\nsteps:\n" + strings.Repeat("- ", 500_000), "nested deeper than 100"},
		{"question marks", strings.Repeat("? ", 500_000), "nested deeper than 100"},
		{"tags", "name: " + strings.Repeat("!a ", 300_000), ""},
		{"anchors", "name: " + strings.Repeat("&a ", 300_000), ""},
		{"mapping", "name: x\nenv:\n" + strings.Repeat("  A: b\n", 11_000), "w.yaml:10003:4: the mapping has more than 10000 entries"},
		{"flow mapping", "name: x\nenv: {" + strings.Repeat("A: b, ", 11_000) + "}\n", "the mapping has more than 10000 entries"},
		{"script", "name: x\nsteps:\n  - {id: a, run: '" + strings.Repeat("x", 70_000) + "'}\n", "the text is 70000 bytes long; at most 65536 are allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := workflow.Parse("w.yaml", []byte(c.src))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.300v", err)
			}
			if err != nil {
				checkProblems(t, err)
			}
		})
	}
	many := make([]string, 20_000)
	for i := range many {
		many[i] = fmt.Sprintf("  - {a: %d, b: {c: d}}\n  - a: %d\n    b: c\n", i, i)
	}
	parse(t, "name: x\nsteps: []\noutput:\n"+strings.Join(many, "")) // many mappings are no long mapping
	if d := parse(t, steps(pawl.MaxNodes)); len(d.Nodes) != pawl.MaxNodes {
		t.Errorf("%d nodes", len(d.Nodes))
	}
}

// TestManyProblems: all are kept, the text is bounded.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&b, "key_%d: 1\n", i)
	}
	_, err := workflow.Parse("w.yaml", []byte(b.String()))
	var problems workflow.Problems
	if !errors.As(err, &problems) || len(problems) != 4002 {
		t.Fatalf("%d problems", len(problems))
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 101 || lines[100] != "and 3902 more" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

// TestNodes: numbers, dependents, defaults and routes of steps.
func TestNodes(t *testing.T) {
	t.Parallel()
	d := parse(t, readGood(t, "everything.yaml"))
	if diff := cmp.Diff([]string{"[2 3]", "[4]", "[4]", "[]"}, dependents(d)); diff != "" {
		t.Errorf("dependents (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(d.Roots(), d.Descendants(1), d.Descendants(2, 3), d.Descendants(4), d.Ancestors(4), d.NodeByID("c"), d.NodeByID("z")); got != "[1] [2 3 4] [4] [] [1 2 3] 3 0" {
		t.Error(got)
	}
	want := workflow.Retry{MaxAttempts: 1, Backoff: workflow.Linear, Base: 500 * time.Millisecond, Cap: 2 * time.Second, Jitter: workflow.NoJitter, PermanentExitCodes: []int{1, 3}}
	if diff := cmp.Diff(want, d.Node(2).Retry); diff != "" {
		t.Errorf("retry (-want +got):\n%s", diff)
	}
	defaults := workflow.Retry{MaxAttempts: 3, Backoff: workflow.Exponential, Base: time.Second, Cap: time.Minute, Jitter: workflow.FullJitter, PermanentExitCodes: []int{}}
	if diff := cmp.Diff(defaults, d.Node(1).Retry); diff != "" {
		t.Errorf("default retry (-want +got):\n%s", diff)
	}
	c := d.Node(3)
	if c.Handler != "go.func-1" || c.Kind != workflow.KindHandler || c.Output != workflow.OutputJSON || !c.HasForeach || c.HasIf || c.Parallel != 2 || c.Queue != "default" || c.Timeout != 0 {
		t.Errorf("%+v", c)
	}
	if b := d.Node(2); b.Handler != "run" || !b.HasIf || b.Output != workflow.OutputLines {
		t.Errorf("%+v", b)
	}
	if d.OnError != workflow.Drain || d.Workers != 10 || d.Timeout != 90*time.Minute || d.Name != "everything.1" || !d.HasOutput() {
		t.Errorf("%+v", d)
	}
}

func dependents(d *workflow.Definition) []string {
	out := make([]string, len(d.Nodes))
	for i := range d.Nodes {
		out[i] = fmt.Sprint(d.Nodes[i].Dependents)
	}
	return out
}

// TestPlan draws the steps.
func TestPlan(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, name := range []string{"example", "kinds", "hooks"} {
		d, err := parseFile("testdata/good/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(d.Tree() + "\n" + d.Mermaid() + "\n")
	}
	golden(t, "testdata/plan.txt", strings.TrimSuffix(text.String(), "\n"))
	if got := fmt.Sprint(parse(t, readGood(t, "everything.yaml")).Levels()); got != "[[1] [2 3] [4]]" {
		t.Error(got)
	}
}

// TestDelay: the delays of each backoff, and their bounds for any attempt (T6).
func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backoff workflow.Backoff
		want    []time.Duration
	}{
		{workflow.Exponential, []time.Duration{1, 2, 4, 8, 10, 10}},
		{workflow.Linear, []time.Duration{1, 2, 3, 4, 5, 6}},
		{workflow.Constant, []time.Duration{1, 1, 1, 1, 1, 1}},
	} {
		r := workflow.Retry{Backoff: c.backoff, Base: time.Second, Cap: 10 * time.Second, Jitter: workflow.NoJitter}
		for i, want := range c.want {
			if got := r.Delay(i+1, 0.5); got != want*time.Second {
				t.Errorf("%s, attempt %d: %s, want %ds", c.backoff, i+1, got, want)
			}
		}
		r.Jitter = workflow.FullJitter
		if got := r.Delay(1, 0.5); got != time.Second/2 {
			t.Errorf("%s with half the jitter: %s", c.backoff, got)
		}
	}
}

func TestDelayProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := workflow.Retry{
			Backoff: rapid.SampledFrom([]workflow.Backoff{workflow.Exponential, workflow.Linear, workflow.Constant}).Draw(t, "backoff"),
			Base:    time.Duration(rapid.Int64Min(0).Draw(t, "base")),
			Cap:     time.Duration(rapid.Int64Min(0).Draw(t, "cap")),
			Jitter:  rapid.SampledFrom([]workflow.Jitter{workflow.FullJitter, workflow.NoJitter}).Draw(t, "jitter"),
		}
		attempt := rapid.OneOf(rapid.IntRange(-1, 100), rapid.Just(1<<40), rapid.Just(1<<62)).Draw(t, "attempt")
		u := rapid.Float64Range(0, 0.9999999).Draw(t, "u")
		d := r.Delay(attempt, u)
		if d < 0 || d > r.Cap {
			t.Fatalf("delay %d is outside of 0 to %d", d, r.Cap)
		}
		if r.Jitter == workflow.NoJitter && r.Delay(attempt+1, u) < d {
			t.Fatalf("the delay shrinks")
		}
	})
}

// TestCanonicalProperty: any workflow that is accepted comes back from its
// canonical form.
func TestCanonicalProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, err := randomFile(t).Build()
		if err != nil {
			t.Fatalf("%v", err)
		}
		checkRoundTrip(t, d)
	})
}

func randomFile(t *rapid.T) workflow.File {
	text := rapid.StringMatching(`[ -~é\n\t"\\<>&]{0,20}`).Filter(func(s string) bool { return !strings.Contains(s, "${{") })
	value := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }), rapid.Map(rapid.Int(), func(i int) any { return i }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SliceOfN(text, 0, 3), func(l []string) any { return map[string]any{"list": l, "text": "${{ inputs.a }}"} }),
	)
	f := workflow.File{
		Name:        rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,10}`).Draw(t, "name"),
		Description: text.Draw(t, "description"),
		Inputs:      map[string]workflow.InputSchema{"a": {Default: text.Draw(t, "default")}},
		Workers:     rapid.IntRange(0, 10).Draw(t, "workers"),
		Timeout:     time.Duration(rapid.Int64Range(1e6, 1e15).Draw(t, "timeout")),
		Env:         map[string]string{"E": text.Draw(t, "env")},
		Output:      value.Draw(t, "output"),
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "steps") {
		s := workflow.Step{ID: fmt.Sprintf("s%d", i), Handler: "h", With: value.Draw(t, "with")}
		if i > 0 && rapid.Bool().Draw(t, "needs") {
			s.Needs = []string{fmt.Sprintf("s%d", rapid.IntRange(0, i-1).Draw(t, "need"))}
		}
		switch rapid.IntRange(0, 2).Draw(t, "fan") {
		case 1:
			s.Foreach, s.Parallel = []any{value.Draw(t, "item")}, rapid.IntRange(0, 9).Draw(t, "parallel")
		case 2:
			s.Matrix = []workflow.Axis{{Name: "m", Values: []any{rapid.Float64().Draw(t, "m")}}, {Name: "o", Values: []any{text.Draw(t, "o")}}}
		}
		s.Retry.Base = time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "base"))
		s.Queue, s.Priority = rapid.SampledFrom([]string{"", "default", "q"}).Draw(t, "queue"), rapid.IntRange(-1000, 1000).Draw(t, "priority")
		s.QueueTimeout = time.Duration(rapid.SampledFrom([]int64{0, 1e6, 3e12}).Draw(t, "queue_timeout"))
		f.Steps = append(f.Steps, waiting(t, s, text, value))
	}
	if rapid.Bool().Draw(t, "hooks") {
		f.Hooks.Failure = []workflow.Step{{ID: "h0", Handler: "h", With: value.Draw(t, "with")}}
		f.Hooks.Always = []workflow.Step{{ID: "h1", Handler: "h", If: "job.error == nil"}}
	}
	if rapid.Bool().Draw(t, "concurrency") {
		f.Concurrency = workflow.Concurrency{Key: "k" + text.Draw(t, "key"), Limit: rapid.IntRange(0, 5).Draw(t, "limit")}
	}
	return f
}

// waiting makes a step wait for something, or leaves it as it is.
func waiting(t *rapid.T, s workflow.Step, text *rapid.Generator[string], value *rapid.Generator[any]) workflow.Step {
	w := workflow.Step{ID: s.ID, Needs: s.Needs, Foreach: s.Foreach, Matrix: s.Matrix, Parallel: s.Parallel}
	limit := time.Duration(rapid.SampledFrom([]int64{0, 1e6, 3e12}).Draw(t, "limit"))
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		w.Approval = &workflow.ApprovalStep{Prompt: "?" + text.Draw(t, "prompt"), Expires: limit}
		if rapid.Bool().Draw(t, "form") {
			w.Approval.Form = map[string]workflow.InputSchema{"a": {Default: text.Draw(t, "default")}}
		}
	case 1:
		w.Sleep = rapid.SampledFrom([]string{"0s", "90m", "${{ inputs.a }}"}).Draw(t, "sleep")
	case 2:
		w.Event = &workflow.EventStep{Name: "e", Timeout: limit}
	case 3:
		w.Workflow = &workflow.ChildStep{Name: "other", Version: rapid.IntRange(0, 3).Draw(t, "version")}
		w.Inputs = map[string]any{"a": value.Draw(t, "input")}
	case 4:
		child, err := workflow.File{Name: "child", Description: text.Draw(t, "description")}.Build()
		if err != nil {
			t.Fatal(err)
		}
		w.Workflow = &workflow.ChildStep{Definition: child.Canonical(), File: rapid.SampledFrom([]string{"", "child.yaml"}).Draw(t, "file")}
	default:
		return s
	}
	return w
}

// FuzzParse: no panic; an error has a place and a kind; what is accepted comes
// back.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"good", "bad"} {
		paths, _ := filepath.Glob("testdata/" + dir + "/*.yaml")
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	for _, s := range []string{
		"? a\n: b", "- - - -", "a: !!binary x", "&a *a", "{", "]", "a: |9\n x", "%TAG ! x\n---\na: 1", "'", "\"\\u", "a:\n\tb", "? {a: b}\n: c",
		"<<: *a", "a: >\n\n\n b\n  c", "---\n---\n", "...", "!", "|", "name: &", "steps: [*]", "name: \"\\ud800\"", "- ? a", "{a, b: c}", "[a: b]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		beside := files{texts: map[string]string{
			"fuzz.yaml": string(src), "cleanup.yaml": "name: cleanup\ninputs: {day: {}}\nsteps: [{id: a, workflow: inner.yml}]\n", "inner.yml": "name: inner\nsteps: []\n",
		}}
		d, err := workflow.ParseWith("fuzz.yaml", src, beside.open)
		if err != nil {
			checkProblems(t, err)
			return
		}
		checkRoundTrip(t, d)
		_ = d.Tree() + d.Mermaid()
	})
}

// FuzzLoad: no panic; what is accepted comes back.
func FuzzLoad(f *testing.F) {
	paths, _ := filepath.Glob("testdata/good/*.json")
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(`{"name":"a","steps":[{"id":"b","matrix":[{"name":"c","values":[1,"x"]}],"command":["${{ matrix.c }}"]},{"id":"d","sleep":"1s"}],"order":["d","b"]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := workflow.Load(src)
		if err != nil {
			if pawl.KindOf(err) != pawl.Invalid {
				t.Errorf("kind of %v", err)
			}
			return
		}
		checkRoundTrip(t, d)
		_ = d.Tree() + d.Mermaid()
	})
}
