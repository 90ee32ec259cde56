package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

const diffLong = `Compare two jobs, of one workflow as a rule: their definitions, inputs, outputs and
how long they took, and of every step its state, attempts, time, output and error.
A line of the first job begins with -, one of the second with +; a step is told of if
its state, attempts, output or error differ, and --all tells of every one. Long
values are cut. A fan-out is compared as a whole, with its instances counted.`

func newJobDiff(a *app) *cobra.Command {
	form, all := formText, false
	c := &cobra.Command{
		Use: "diff JOB JOB", Short: "Compare two jobs", Long: diffLong,
		Example: "  pawl job diff a1b2c3 last\n  pawl job diff a1b2c3 last -o json",
		Args:    want(2, 2, "two JOBs"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			return a.with(c.Context(), func(cl *client.Client) error {
				var jobs [2]pawl.ID
				for i, text := range args {
					var err error
					if jobs[i], err = a.jobOf(c.Context(), cl, text); err != nil {
						return err
					}
				}
				d, err := compareJobs(c.Context(), cl, jobs[0], jobs[1])
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, d)
				}
				return showJobDiff(a.stdout, d, all)
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: everything that is compared")
	c.Flags().BoolVar(&all, "all", false, "tell of steps that are alike, too")
	return c
}

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

// A jobDiff is two jobs side by side: the first and the second of each pair.
type jobDiff struct {
	Jobs       [2]runSide     `json:"jobs"`
	Definition *workflow.Diff `json:"definition"` // null if it is the same
	Inputs     []inputDiff    `json:"inputs"`     // those that differ, by name
	Steps      []stepDiff     `json:"steps"`      // all, in the order of the second job
	Output     *valueDiff     `json:"output"`     // null if it is the same
}

// A runSide is one job in total.
type runSide struct {
	ID         string         `json:"id"`
	Workflow   string         `json:"workflow"`
	Definition string         `json:"definition_hash"`
	Status     machine.State  `json:"status"`
	Took       *pawl.Duration `json:"took"` // null if it has not ended
	Steps      int            `json:"steps"`
	Attempts   int            `json:"attempts"`
	Error      *pawl.Failure  `json:"error"`
}

// A valueDiff is a value of the two jobs; null where there is none.
type valueDiff struct {
	Was json.RawMessage `json:"was"`
	Is  json.RawMessage `json:"is"`
}

// An inputDiff is an input of the two jobs.
type inputDiff struct {
	Name string `json:"name"`
	valueDiff
}

// A stepDiff is a step of the two jobs; null where one of them does not have it.
type stepDiff struct {
	Step      string    `json:"step"`
	Was       *stepSide `json:"was"`
	Is        *stepSide `json:"is"`
	Differing []string  `json:"differing"` // status, attempts, instances, output, error; not the time
}

// A stepSide is a step of one job. Outputs longer than a few words are cut.
type stepSide struct {
	Status   machine.State   `json:"status"`
	Attempts int             `json:"attempts"`
	Took     *pawl.Duration  `json:"took"`
	Made     *pawl.Instances `json:"instances,omitempty"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`

	whole json.RawMessage
}

// compareJobs compares two jobs.
func compareJobs(ctx context.Context, cl *client.Client, was, is pawl.ID) (*jobDiff, error) {
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

func diffOf(was, is *ran) *jobDiff {
	d := &jobDiff{Jobs: [2]runSide{total(was.view), total(is.view)}, Inputs: compareInputs(was.view.Inputs, is.view.Inputs)}
	if was.def.Hash() != is.def.Hash() {
		diff := was.def.DiffTo(is.def)
		d.Definition = &diff
	}
	if !sameValue(was.view.Output, is.view.Output) {
		d.Output = &valueDiff{was.view.Output, is.view.Output}
	}
	d.Steps = compareSteps(nodesOf(was.view), nodesOf(is.view))
	return d
}

func total(v *pawl.JobView) runSide {
	r := runSide{ID: v.ID, Workflow: v.Workflow, Definition: v.DefinitionHash, Status: v.Status, Error: v.Error, Took: lasted(v.StartedAt, v.CompletedAt), Steps: len(v.Steps)}
	for i := range v.Steps {
		r.Attempts += v.Steps[i].Attempts
	}
	return r
}

// lasted returns how long something took, or nil if it has not begun or ended.
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
			diffs = append(diffs, inputDiff{name, valueDiff{b, a}})
		}
	}
	return diffs
}

// byName returns the inputs of a job, which are an object.
func byName(raw json.RawMessage) map[string]json.RawMessage {
	var inputs map[string]json.RawMessage
	if json.Unmarshal(raw, &inputs) != nil {
		return nil
	}
	return inputs
}

// sameValue reports whether two pieces of JSON mean the same; nothing is null.
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

func compareSteps(was, is []pawl.StepView) []stepDiff {
	diffs := []stepDiff{}
	before := make(map[string]*stepSide)
	for i := range was {
		before[was[i].Key] = sideOf(&was[i])
	}
	for i := range is {
		diffs = append(diffs, stepDiff{Step: is[i].Key, Was: before[is[i].Key], Is: sideOf(&is[i])})
		delete(before, is[i].Key)
	}
	for i := range was {
		if side := before[was[i].Key]; side != nil {
			diffs = append(diffs, stepDiff{Step: was[i].Key, Was: side})
		}
	}
	for i := range diffs {
		diffs[i].Differing = diffs[i].differing()
	}
	return diffs
}

func sideOf(s *pawl.StepView) *stepSide {
	side := &stepSide{Status: s.Status, Attempts: s.Attempts, Took: lasted(s.StartedAt, s.CompletedAt), Made: s.Instances,
		Output: shortened(s.Output), whole: s.Output}
	if s.Error != nil {
		side.Error = s.Error.Text()
	}
	return side
}

func (d *stepDiff) differing() []string {
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

func instancesOf(s *stepSide) int {
	if s.Made == nil {
		return 0
	}
	return s.Made.Total
}
