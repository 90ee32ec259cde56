package verify

import (
	"bytes"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// answers evaluates the expressions that marked steps need. It reports whether there is
// anything to do.
func (w *world) answers() (decide.Answers, bool, error) {
	a := decide.Answers{Starts: map[pawl.Ord]decide.StartAnswer{}, Gathers: map[pawl.Ord]decide.GatherAnswer{},
		Errors: map[pawl.Ord]*pawl.Failure{}, Ends: map[pawl.Ord]decide.ChildEnd{}}
	any := w.job.Mark == pawl.Attention
	for _, s := range w.steps {
		if s.Mark != pawl.Attention {
			continue
		}
		if w.waitsForChild(s) {
			end, ok := w.ends[s.Ord]
			if !ok {
				continue
			}
			a.Ends[s.Ord] = end
		}
		any = true
		a.Marked = append(a.Marked, s.Ord)
		w.answer(&a, s)
	}
	a.Ending = w.job.Mark == pawl.Attention && w.job.Open == 0
	if any && w.job.Open == 0 && w.job.Ending == "" && w.job.State == lifecycle.JobRunning {
		a.Output = w.output()
	}
	return a, any, nil
}

func (w *world) answer(a *decide.Answers, s *pawl.Step) {
	switch {
	case s.State == lifecycle.StepPending && s.Claims == 0 && s.Unmet == 0:
		a.Starts[s.Ord] = w.startAnswer(s)
	case s.State == lifecycle.StepInProgress && w.isFan(s):
		if s.DueEvent == lifecycle.StepFailPermanently {
			a.Errors[s.Ord] = s.Error
		} else if s.Made == s.Total && s.Live == 0 {
			a.Gathers[s.Ord] = decide.GatherAnswer{Output: w.gathered(s)}
		}
	case s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepRetryableError && decide.Exhausted(w.def, s) != "":
		a.Errors[s.Ord] = s.Error
	}
}

// scope returns what the expressions of s see, with the outputs and statuses of the
// named nodes.
func (w *world) scope(s *pawl.Step, named []int) *workflow.Scope {
	scope := &workflow.Scope{Inputs: w.inputs, Outputs: map[int]json.RawMessage{}, Statuses: map[int]machine.State{},
		JobID: w.job.ID.Public(pawl.JobPrefix), Workflow: w.def.Name}
	for _, n := range named {
		other := w.step(pawl.MakeOrd(n, 0))
		scope.Outputs[n], scope.Statuses[n] = other.Output, other.State
	}
	if s == nil {
		return scope
	}
	n, i := s.Ord.Node(), s.Ord.Instance()
	if w.def.Node(n).Hook != workflow.NoHook {
		scope.JobStatus = w.job.Ending
		if w.job.Error != nil && w.job.Ending != lifecycle.JobCompleted {
			scope.JobError = w.job.Error.Message
		}
	}
	if i > 0 {
		scope.Index = i - 1
		scope.Item = w.item(n, i)
	}
	return scope
}

// item returns the item of an instance, counted from 1.
func (w *world) item(node, instance int) json.RawMessage {
	if len(w.def.Node(node).Matrix) > 0 {
		return w.def.MatrixItem(node, instance)
	}
	raw := w.step(pawl.MakeOrd(node, 0)).Input
	items, ok := w.lists[string(raw)]
	if !ok {
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil
		}
		w.lists[string(raw)] = items
	}
	if instance > len(items) {
		return nil
	}
	return items[instance-1]
}

func expression(err error) *pawl.Failure {
	return &pawl.Failure{Class: "expression", Message: err.Error(), Permanent: true}
}

func (w *world) startAnswer(s *pawl.Step) decide.StartAnswer {
	n := s.Ord.Node()
	node := w.def.Node(n)
	answer := decide.StartAnswer{If: true}
	if node.HasIf && s.Ord.Instance() == 0 {
		scope := w.scope(s, w.def.IfNeeds(n))
		truth, err := w.def.EvalIf(n, scope)
		w.mind.read(w, useIf, n, scope, err)
		if answer.If, err = w.mind.condition(w, n, scope, truth, err); err != nil {
			return decide.StartAnswer{Failure: expression(err)}
		}
		if !answer.If {
			return answer
		}
	}
	if !node.HasIf && s.Skipped {
		return answer
	}
	switch {
	case w.isFan(s) && node.HasForeach:
		return w.fanAnswer(n, w.scope(s, w.def.ForeachNeeds(n)))
	case node.Kind.Waits() && !w.isFan(s):
		return w.waitAnswer(n, w.scope(s, w.def.WaitNeeds(n)))
	}
	return answer
}

func (w *world) fanAnswer(n int, scope *workflow.Scope) decide.StartAnswer {
	items, err := w.def.EvalForeach(n, scope)
	w.mind.read(w, useForeach, n, scope, err)
	if items, err = w.mind.items(w, n, scope, items, err); err != nil {
		return decide.StartAnswer{Failure: expression(err)}
	}
	raw := append(append([]byte("["), bytes.Join(raws(items), []byte(","))...), ']')
	return decide.StartAnswer{If: true, Items: raw, Count: len(items)}
}

func raws(items []json.RawMessage) [][]byte {
	list := make([][]byte, len(items))
	for i, item := range items {
		list[i] = item
	}
	return list
}

func (w *world) waitAnswer(n int, scope *workflow.Scope) decide.StartAnswer {
	node := w.def.Node(n)
	waiting, err := w.def.EvalWait(n, scope)
	w.mind.read(w, useWait, n, scope, err)
	if err != nil {
		if err = w.mind.failed(w, useWait, n, scope, err); err != nil {
			return decide.StartAnswer{Failure: expression(err)}
		}
		waiting = &workflow.Waiting{Wait: pawl.Wait{Kind: string(node.Kind), Event: node.Event}, For: node.Expires}
		if node.Kind == workflow.KindWorkflow {
			waiting.Child = &workflow.Born{Name: node.Child.Name}
		}
	}
	return decide.StartAnswer{If: true, Waiting: waiting}
}

// render evaluates the work of s as its worker would, for the errors in it.
func (w *world) render(s *pawl.Step) error {
	n := s.Ord.Node()
	scope := w.scope(s, w.def.RenderNeeds(n))
	_, err := w.def.Render(n, scope)
	w.mind.read(w, useWork, n, scope, err)
	if err != nil {
		return w.mind.failed(w, useWork, n, scope, err)
	}
	return nil
}

// gathered returns the output of a fan-out.
func (w *world) gathered(p *pawl.Step) json.RawMessage {
	n, matrix := p.Ord.Node(), len(w.def.Node(p.Ord.Node()).Matrix) > 0
	if !w.def.Node(n).Gathers {
		return orNull(nil)
	}
	out := []byte("[")
	for i := 1; i <= p.Made; i++ {
		if i > 1 {
			out = append(out, ',')
		}
		output := orNull(w.step(pawl.MakeOrd(n, i)).Output)
		if matrix {
			out = append(append(out, `{"matrix":`...), w.def.MatrixItem(n, i)...)
			out = append(append(append(out, `,"output":`...), output...), '}')
			continue
		}
		out = append(out, output...)
	}
	return append(out, ']')
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// output returns the value of the job's own output.
func (w *world) output() *decide.GatherAnswer {
	if !w.def.HasOutput() {
		return &decide.GatherAnswer{}
	}
	scope := w.scope(nil, w.def.OutputNeeds())
	raw, err := w.def.EvalOutput(scope)
	w.mind.read(w, useOutput, 0, scope, err)
	if err != nil {
		if err = w.mind.failed(w, useOutput, 0, scope, err); err != nil {
			return &decide.GatherAnswer{Failure: expression(err)}
		}
		raw = json.RawMessage("null")
	}
	return &decide.GatherAnswer{Output: raw}
}
