package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A ran is a job with its definition.
type ran struct {
	view *pawl.JobView
	def  *workflow.Definition
}

func ranOf(ctx context.Context, cl *client.Client, id pawl.ID) (*ran, error) {
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	def, err := cl.Inspect.Definition(ctx, id)
	return &ran{v, def}, err
}

// A Diff is a comparison of two jobs. Each pair holds the first job's value, then the
// second's.
type Diff struct {
	Jobs       [2]RunSide     `json:"jobs"`
	Definition *workflow.Diff `json:"definition"` // null if it is the same
	Inputs     []inputDiff    `json:"inputs"`     // those that differ, by name
	Steps      []StepDiff     `json:"steps"`      // all, in the order of the second job
	Output     *ValueDiff     `json:"output"`     // null if it is the same
}

// A RunSide is one job as a whole.
type RunSide struct {
	ID         string         `json:"id"`
	Workflow   string         `json:"workflow"`
	Definition string         `json:"definition_hash"`
	Status     machine.State  `json:"status"`
	Took       *pawl.Duration `json:"took"` // null if it has not ended
	Steps      int            `json:"steps"`
	Attempts   int            `json:"attempts"`
	Error      *pawl.Failure  `json:"error"`
}

// A ValueDiff is a value in each of the two jobs; null if there is none.
type ValueDiff struct {
	Was json.RawMessage `json:"was"`
	Is  json.RawMessage `json:"is"`
}

// An inputDiff is an input in each of the two jobs.
type inputDiff struct {
	Name string `json:"name"`
	ValueDiff
}

// A StepDiff is a step in each of the two jobs; null if a job does not have it.
type StepDiff struct {
	Step      string    `json:"step"`
	Was       *StepSide `json:"was"`
	Is        *StepSide `json:"is"`
	Differing []string  `json:"differing"` // status, attempts, instances, output, error; times are ignored
}

// A StepSide is a step of one job. Longer outputs are cut.
type StepSide struct {
	Status   machine.State   `json:"status"`
	Attempts int             `json:"attempts"`
	Took     *pawl.Duration  `json:"took"`
	Made     *pawl.Instances `json:"instances,omitempty"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`

	whole json.RawMessage
}

// Compare compares two jobs.
func Compare(ctx context.Context, cl *client.Client, was, is pawl.ID) (*Diff, error) {
	first, err := ranOf(ctx, cl, was)
	if err != nil {
		return nil, err
	}
	second, err := ranOf(ctx, cl, is)
	if err != nil {
		return nil, err
	}
	return diffOf(first, second), nil
}

func diffOf(was, is *ran) *Diff {
	d := &Diff{Jobs: [2]RunSide{total(was.view), total(is.view)}, Inputs: compareInputs(was.view.Inputs, is.view.Inputs)}
	if was.def.Hash() != is.def.Hash() {
		diff := was.def.DiffTo(is.def)
		d.Definition = &diff
	}
	if !sameValue(was.view.Output, is.view.Output) {
		d.Output = &ValueDiff{was.view.Output, is.view.Output}
	}
	d.Steps = compareSteps(nodesOf(was.view), nodesOf(is.view))
	return d
}

func total(v *pawl.JobView) RunSide {
	r := RunSide{ID: v.ID, Workflow: v.Workflow, Definition: v.DefinitionHash, Status: v.Status, Error: v.Error, Took: lasted(v.StartedAt, v.CompletedAt), Steps: len(v.Steps)}
	for i := range v.Steps {
		r.Attempts += v.Steps[i].Attempts
	}
	return r
}

// lasted returns how long something took, or nil if it has not begun or not ended.
func lasted(from, to pawl.Timestamp) *pawl.Duration {
	if from == 0 || to == 0 {
		return nil
	}
	d := pawl.Duration(to.Time().Sub(from.Time()))
	return &d
}

func compareInputs(was, is json.RawMessage) []inputDiff {
	before, after := byName(was), byName(is)
	names := slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	slices.Sort(names)
	diffs := []inputDiff{}
	for _, name := range slices.Compact(names) {
		if b, a := before[name], after[name]; !sameValue(b, a) {
			diffs = append(diffs, inputDiff{name, ValueDiff{b, a}})
		}
	}
	return diffs
}

// byName returns the inputs of a job, a JSON object, by name.
func byName(raw json.RawMessage) map[string]json.RawMessage {
	var inputs map[string]json.RawMessage
	if json.Unmarshal(raw, &inputs) != nil {
		return nil
	}
	return inputs
}

// sameValue reports whether two JSON values are equal; an empty value is null.
func sameValue(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || reflect.DeepEqual(valueOf(a), valueOf(b))
}

func valueOf(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// nodesOf returns the steps of a job without the instances of fan-outs.
func nodesOf(v *pawl.JobView) []pawl.StepView {
	return slices.DeleteFunc(slices.Clone(v.Steps), func(s pawl.StepView) bool { return strings.Contains(s.Key, "[") })
}

func compareSteps(was, is []pawl.StepView) []StepDiff {
	diffs := []StepDiff{}
	before := make(map[string]*StepSide)
	for i := range was {
		before[was[i].Key] = sideOf(&was[i])
	}
	for i := range is {
		diffs = append(diffs, StepDiff{Step: is[i].Key, Was: before[is[i].Key], Is: sideOf(&is[i])})
		delete(before, is[i].Key)
	}
	for i := range was {
		if side := before[was[i].Key]; side != nil {
			diffs = append(diffs, StepDiff{Step: was[i].Key, Was: side})
		}
	}
	for i := range diffs {
		diffs[i].Differing = diffs[i].differing()
	}
	return diffs
}

func sideOf(s *pawl.StepView) *StepSide {
	side := &StepSide{Status: s.Status, Attempts: s.Attempts, Took: lasted(s.StartedAt, s.CompletedAt), Made: s.Instances,
		Output: Shortened(s.Output), whole: s.Output}
	if s.Error != nil {
		side.Error = s.Error.Text()
	}
	return side
}

func (d *StepDiff) differing() []string {
	names := []string{}
	if d.Was == nil || d.Is == nil {
		return append(names, "status")
	}
	add := func(name string, differs bool) {
		if differs {
			names = append(names, name)
		}
	}
	add("status", d.Was.Status != d.Is.Status)
	add("attempts", d.Was.Attempts != d.Is.Attempts)
	add("instances", instancesOf(d.Was) != instancesOf(d.Is))
	add("output", !sameValue(d.Was.whole, d.Is.whole))
	add("error", d.Was.Error != d.Is.Error)
	return names
}

func instancesOf(s *StepSide) int {
	if s.Made == nil {
		return 0
	}
	return s.Made.Total
}

// maxShown is how many characters of a value a comparison shows.
const maxShown = 60

// Shortened returns a value on one line, truncated if it is long; "" for null.
func Shortened(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return ""
	}
	text := b.String()
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown-1]) + "…"
}
