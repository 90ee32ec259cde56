package workflow_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// flow returns a workflow of steps, each its id and what it needs: "a; b a".
func flow(t testing.TB, steps string) *workflow.Definition {
	t.Helper()
	f := workflow.File{Name: "flow"}
	for step := range strings.SplitSeq(steps, ";") {
		words := strings.Fields(step)
		f.Steps = append(f.Steps, workflow.Step{ID: words[0], Needs: words[1:], Handler: "h"})
	}
	d, err := f.Build()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func passage(t testing.TB, from, to *workflow.Definition) *workflow.Passage {
	t.Helper()
	p, err := from.Passage(to)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func idsOf(d *workflow.Definition) string {
	var ids []string
	for i := range d.Nodes {
		ids = append(ids, d.Nodes[i].ID)
	}
	return strings.Join(ids, " ")
}

// T12: the numbers of nodes are keys of what is stored: whatever version a job
// moves to, and however often, its steps keep theirs.
func TestPassageKeepsNumbers(t *testing.T) {
	t.Parallel()
	d := flow(t, "a; b a; c b")
	for _, move := range []struct{ to, ids, diff string }{
		{"x; a; b a; c b", "a b c x", "+ step x"},
		{"c; a; x", "a b c x", "~ step c: needs - step b"},
		{"y x; x; a", "a b c x y", "+ step y - step c"},
		{"a; z; y; x", "a b c x y z", "+ step z ~ step y: needs"},
	} {
		p := passage(t, d, flow(t, move.to))
		if got := strings.Join(p.Diff.Lines(), " "); got != move.diff {
			t.Errorf("to %q: the diff is %q, want %q", move.to, got, move.diff)
		}
		if got := idsOf(p.To); got != move.ids {
			t.Errorf("to %q: the nodes are %q, want %q", move.to, got, move.ids)
		}
		again, err := workflow.Load(p.To.Canonical())
		if err != nil || again.Hash() != p.To.Hash() {
			t.Errorf("to %q: what a job is pinned to does not load as it is: %v", move.to, err)
		}
		d = p.To
	}
}

// T12: where nothing is left behind and the numbers are its own, a job is pinned
// to the new version itself.
func TestPassageToTheVersionItself(t *testing.T) {
	t.Parallel()
	old := flow(t, "a; b a")
	for _, to := range []string{"a; b a", "a; b", "a; b a; c b"} {
		next := flow(t, to)
		if p := passage(t, old, next); p.To.Hash() != next.Hash() {
			t.Errorf("to %q: the hash is %s, want that of the version, %s", to, p.To.HashString(), next.HashString())
		}
	}
	if next := flow(t, "b; a b"); passage(t, old, next).To.Hash() == next.Hash() {
		t.Error("the steps of the job have other numbers than those of the version")
	}
}

// A step that was left behind holds its number only: it is no difference to a
// version that does not have it, and needs nothing that the version may lack.
func TestPassageLeavesVacancies(t *testing.T) {
	t.Parallel()
	old := parsed(t, `
name: flow
inputs: {day: {default: today}}
steps:
  - {id: a, handler: h}
  - {id: b, needs: [a], foreach: "${{ steps.a.output }}", handler: h, with: "${{ inputs.day }}"}
hooks:
  always: [{id: bye, handler: h}]
`)
	next := flow(t, "c")
	p := passage(t, old, next)
	if diff := cmp.Diff([]string{"~ inputs", "+ step c", "- step a", "- step b", "- hook bye"}, p.Diff.Lines()); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	for n, id := range []string{"a", "b", "bye"} {
		node := p.To.Node(n + 1)
		if node.ID != id || len(node.Needs) > 0 || node.Fans() || node.Hook != workflow.NoHook || !node.Kind.Waits() {
			t.Errorf("%+v holds the number %d of %s", node, n+1, id)
		}
	}
	if diff := p.To.DiffTo(next); !diff.Empty() {
		t.Errorf("what the job has differs from its version: %v", diff.Lines())
	}
	if diff := p.To.DiffTo(flow(t, "c; a")); cmp.Diff([]string{"+ step a"}, diff.Lines()) != "" {
		t.Errorf("a step that comes again: %v, want it added", diff.Lines())
	}
}

// A version that leaves no room for the steps left behind is refused.
func TestPassageTooLarge(t *testing.T) {
	t.Parallel()
	many := func(prefix string) *workflow.Definition {
		var b strings.Builder
		for n := range pawl.MaxNodes {
			if n > 0 {
				b.WriteString("; ")
			}
			b.WriteString(prefix + strconv.Itoa(n))
		}
		return flow(t, b.String())
	}
	if _, err := many("a").Passage(many("b")); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("error %v, want a conflict", err)
	}
}

// T12: the names of registered workflows on command lines.
func TestParseReference(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		name    string
		version int
		ok      bool
	}{
		"nightly":      {"nightly", 0, true},
		"nightly@3":    {"nightly", 3, true},
		"nightly@0":    {},
		"nightly@03":   {},
		"nightly@":     {},
		"@3":           {},
		"nightly.yaml": {},
		"a b":          {},
		"":             {},
	} {
		name, version, err := workflow.ParseReference(text)
		if name != want.name || version != want.version || (err == nil) != want.ok || err != nil && pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%q: %q, %d, %v; want %+v", text, name, version, err, want)
		}
	}
}
