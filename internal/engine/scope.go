package engine

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// know returns the facts of a job that rarely change, possibly without its inputs.
func (e *Engine) know(ctx context.Context, key rowkey.Job) (*jobFacts, error) {
	if r, ok := e.jobs.get(key); ok {
		return r, nil
	}
	return e.recall(ctx, key)
}

// recallID is recall for a public id.
func (e *Engine) recallID(ctx context.Context, id pawl.ID) (*jobFacts, error) {
	r, err := e.recall(ctx, id.JobKey())
	if err == nil && r.id != id || pawl.KindOf(err) == pawl.NotFound && err != nil {
		return nil, store.NoJob(id)
	}
	return r, err
}

// recall returns the facts of a job that rarely change, including its inputs.
func (e *Engine) recall(ctx context.Context, key rowkey.Job) (*jobFacts, error) {
	if r, ok := e.jobs.get(key); ok && r.inputs != nil {
		return r, nil
	}
	job, err := e.store.Job(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, pawl.Errorf(pawl.NotFound, "there is no job with key %d", key)
	}
	if err != nil {
		return nil, err
	}
	def, err := e.defs.Get(ctx, job.Definition)
	if err != nil {
		return nil, err
	}
	if job.Inputs == nil {
		job.Inputs = json.RawMessage("{}")
	}
	return e.jobs.put(job, def), nil // may be evicted at once: the job may end
}

// scope returns what expressions that refer to the given nodes may see. The nodes have
// ended, so what it reads does not change.
func (e *Engine) scope(ctx context.Context, key rowkey.Job, nodes []int) (*workflow.Scope, error) {
	r, err := e.recall(ctx, key)
	if err != nil {
		return nil, err
	}
	return e.scopeOf(ctx, r, nodes)
}

// scopeOf is scope for a job whose facts are known.
func (e *Engine) scopeOf(ctx context.Context, r *jobFacts, nodes []int) (*workflow.Scope, error) {
	s := &workflow.Scope{Inputs: r.inputs, JobID: r.id.Public(pawl.JobPrefix), Workflow: r.def.Name}
	if len(nodes) == 0 {
		return s, nil
	}
	s.Outputs, s.Statuses = make(map[int]json.RawMessage, len(nodes)), make(map[int]machine.State, len(nodes))
	key := r.id.JobKey()
	var missing []pawl.StepKey
	for _, n := range nodes {
		k := pawl.StepKey{Job: key, Ord: pawl.MakeOrd(n, 0)}
		if out, ok := e.jobs.output(k); ok {
			s.Outputs[n], s.Statuses[n] = out, lifecycle.StepComplete
			continue
		}
		missing = append(missing, k)
	}
	if len(missing) == 0 {
		return s, nil
	}
	bodies, err := e.store.Bodies(ctx, missing)
	if err != nil {
		return nil, err
	}
	for k, b := range bodies {
		s.Outputs[k.Ord.Node()], s.Statuses[k.Ord.Node()] = b.Output, b.State
		if b.State == lifecycle.StepComplete {
			e.jobs.putOutput(k, b.Output)
		}
	}
	return s, nil
}

// StepInput evaluates the expressions of an assignment. A failure is the step's: its
// expression cannot be evaluated.
func (e *Engine) StepInput(ctx context.Context, a *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	r, _ := a.Known.(*jobFacts)
	var err error
	if r != nil && r.inputs != nil {
		e.jobs.keep(r)
	} else if r, err = e.recall(ctx, a.Step.Job); err != nil { // the facts did not come with the claim
		return nil, nil, err
	}
	n := a.Step.Ord.Node()
	node := a.Definition.Node(n)
	scope, err := e.scopeOf(ctx, r, union(node.Needs, a.Definition.RenderNeeds(n)))
	if err != nil {
		return nil, nil, err
	}
	if err := e.particulars(ctx, a, scope); err != nil {
		return nil, nil, err
	}
	reused, err := e.reusable(ctx, a.Step.Job, a.Definition, a.Step.Ord, scope)
	if err != nil {
		return nil, nil, err
	}
	work, err := a.Definition.Render(n, scope)
	if err != nil {
		return nil, &pawl.Failure{Class: "expression", Message: err.Error(), Permanent: true}, nil
	}
	b := &link.StepInput{Work: work, JobID: scope.JobID, StepID: r.id.Step(a.Step.Ord).Public(pawl.StepPrefix), Key: a.Definition.Key(a.Step.Ord),
		Workflow: a.Definition.Name, Dir: dirOf(r.meta), Node: node, Reused: reused,
		Traceparent: e.traceOfAttempt(r, &a.Step)}
	b.Input = inputDocumentOf(a.Definition, node, scope, a.Step.Ord.Instance() > 0).write
	return b, nil, nil
}

// particulars completes the scope of an instance, or of a hook.
func (e *Engine) particulars(ctx context.Context, a *link.Assignment, scope *workflow.Scope) error {
	if a.Step.Ord.Instance() > 0 {
		return e.instance(ctx, a.Definition, a.Step.StepKey, scope)
	}
	if a.Definition.Node(a.Step.Ord.Node()).Hook == workflow.NoHook {
		return nil
	}
	job, err := e.store.Job(ctx, a.Step.Job)
	if err == nil {
		hookScope(scope, job)
	}
	return err
}

func union(a, b []int) []int {
	all := append([]int(nil), a...)
	for _, n := range b {
		found := false
		for _, m := range a {
			found = found || m == n
		}
		if !found {
			all = append(all, n)
		}
	}
	return all
}

// item returns the item of an instance of a fan-out.
func (e *Engine) item(ctx context.Context, k pawl.StepKey) (json.RawMessage, error) {
	parent := pawl.StepKey{Job: k.Job, Ord: k.Ord.Parent()}
	items := e.jobs.items(parent)
	if items == nil {
		bodies, err := e.store.Bodies(ctx, []pawl.StepKey{parent})
		if err != nil {
			return nil, err
		}
		b := bodies[parent]
		if b == nil {
			return nil, pawl.Errorf(pawl.Internal, "the fan-out of step %s is gone", k)
		}
		if err := json.Unmarshal(b.Input, &items); err != nil {
			return nil, err
		}
		e.jobs.putItems(parent, items, len(b.Input))
	}
	if i := k.Ord.Instance(); i <= len(items) {
		return items[i-1], nil
	}
	return nil, pawl.Errorf(pawl.Internal, "step %s has no item", k)
}

// An inputDocument is what a step can read. It lives as long as the task does, perhaps for hours, so
// it does not keep the scope: that has the values that expressions have decoded, which take many
// times the memory of their JSON, and outputs that only expressions use.
type inputDocument struct {
	inputs json.RawMessage
	needs  []namedOutput // by id
	of     string        // what an instance calls item; empty: the step is no instance
	item   json.RawMessage
	index  int
}

type namedOutput struct {
	id     string
	output json.RawMessage
}

func inputDocumentOf(def *workflow.Definition, node *workflow.Node, s *workflow.Scope, instance bool) *inputDocument {
	d := &inputDocument{inputs: s.Inputs, needs: make([]namedOutput, 0, len(node.Needs))}
	for _, n := range node.Needs {
		d.needs = append(d.needs, namedOutput{def.Node(n).ID, s.Outputs[n]})
	}
	slices.SortFunc(d.needs, func(x, y namedOutput) int { return strings.Compare(x.id, y.id) })
	if instance {
		d.of, d.item, d.index = "item", s.Item, s.Index
	}
	if instance && len(node.Matrix) > 0 {
		d.of = "matrix"
	}
	return d
}

// write writes the document. Its parts are JSON already, and a fan-out reads the same
// inputs thousands of times, so they are copied instead of parsed again. Each instance of a
// fan-out needs the whole list, so the document is written only for those that read it.
func (d *inputDocument) write() json.RawMessage {
	size := len(`{"inputs":,"needs":{}}`) + len(d.inputs)
	for _, n := range d.needs {
		size += len(`,"":null`) + len(n.id) + len(n.output)
	}
	if d.of != "" {
		size += len(`,"":null,"index":`) + len(d.of) + len(d.item) + 20 // of digits
	}
	b := append(make([]byte, 0, size), `{"inputs":`...)
	b = append(append(b, d.inputs...), `,"needs":{`...)
	for i, n := range d.needs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, n.id), ':')
		b = append(b, decide.OrNull(n.output)...)
	}
	b = append(b, '}')
	if d.of != "" {
		b = append(append(append(b, `,"`...), d.of...), `":`...)
		b = append(b, decide.OrNull(d.item)...)
		b = strconv.AppendInt(append(b, `,"index":`...), int64(d.index), 10)
	}
	return append(b, '}')
}

func dirOf(metadata json.RawMessage) string {
	if len(metadata) == 0 {
		return ""
	}
	var m struct {
		Dir string `json:"dir"`
	}
	if json.Unmarshal(metadata, &m) != nil || m.Dir == "" {
		return ""
	}
	return filepath.Clean(strings.TrimSpace(m.Dir))
}
