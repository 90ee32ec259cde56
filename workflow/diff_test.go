package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/workflow"
)

// T12: a diff names what is added, removed and changed, and what of it.
func TestDiff(t *testing.T) {
	t.Parallel()
	const old = `
name: flow
workers: 3
env: {A: one}
inputs: {day: {default: today}}
steps:
  - {id: a, command: [echo, a]}
  - {id: b, needs: [a], run: echo b}
  - {id: c, needs: [a, b], handler: h, with: {x: 1}}
hooks:
  failure: [{id: tell, command: [echo, tell]}, {id: page, command: [echo, page]}]
output: ${{ steps.a.output }}
`
	for name, c := range map[string]struct {
		edit string // old -> new, separated by =>
		want string
	}{
		"nothing":                {"", ""},
		"layout and comments":    {"workers: 3 => workers:   3 # all", ""},
		"a default written out":  {"workers: 3 => workers: 3\non_error: halt", ""},
		"the order of needs":     {"needs: [a, b] => needs: [b, a]", ""},
		"the order of steps":     {"  - {id: a, command: [echo, a]}\n  - {id: b, needs: [a], run: echo b}\n => \n  - {id: b, needs: [a], run: echo b}\n  - {id: a, command: [echo, a]}\n", ""},
		"a command":              {"[echo, a]} => [echo, x]}", "~ step a: command"},
		"several keys":           {"needs: [a], run: echo b => run: echo x, timeout: 5s", "~ step b: needs, run, timeout"},
		"another kind":           {"run: echo b => command: [echo, b]", "~ step b: command, run"},
		"deep inside":            {"{x: 1} => {x: 2}", "~ step c: with"},
		"an added step":          {"hooks: => " + "  - {id: d, run: echo d}\nhooks:", "+ step d"},
		"a removed step":         {", b], handler => ], handler", "~ step c: needs"},
		"a hook":                 {"[echo, tell] => [echo, all]", "~ hook tell: command"},
		"an added hook":          {"hooks: => hooks:\n  always: [{id: bye, run: echo bye}]", "+ hook bye"},
		"a removed hook":         {", {id: page, command: [echo, page]} => ", "- hook page"},
		"the order of hooks":     {"{id: tell, command: [echo, tell]}, {id: page, command: [echo, page]} => {id: page, command: [echo, page]}, {id: tell, command: [echo, tell]}", "~ hooks"},
		"when a hook runs":       {"failure: => always:", "~ hook tell: hooks\n~ hook page: hooks"},
		"limits":                 {"workers: 3 => workers: 4\ntimeout: 1h\non_error: drain\nconcurrency: {limit: 1}", "~ concurrency\n~ on_error\n~ timeout\n~ workers"},
		"the output":             {"${{ steps.a.output }} => ${{ inputs.day }}", "~ output"},
		"an input":               {"default: today => default: now", "~ inputs"},
		"the workflow's own env": {"{A: one} => {A: two}", "~ env"},
		"a step that is a hook":  {"  - {id: c, needs: [a, b], handler: h, with: {x: 1}}\nhooks:\n => hooks:\n  always: [{id: c, handler: h, with: {x: 1}}]\n", "~ hook c: hooks, needs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to, _ := strings.Cut(c.edit, " => ")
			if c.edit != "" && !strings.Contains(old, from) {
				t.Fatalf("%q is not in the workflow", from)
			}
			newer := strings.Replace(old, from, to, 1)
			diff := parsed(t, old).DiffTo(parsed(t, newer))
			got := strings.Join(diff.Lines(), "\n")
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if diff.Empty() != (c.want == "") {
				t.Errorf("Empty() is %v", diff.Empty())
			}
		})
	}
}

func parsed(t testing.TB, src string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return d
}
