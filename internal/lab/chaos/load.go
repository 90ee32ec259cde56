package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A shape is a kind of job, and how it ends without intervention.
type shape struct {
	name   string
	ends   machine.State
	output string // JSON; empty: not checked
	file   string // the file after the head
}

// head begins every workflow. A script that runs LINE writes a line outside the system with
// the job, the step, and the claim, which is the fence.
const head = `name: NAME
workers: 3
inputs: {effects: {type: string, required: true}, n: {type: integer, required: true}}
env: {EFFECTS: "${{ inputs.effects }}"}
`

const line = `echo "$PAWL_JOB_ID $PAWL_STEP_ID $PAWL_CLAIM" >> "$EFFECTS"`

// narrow is a queue with a quota, and keys is how many concurrency keys there are.
const (
	narrow      = "narrow"
	narrowSlots = 2
	depthSlots  = 40
	keys        = 3
)

// shapes are the kinds of jobs of the load.
var shapes = []shape{
	{"noop", lifecycle.JobCompleted, `"done"`, `
steps: [{id: one, run: 'LINE; echo done'}]
output: ${{ steps.one.output }}
`},
	{"slow", lifecycle.JobCompleted, ``, `
steps: [{id: one, run: 'LINE; sleep 1.2'}, {id: two, needs: [one], run: 'LINE; sleep 0.2'}]
`},
	{"chain", lifecycle.JobCompleted, `"3"`, `
steps:
  - {id: a, run: 'LINE; sleep 0.1; echo 1'}
  - {id: b, needs: [a], env: {X: "${{ steps.a.output }}"}, run: 'LINE; sleep 0.1; echo $((X+1))'}
  - {id: c, needs: [b], env: {X: "${{ steps.b.output }}"}, run: 'LINE; sleep 0.1; echo $((X+1))'}
output: ${{ steps.c.output }}
`},
	{"diamond", lifecycle.JobCompleted, `"lr"`, `
steps:
  - {id: top, run: 'LINE; sleep 0.1'}
  - {id: left, needs: [top], run: 'LINE; sleep 0.3; echo l'}
  - {id: right, needs: [top], run: 'LINE; sleep 0.2; echo r'}
  - {id: end, needs: [left, right], env: {L: "${{ steps.left.output }}", R: "${{ steps.right.output }}"}, run: 'LINE; echo "$L$R"'}
output: ${{ steps.end.output }}
`},
	{"fan", lifecycle.JobCompleted, `["0","1","2","3","4","5"]`, `
steps:
  - {id: fan, foreach: "${{ [0, 1, 2, 3, 4, 5] }}", parallel: 3, env: {N: "${{ item }}"}, run: 'LINE; sleep 0.15; echo "$N"'}
  - {id: last, needs: [fan], run: 'LINE'}
output: ${{ steps.fan.output }}
`},
	{"flaky", lifecycle.JobCompleted, `"2"`, `
steps:
  - {id: one, retry: {max_attempts: 3, base: 30ms, jitter: none}, run: 'LINE; sleep 0.05; test "$PAWL_ATTEMPT" -ge 2; echo "$PAWL_ATTEMPT"'}
output: ${{ steps.one.output }}
`},
	{"broken", lifecycle.JobFailed, ``, `
steps:
  - {id: one, retry: {permanent_exit_codes: [7]}, run: 'LINE; exit 7'}
  - {id: two, needs: [one], run: 'LINE'}
hooks: {failure: [{id: tell, run: 'LINE'}], always: [{id: tidy, run: 'LINE'}]}
`},
	{"drain", lifecycle.JobFailed, ``, `
on_error: drain
steps:
  - {id: bad, retry: {max_attempts: 1}, run: 'LINE; exit 1'}
  - {id: good, run: 'LINE; sleep 0.3'}
  - {id: better, needs: [good], run: 'LINE'}
  - {id: never, needs: [bad], run: 'LINE'}
`},
	{"hooked", lifecycle.JobCompleted, ``, `
steps: [{id: one, run: 'LINE; sleep 0.1'}]
hooks: {always: [{id: tidy, run: 'LINE; sleep 0.2'}, {id: more, run: 'LINE'}]}
`},
	{"sleeper", lifecycle.JobCompleted, ``, `
steps: [{id: nap, sleep: 700ms}, {id: one, needs: [nap], run: 'LINE'}]
`},
	{"approved", lifecycle.JobCompleted, `"yes"`, `
steps:
  - {id: before, run: 'LINE'}
  - {id: gate, needs: [before], approval: {prompt: "Go on?", form: {note: {type: string, required: true}}}}
  - {id: after, needs: [gate], env: {NOTE: "${{ steps.gate.output.note }}"}, run: 'LINE; echo "$NOTE"'}
output: ${{ steps.after.output }}
`},
	{"signalled", lifecycle.JobCompleted, `"news"`, `
steps: [{id: hear, event: {name: news}}, {id: one, needs: [hear], run: 'LINE'}]
output: ${{ steps.hear.output }}
`},
	{"parent", lifecycle.JobCompleted, `"3"`, `
steps:
  - {id: child, workflow: chain.yaml, inputs: {effects: "${{ inputs.effects }}", n: "${{ inputs.n }}"}}
  - {id: one, needs: [child], run: 'LINE'}
output: ${{ steps.child.output }}
`},
	{"keyed", lifecycle.JobCompleted, ``, `
concurrency: {key: "k${{ inputs.n }}", limit: 1}
steps: [{id: one, run: 'LINE; sleep 0.1'}, {id: two, needs: [one], run: 'LINE; sleep 0.1'}]
`},
	{"narrow", lifecycle.JobCompleted, ``, `
steps:
  - {id: one, queue: narrow, run: 'LINE; sleep 0.2'}
  - {id: two, queue: narrow, run: 'LINE; sleep 0.2'}
`},
	{"timed", lifecycle.JobFailed, ``, `
steps: [{id: one, timeout: 400ms, retry: {max_attempts: 2, base: 20ms, jitter: none}, run: 'LINE; sleep 60'}]
`},
	{"overdue", lifecycle.JobCanceled, ``, `
timeout: 1500ms
steps: [{id: one, run: 'LINE'}, {id: hear, needs: [one], event: {name: never}}]
`},
	{"unheard", lifecycle.JobFailed, ``, `
steps: [{id: hear, event: {name: never, timeout: 700ms}}]
hooks: {failure: [{id: tell, run: 'LINE'}]}
`},
}

func shapeOf(name string) shape {
	for _, s := range append(shapes, lasting) {
		if s.name == name {
			return s
		}
	}
	return shape{}
}

// source is the whole file of a shape.
func (s shape) source() []byte {
	text := strings.Replace(head, "NAME", s.name, 1) + s.file
	return []byte(strings.ReplaceAll(text, "LINE", line))
}

// definition compiles a shape.
func (s shape) definition() (*workflow.Definition, error) {
	return workflow.ParseWith(s.name+".yaml", s.source(), func(_, path string) (string, []byte, error) {
		return path, shapeOf(strings.TrimSuffix(path, ".yaml")).source(), nil
	})
}

// A job is one that was submitted, or that continues a submitted one.
type job struct {
	shape    shape
	key      int // of a keyed one
	id       pawl.ID
	at       time.Time // when it was requested
	canceled bool      // an operator may have ended it
	retried  bool      // it continues another
	answered bool      // it got what it waits for from outside
	asked    int       // how often the answer was given
}

// drawJobs draws n shapes, equally many of each if there are enough.
func drawJobs(r *rand.Rand, n int) []string {
	var names []string
	for len(names) < n {
		for _, i := range r.Perm(len(shapes)) {
			names = append(names, shapes[i].name)
		}
	}
	return names[:n]
}

// submission asks for a job of the shape.
func (s shape) submission(dir, request string, n int) (pawl.Submission, error) {
	def, err := s.definition()
	if err != nil {
		return pawl.Submission{}, fmt.Errorf("shape %s: %w", s.name, err)
	}
	inputs, err := def.BindInputs(map[string]any{"effects": filepath.Join(dir, "effects"), "n": json.Number(fmt.Sprint(n % keys))})
	return pawl.Submission{Definition: def.Canonical(), Inputs: inputs, Dir: dir, Actor: actor, RequestID: request, Description: s.name}, err
}

// actor is the harness's name in the trail.
const actor = "chaos"
