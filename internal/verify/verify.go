package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Err  Severity = "error"   // it goes wrong, or waits for ever
	Warn Severity = "warning" // it is probably a mistake
)

// A Finding is one fault of a valid definition.
type Finding struct {
	Severity Severity           `json:"severity"`
	Rule     string             `json:"rule"`           // its name: missing-output
	File     string             `json:"file,omitempty"` // of a child workflow: as its parent names it
	Line     int                `json:"line,omitempty"` // from 1; see Locate
	Column   int                `json:"column,omitempty"`
	Key      string             `json:"key,omitempty"`  // where in the file: steps[2].if
	Step     string             `json:"step,omitempty"` // its id
	Message  string             `json:"message"`
	Why      string             `json:"why"`             // it matters
	Hint     string             `json:"hint,omitempty"`  // what to do about it
	Trace    rehearsal.Timeline `json:"trace,omitempty"` // the shortest path to it that was found
}

// A Report is what Verify found and proved.
type Report struct {
	Workflow string                `json:"workflow"`
	Findings []Finding             `json:"findings"`
	States   int                   `json:"states"`   // different ones
	Outcomes int                   `json:"outcomes"` // of steps that were gone through
	All      bool                  `json:"all"`      // nothing is left out
	Ends     bool                  `json:"ends"`     // every path that was tried ends
	Endings  map[machine.State]int `json:"endings"`  // how many paths end how
}

// Count returns how many findings are of a severity.
func (r *Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Summary returns a line that says how much was tried.
func (r *Report) Summary() string {
	how := "all of them"
	if !r.All {
		how = "as many as the limits allow, then some at random"
	}
	waits := func(f Finding) bool { return f.Rule == ruleEndless }
	ends := "every path ends"
	switch {
	case !r.Ends:
		ends = "not every path ends"
	case slices.ContainsFunc(r.Findings, waits):
		ends = "every path ends once a person or a signal has ended the endless waits"
	}
	return fmt.Sprintf("%s: %s explored (%s), %s", ends, count(r.Outcomes, "outcome"), how, count(r.States, "state"))
}

// A verification verifies one definition.
type verification struct {
	*expressions.Reading
	file     string
	explorer *explorer
	findings map[string]*Finding
	order    []string
	above    []*workflow.Definition // the definitions whose child this is
	fixed    bool                   // inputs were given; what never happens with them may happen with others
}

// Verify finds faults of a definition, including its child workflows from files. The
// given inputs are fixed; the others vary. The report depends only on the definition
// and the inputs. The error is of kind Invalid if an input that is required cannot be
// made up, and that of ctx as soon as ctx ends.
func Verify(ctx context.Context, def *workflow.Definition, given map[string]any) (*Report, error) {
	report := &Report{Workflow: def.Name, All: true, Ends: true, Endings: map[machine.State]int{}, Findings: []Finding{}}
	if err := verify(ctx, def, "", nil, given, report, map[*workflow.Definition]bool{}); err != nil {
		return nil, err
	}
	return report, nil
}

func verify(ctx context.Context, def *workflow.Definition, file string, above []*workflow.Definition, given map[string]any, report *Report, done map[*workflow.Definition]bool) error {
	if done[def] {
		return nil
	}
	done[def] = true
	r, err := expressions.Read(def)
	if err != nil {
		return err
	}
	v := &verification{Reading: r, file: file, findings: map[string]*Finding{}, above: above, fixed: len(given) > 0}
	sets, err := r.Inputs(given, expressions.InputSets)
	if err != nil && file == "" {
		return err
	}
	report.All = report.All && err == nil // the parent gives the inputs of a child
	if err := v.explore(ctx, sets, report); err != nil {
		return err
	}
	v.check()
	for _, key := range v.order {
		report.Findings = append(report.Findings, *v.findings[key])
	}
	for i := range def.Nodes {
		if c := def.Nodes[i].Child; c != nil && c.Definition != nil {
			if err := verify(ctx, c.Definition, c.File, append(slices.Clone(above), def), nil, report, done); err != nil {
				return fmt.Errorf("%s: %w", c.File, err)
			}
		}
	}
	return nil
}

func (v *verification) explore(ctx context.Context, sets []json.RawMessage, report *Report) error {
	x := newExplorer(v.Reading)
	x.stop = ctx.Done()
	x.report = func(f Finding, w *rehearsal.World) {
		if f.Rule == "broken" {
			report.Ends = false
		}
		f.Trace = w.Timeline().Brief()
		v.add(f)
	}
	v.explorer = x
	x.run(sets)
	if err := ctx.Err(); err != nil {
		return err
	}
	report.States += x.states
	report.Outcomes += x.outcomes
	report.All = report.All && !x.cut
	for state, n := range x.endings {
		report.Endings[state] += n
	}
	if !x.cut && x.fault == nil && !v.fixed && len(sets) > 0 {
		v.unreached()
	}
	return nil
}

// add keeps a finding: of equal ones the worst, else the first.
func (v *verification) add(f Finding) {
	f.File = v.file
	key := f.Rule + " " + f.Key + " " + f.Message
	if f.Rule == ruleMissing {
		key = f.Rule + " " + f.Key
	}
	old := v.findings[key]
	if old == nil {
		v.order = append(v.order, key)
	}
	if old == nil || old.Severity == Warn && f.Severity == Err {
		v.findings[key] = &f
	}
}

// on returns a finding about a step, at a key of it ("" is all of it).
func (v *verification) on(n int, severity Severity, rule, key string) Finding {
	path := v.Paths[n]
	if key != "" {
		path += "." + key
	}
	return Finding{Severity: severity, Rule: rule, Key: path, Step: v.Definition.Node(n).ID}
}

// unreached reports steps that no path runs, and conditions that are always true.
func (v *verification) unreached() {
	x := v.explorer
	for n := 1; n <= len(v.Definition.Nodes); n++ {
		node, seen := v.Definition.Node(n), x.truths[n]
		needed := !slices.ContainsFunc(node.Needs, func(need int) bool { return !x.began[need] })
		switch {
		case node.HasIf && seen[0] && !seen[1]:
			f := v.on(n, Err, "never-runs", "if")
			f.Message = fmt.Sprintf("step %s can never run: its condition is false on every path", node.ID)
			f.Why = "what needs it is skipped as well, unless that has an `if` of its own"
			f.Hint = "correct the condition, or leave the step out"
			v.add(f)
		case !x.began[n] && !node.HasIf && needed && len(node.Needs) > 0:
			f := v.on(n, Err, "never-runs", "needs")
			f.Message = fmt.Sprintf("step %s can never run: on every path a step that it needs is skipped", node.ID)
			f.Why = "a step with a skipped need is skipped, unless it has an `if` that is true"
			f.Hint = "give it an `if`, or need only what runs"
			v.add(f)
		case node.HasIf && seen[1] && !seen[0]:
			v.alwaysTrue(n)
		}
	}
}

func (v *verification) alwaysTrue(n int) {
	e := v.At(expressions.UseIf, n)[0]
	if len(e.Statuses) > 0 || len(e.Outputs) > 0 || e.Text == "true" && len(v.Definition.Node(n).Needs) > 0 {
		return // it may be there to run the step after skipped ones
	}
	for name := range e.Names {
		if strings.HasPrefix(name, "job") || strings.HasPrefix(name, "env") {
			return
		}
	}
	f := v.on(n, Warn, "always-true", "if")
	f.Message = fmt.Sprintf("the condition of step %s is always true", v.Definition.Node(n).ID)
	f.Why = "readers expect that the step runs only sometimes"
	f.Hint = "leave the `if` out, or correct it"
	v.add(f)
}

// sort sorts the findings by file, and by line where it is known.
func (r *Report) sort() {
	files := map[string]int{}
	for _, f := range r.Findings {
		if _, ok := files[f.File]; !ok {
			files[f.File] = len(files)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		if c := files[a.File] - files[b.File]; c != 0 {
			return c
		}
		if c := a.Line - b.Line; c != 0 {
			return c
		}
		return a.Column - b.Column
	})
}
