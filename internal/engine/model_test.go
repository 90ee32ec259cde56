package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// A random job is a workflow whose handlers decide by a hash of their names, so that a
// model that evaluates the whole graph, node after node, knows how it has to end.
type random struct {
	name    string
	source  string
	def     *workflow.Definition
	nodes   []randomNode
	drain   bool
	hook    bool // there is one for always
	trouble int  // percentage of attempts that do not succeed
}

// hookID is the id of the hook of random jobs.
const hookID = "hook"

type randomNode struct {
	id       string
	needs    []int // indexes
	check    check
	items    int // -1: not fanned out
	attempts int
	timeout  bool
	matrix   bool // fanned out over a matrix, and not a foreach
	sleeps   bool // runs on no worker
}

// A check is the `if` of a node.
type check int

const (
	always check = iota
	whenFlag
	whenNotFlag
	whenSkipped // its first need was skipped
	whenAny     // regardless of the results of its needs
)

var conditions = map[check]string{
	whenFlag:    "inputs.flag",
	whenNotFlag: "!inputs.flag",
	whenSkipped: "steps.%s.status == 'skipped'",
	whenAny:     "true",
}

// invent returns a random job.
func invent(t testing.TB, r *rand.Rand, name string) *random {
	j := &random{name: name, drain: r.IntN(2) == 0, hook: r.IntN(3) == 0, trouble: []int{0, 0, 5, 20}[r.IntN(4)]}
	for i := range r.IntN(13) {
		n := randomNode{id: fmt.Sprintf("n%d", i), items: -1, attempts: 1 + r.IntN(3), timeout: r.IntN(4) == 0}
		for k := range i {
			if r.IntN(i) < 2 {
				n.needs = append(n.needs, k)
			}
		}
		n.check = []check{always, always, always, whenFlag, whenNotFlag, whenAny, whenSkipped}[r.IntN(7)]
		if n.check == whenSkipped && len(n.needs) == 0 {
			n.check = always
		}
		if r.IntN(4) == 0 {
			n.items = r.IntN(7)
			n.matrix = n.items > 0 && r.IntN(3) == 0
		}
		n.sleeps = r.IntN(6) == 0
		j.nodes = append(j.nodes, n)
	}
	j.source = j.yaml(r)
	j.def = define(t, j.source)
	return j
}

func (j *random) yaml(r *rand.Rand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\ninputs: {flag: {type: boolean, default: true}}\nworkers: %d\n", j.name, 1+r.IntN(10))
	if j.drain {
		b.WriteString("on_error: drain\n")
	}
	b.WriteString("steps:\n")
	for _, n := range j.nodes {
		if n.sleeps {
			fmt.Fprintf(&b, "  - {id: %s, sleep: %dms", n.id, r.IntN(4))
		} else {
			fmt.Fprintf(&b, "  - {id: %s, handler: h%d, priority: %d, retry: {max_attempts: %d, base: %dms, jitter: none}", n.id, r.IntN(2), r.IntN(3)-1, n.attempts, r.IntN(2))
		}
		if needs := j.ids(n.needs); len(needs) > 0 {
			fmt.Fprintf(&b, ", needs: [%s]", strings.Join(needs, ", "))
		}
		if text := conditions[n.check]; text != "" {
			if n.check == whenSkipped {
				text = fmt.Sprintf(text, j.nodes[n.needs[0]].id)
			}
			fmt.Fprintf(&b, `, if: "${{ %s }}"`, text)
		}
		if n.items >= 0 {
			list := strings.Join(strings.Fields(fmt.Sprint(upTo(n.items))), ", ")
			if n.matrix {
				fmt.Fprintf(&b, ", matrix: {x: %s}", list)
			} else {
				fmt.Fprintf(&b, `, foreach: "${{ %s }}"`, list)
			}
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, ", parallel: %d", 1+r.IntN(4))
			}
		}
		if n.timeout && !n.sleeps {
			b.WriteString(", timeout: 200ms")
		}
		b.WriteString("}\n")
	}
	if len(j.nodes) == 0 {
		b.WriteString("  []\n")
	} else if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "output: \"${{ steps.%s.output }}\"\n", j.nodes[len(j.nodes)-1].id)
	}
	if j.hook {
		fmt.Fprintf(&b, "hooks: {always: [{id: %s, handler: h%d, retry: {max_attempts: 1}}]}\n", hookID, r.IntN(2))
	}
	return b.String()
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func (j *random) ids(nodes []int) []string {
	var ids []string
	for _, n := range nodes {
		ids = append(ids, j.nodes[n].id)
	}
	return ids
}

// A fate is the result of an attempt.
type fate int

const (
	succeeds fate = iota
	failsOnce
	failsForGood
	panics
	hangs // until its timeout, where it has one
)

// fateOf decides by a hash. Every job has its own trouble.
func fateOf(job, key string, attempt, trouble int) fate {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", job, key, attempt)
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	if r.IntN(100) >= trouble {
		return succeeds
	}
	return []fate{failsOnce, failsOnce, failsForGood, panics, hangs}[r.IntN(5)]
}

// handler runs the steps of random jobs.
func (j *random) run(ctx context.Context, t *worker.Task) worker.Result {
	id, _, _ := strings.Cut(t.Key, "[")
	if id == hookID {
		return j.runHook(t)
	}
	n := j.nodes[slices.IndexFunc(j.nodes, func(n randomNode) bool { return n.id == id })]
	switch f := fateOf(j.name, t.Key, t.Attempt, j.trouble); {
	case f == failsForGood:
		return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "for good", Permanent: true}}
	case f == panics:
		panic("on purpose")
	case f == hangs && n.timeout:
		<-ctx.Done()
		return worker.Result{Failure: &pawl.Failure{Class: "timeout", Message: context.Cause(ctx).Error()}}
	case f != succeeds:
		return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "this time"}}
	}
	var in struct {
		Needs  map[string]json.RawMessage
		Item   *int
		Matrix struct{ X *int }
	}
	if err := json.Unmarshal(t.Input(), &in); err != nil {
		return worker.Result{Failure: &pawl.Failure{Class: "test", Message: err.Error(), Permanent: true}}
	}
	if in.Item == nil {
		in.Item = in.Matrix.X
	}
	return worker.Result{Output: effect(t.Key, t.Attempt, in.Needs, in.Item)}
}

func (j *random) runHook(t *worker.Task) worker.Result {
	if fateOf(j.name, hookID, t.Attempt, j.trouble) != succeeds {
		return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "the hook"}}
	}
	return worker.Result{Output: json.RawMessage("1")}
}

// effect returns the output of a successful attempt: a digest of everything it saw.
func effect(key string, attempt int, needs map[string]json.RawMessage, item *int) json.RawMessage {
	h := fnv.New32a()
	doc, _ := json.Marshal(needs)
	fmt.Fprintf(h, "%s/%d/%s", key, attempt, doc)
	if item != nil {
		fmt.Fprintf(h, "/%d", *item)
	}
	return json.RawMessage(fmt.Sprint(h.Sum32()))
}

// A prospect is how a job has to end.
type prospect struct {
	status  machine.State
	states  map[string]machine.State // of the nodes; where the job completes or drains
	outputs map[string]string
}

// foresee evaluates the whole graph.
func (j *random) foresee() prospect {
	p := prospect{status: lifecycle.JobCompleted, states: make(map[string]machine.State), outputs: make(map[string]string)}
	for i := range j.nodes {
		j.node(&p, &j.nodes[i])
	}
	if p.status == lifecycle.JobFailed && !j.drain {
		p.states, p.outputs = make(map[string]machine.State), nil // which steps ran before it was halted is a race
	}
	if j.hook {
		p.states[hookID] = lifecycle.StepComplete
		if fateOf(j.name, hookID, 1, j.trouble) != succeeds {
			p.states[hookID] = lifecycle.StepPermanentError
		}
	}
	return p
}

func (j *random) node(p *prospect, n *randomNode) {
	needs, skipped := make(map[string]json.RawMessage), false
	for _, id := range j.ids(n.needs) {
		switch p.states[id] {
		case lifecycle.StepPermanentError, lifecycle.StepCancelled:
			p.states[n.id] = lifecycle.StepCancelled
			return
		case lifecycle.StepSkipped:
			skipped = true
		}
		needs[id] = json.RawMessage("null")
		if out := p.outputs[id]; out != "" {
			needs[id] = json.RawMessage(out)
		}
	}
	if !j.wanted(p, n, skipped) {
		p.states[n.id] = lifecycle.StepSkipped
		return
	}
	if n.items < 0 {
		p.states[n.id], p.outputs[n.id] = j.attempts(n, n.id, needs, nil)
	} else {
		p.states[n.id], p.outputs[n.id] = j.fan(n, needs)
	}
	if p.states[n.id] == lifecycle.StepPermanentError {
		p.status = lifecycle.JobFailed
	}
}

func (j *random) wanted(p *prospect, n *randomNode, skipped bool) bool {
	switch n.check {
	case whenNotFlag:
		return false
	case whenSkipped:
		return p.states[j.nodes[n.needs[0]].id] == lifecycle.StepSkipped
	case always:
		return !skipped
	}
	return true
}

func (j *random) fan(n *randomNode, needs map[string]json.RawMessage) (machine.State, string) {
	var outputs []string
	for i := range n.items {
		state, out := j.attempts(n, fmt.Sprintf("%s[%d]", n.id, i), needs, &i)
		if state != lifecycle.StepComplete {
			return state, ""
		}
		if out == "" {
			out = "null"
		}
		if n.matrix {
			out = fmt.Sprintf(`{"matrix":{"x":%d},"output":%s}`, i, out)
		}
		outputs = append(outputs, out)
	}
	if len(outputs) > 0 && !j.read(n) {
		return lifecycle.StepComplete, "null"
	}
	return lifecycle.StepComplete, "[" + strings.Join(outputs, ",") + "]"
}

// read reports whether anything may read the output of n: a handler that needs it, or the
// job's own output, which is that of the last node.
func (j *random) read(n *randomNode) bool {
	i := slices.IndexFunc(j.nodes, func(m randomNode) bool { return m.id == n.id })
	return i == len(j.nodes)-1 && j.def.HasOutput() ||
		slices.ContainsFunc(j.nodes, func(m randomNode) bool { return !m.sleeps && slices.Contains(m.needs, i) })
}

func (j *random) attempts(n *randomNode, key string, needs map[string]json.RawMessage, item *int) (machine.State, string) {
	if n.sleeps {
		return lifecycle.StepComplete, ""
	}
	for a := 1; a <= n.attempts; a++ {
		switch fateOf(j.name, key, a, j.trouble) {
		case succeeds:
			return lifecycle.StepComplete, string(effect(key, a, needs, item))
		case failsForGood:
			return lifecycle.StepPermanentError, ""
		}
	}
	return lifecycle.StepPermanentError, ""
}

// compare checks a job that has ended against what was foreseen.
func (j *random) compare(t *testing.T, v *pawl.JobView, canceled bool) {
	t.Helper()
	p := j.foresee()
	if canceled && v.Status == lifecycle.JobCanceled {
		return
	}
	if canceled {
		delete(p.states, hookID) // it may have been cancelled in its hook
	}
	if v.Status != p.status {
		t.Errorf("job %s is %s (%v), want %s\n%s", j.name, v.Status, v.Error, p.status, j.source)
	}
	all := steps(v)
	for id, want := range p.states {
		s := all[id]
		if s.Status != want {
			t.Errorf("job %s, step %s is %s, want %s\n%s", j.name, id, s.Status, want, j.source)
		}
		if out := p.outputs[id]; out != "" && string(s.Output) != out {
			t.Errorf("job %s, step %s answered %s, want %s\n%s", j.name, id, s.Output, out, j.source)
		}
	}
	if last := len(j.nodes) - 1; v.Status == lifecycle.JobCompleted && j.def.HasOutput() {
		if want := p.outputs[j.nodes[last].id]; string(v.Output) != want && !(want == "" && string(v.Output) == "null") {
			t.Errorf("job %s answered %s, want %s\n%s", j.name, v.Output, want, j.source)
		}
	}
}
