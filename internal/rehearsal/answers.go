package rehearsal

import (
	"bytes"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// answers evaluates the expressions that marked steps need. It reports whether there is
// anything to do.
func (w *World) answers() (decide.Answers, bool, error) {
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

func (w *World) answer(a *decide.Answers, s *pawl.Step) {
	switch {
	case s.State == lifecycle.StepPending && s.Claims == 0 && s.Unmet == 0:
		a.Starts[s.Ord] = w.startAnswer(s)
	case s.State == lifecycle.StepInProgress && w.IsFan(s):
		if s.DueEvent == lifecycle.StepFailPermanently {
			a.Errors[s.Ord] = s.Error
		} else if s.Made == s.Total && s.Live == 0 {
			a.Gathers[s.Ord] = decide.GatherAnswer{Output: w.gathered(s)}
		}
	case s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepRetryableError && decide.Exhausted(w.Definition, s) != "":
		a.Errors[s.Ord] = s.Error
	}
}

// scope returns what the expressions of s see, with the outputs and statuses of the
// named nodes.
func (w *World) scope(s *pawl.Step, named []int) *workflow.Scope {
	scope := &workflow.Scope{Inputs: w.Inputs, Outputs: map[int]json.RawMessage{}, Statuses: map[int]machine.State{},
		JobID: w.job.ID.Public(pawl.JobPrefix), Workflow: w.Definition.Name}
	for _, n := range named {
		other := w.At(pawl.MakeOrd(n, 0))
		scope.Outputs[n], scope.Statuses[n] = other.Output, other.State
	}
	if s == nil {
		return scope
	}
	n, i := s.Ord.Node(), s.Ord.Instance()
	if w.Definition.Node(n).Hook != workflow.NoHook {
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
func (w *World) item(node, instance int) json.RawMessage {
	if len(w.Definition.Node(node).Matrix) > 0 {
		return w.Definition.MatrixItem(node, instance)
	}
	raw := w.At(pawl.MakeOrd(node, 0)).Input
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

// Failure returns a failure of a class.
func Failure(class, message string, permanent bool) *pawl.Failure {
	return &pawl.Failure{Class: class, Message: message, Permanent: permanent}
}

// ExpressionFailure returns the failure of a step whose expressions cannot be evaluated.
func ExpressionFailure(err error) *pawl.Failure {
	return Failure("expression", err.Error(), true)
}

func (w *World) startAnswer(s *pawl.Step) decide.StartAnswer {
	n := s.Ord.Node()
	node := w.Definition.Node(n)
	answer := decide.StartAnswer{If: true}
	if node.HasIf && s.Ord.Instance() == 0 {
		scope := w.scope(s, w.Definition.IfNeeds(n))
		truth, err := w.Definition.EvalIf(n, scope)
		w.mind.Read(w, expressions.UseIf, n, scope, err)
		if answer.If, err = w.mind.Condition(w, n, scope, truth, err); err != nil {
			return decide.StartAnswer{Failure: ExpressionFailure(err)}
		}
		if !answer.If {
			return answer
		}
	}
	if !node.HasIf && s.Skipped {
		return answer
	}
	switch {
	case w.IsFan(s) && node.HasForeach:
		return w.fanAnswer(n, w.scope(s, w.Definition.ForeachNeeds(n)))
	case node.Kind.Waits() && !w.IsFan(s):
		return w.waitAnswer(n, w.scope(s, w.Definition.WaitNeeds(n)))
	}
	return answer
}

func (w *World) fanAnswer(n int, scope *workflow.Scope) decide.StartAnswer {
	items, err := w.Definition.EvalForeach(n, scope)
	w.mind.Read(w, expressions.UseForeach, n, scope, err)
	if items, err = w.mind.Items(w, n, scope, items, err); err != nil {
		return decide.StartAnswer{Failure: ExpressionFailure(err)}
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

func (w *World) waitAnswer(n int, scope *workflow.Scope) decide.StartAnswer {
	node := w.Definition.Node(n)
	waiting, err := w.Definition.EvalWait(n, scope)
	w.mind.Read(w, expressions.UseWait, n, scope, err)
	if err != nil {
		if err = w.mind.Failed(w, expressions.UseWait, n, scope, err); err != nil {
			return decide.StartAnswer{Failure: ExpressionFailure(err)}
		}
		waiting = &workflow.Waiting{Wait: pawl.Wait{Kind: string(node.Kind), Event: node.Event}, For: node.Expires}
		if node.Kind == workflow.KindWorkflow {
			waiting.Child = &workflow.Born{Name: node.Child.Name}
		}
	}
	return decide.StartAnswer{If: true, Waiting: waiting}
}

// Render evaluates the work of s as its worker would, for the errors in it.
func (w *World) Render(s *pawl.Step) error {
	n := s.Ord.Node()
	scope := w.scope(s, w.Definition.RenderNeeds(n))
	_, err := w.Definition.Render(n, scope)
	w.mind.Read(w, expressions.UseWork, n, scope, err)
	if err != nil {
		return w.mind.Failed(w, expressions.UseWork, n, scope, err)
	}
	return nil
}

// gathered returns the output of a fan-out.
func (w *World) gathered(p *pawl.Step) json.RawMessage {
	n, matrix := p.Ord.Node(), len(w.Definition.Node(p.Ord.Node()).Matrix) > 0
	if !w.Definition.Node(n).Gathers {
		return decide.OrNull(nil)
	}
	out := []byte("[")
	for i := 1; i <= p.Made; i++ {
		if i > 1 {
			out = append(out, ',')
		}
		output := decide.OrNull(w.At(pawl.MakeOrd(n, i)).Output)
		if matrix {
			out = append(append(out, `{"matrix":`...), w.Definition.MatrixItem(n, i)...)
			out = append(append(append(out, `,"output":`...), output...), '}')
			continue
		}
		out = append(out, output...)
	}
	return append(out, ']')
}

// output returns the value of the job's own output.
func (w *World) output() *decide.GatherAnswer {
	if !w.Definition.HasOutput() {
		return &decide.GatherAnswer{}
	}
	scope := w.scope(nil, w.Definition.OutputNeeds())
	raw, err := w.Definition.EvalOutput(scope)
	w.mind.Read(w, expressions.UseOutput, 0, scope, err)
	if err != nil {
		if err = w.mind.Failed(w, expressions.UseOutput, 0, scope, err); err != nil {
			return &decide.GatherAnswer{Failure: ExpressionFailure(err)}
		}
		raw = json.RawMessage("null")
	}
	return &decide.GatherAnswer{Output: raw}
}
