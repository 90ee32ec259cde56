package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// MaxOutput is the most bytes of an output, in JSON (T8).
const MaxOutput = 1 << 20

// An attendance is everything marked in a job, with what had to be evaluated
// outside the transaction.
type attendance struct {
	e       *Engine
	job     int64
	def     *workflow.Definition
	steps   []pawl.StepKey
	open    bool // the job may end: every open step has to be in sight
	waiting int
	answers workflow.Answers
}

// prepare reads what is marked in a job and evaluates the expressions that it
// takes. It answers nil if there is nothing to do. What it reads never changes
// while the mark stands, so that it holds in the transaction that follows.
func (e *Engine) prepare(ctx context.Context, key int64) (*attendance, error) {
	job, err := e.store.Job(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	marked, err := e.store.Marked(ctx, key)
	if err != nil || len(marked) == 0 && job.Mark != pawl.Attention {
		return nil, err
	}
	def, err := e.defs.get(ctx, job.Definition)
	if err != nil {
		return nil, err
	}
	e.jobs.put(job, def)
	a := &attendance{e: e, job: key, def: def, waiting: job.WorkerCount,
		answers: workflow.Answers{Starts: make(map[pawl.Ord]workflow.StartAnswer), Gathers: make(map[pawl.Ord]workflow.GatherAnswer), Errors: make(map[pawl.Ord]*pawl.Failure)}}
	p := &preparation{e: e, ctx: ctx, job: job, attendance: a}
	for _, s := range marked {
		if err := p.step(s); err != nil {
			return nil, err
		}
	}
	if job.Mark == pawl.Attention && job.Open == 0 {
		a.answers.Output, err = p.output()
	}
	return a, err
}

func (a *attendance) query(q *store.Query) {
	q.Jobs = append(q.Jobs, a.job)
	q.Steps = append(q.Steps, a.steps...)
	if a.open {
		q.Open = append(q.Open, a.job)
		q.Marked = append(q.Marked, a.job)
	}
	if a.def.MayWait(a.waiting) {
		q.Waiting = append(q.Waiting, store.JobLimit{Job: a.job, Limit: a.waiting})
	}
}

func (a *attendance) decide(t *tx) error {
	d, err := a.e.decision(t, a.job, a.answers)
	if err != nil {
		return err
	}
	if err := d.Attend(); err != nil {
		return err
	}
	return refill(t, d, a.job)
}

// A preparation is an attendance in the making.
type preparation struct {
	e   *Engine
	ctx context.Context
	job *pawl.Job
	*attendance
}

// step prepares one marked step.
func (p *preparation) step(s *pawl.Step) error {
	for _, ord := range p.def.Reach(s.Ord, true) {
		p.steps = append(p.steps, pawl.StepKey{Job: s.Job, Ord: ord})
	}
	node := p.def.Node(s.Ord.Node())
	switch {
	case s.State == lifecycle.StepPending && s.Unmet == 0 && s.Claims == 0:
		answer, err := p.start(s, node)
		p.answers.Starts[s.Ord] = answer
		p.open = p.open || answer.Failure != nil
		return err
	case s.State == lifecycle.StepInProgress && node.HasForeach && s.Ord.Instance() == 0:
		return p.fanOut(s)
	case s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepRetryableError:
		p.open = true
		return p.failure(s)
	}
	return nil
}

// start evaluates `if` and `foreach` of a step.
func (p *preparation) start(s *pawl.Step, node *workflow.Node) (workflow.StartAnswer, error) {
	n := s.Ord.Node()
	scope, err := p.scope(append(p.def.IfNeeds(n), p.def.ForeachNeeds(n)...))
	if err != nil {
		return workflow.StartAnswer{}, err
	}
	answer := workflow.StartAnswer{If: true}
	if node.HasIf {
		if answer.If, err = p.def.EvalIf(n, scope); err != nil {
			return workflow.StartAnswer{Failure: expressionFailure("if", err)}, nil
		}
	}
	if node.HasForeach && answer.If {
		items, err := p.def.EvalForeach(n, scope)
		if err != nil {
			return workflow.StartAnswer{Failure: expressionFailure("foreach", err)}, nil
		}
		if answer.Items, err = json.Marshal(items); err != nil {
			return workflow.StartAnswer{Failure: expressionFailure("foreach", err)}, nil
		}
		answer.Count = len(items)
	}
	return answer, nil
}

func expressionFailure(key string, err error) *pawl.Failure {
	return &pawl.Failure{Class: "expression", Message: key + ": " + err.Error(), Permanent: true}
}

// fanOut gathers the outputs of a fan-out whose instances have ended.
func (p *preparation) fanOut(s *pawl.Step) error {
	if s.DueEvent == lifecycle.StepFailPermanently {
		p.open = true
		return p.failure(s)
	}
	if s.Made < s.Total || s.Live > 0 {
		return nil
	}
	answer, err := p.gather(s)
	p.answers.Gathers[s.Ord] = answer
	p.open = p.open || answer.Failure != nil
	return err
}

// gatherPage is how many instances are read at once.
const gatherPage = 500

// gather makes the list of the instances' outputs, in order.
func (p *preparation) gather(s *pawl.Step) (workflow.GatherAnswer, error) {
	list := []byte{'['}
	last := pawl.MakeOrd(s.Ord.Node(), s.Total)
	for after := s.Ord; after < last; {
		page, err := p.e.store.Steps(p.ctx, s.Job, after, gatherPage)
		if err != nil {
			return workflow.GatherAnswer{}, err
		}
		if len(page) == 0 {
			return workflow.GatherAnswer{}, pawl.Errorf(pawl.Internal, "step %s: an instance is missing after %d", p.def.Key(s.Ord), after.Instance())
		}
		for _, inst := range page {
			if after = inst.Ord; after > last {
				break
			}
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, orNull(inst.Output)...)
		}
		if len(list) > MaxOutput {
			return workflow.GatherAnswer{Failure: TooLarge("the list of its outputs")}, nil
		}
	}
	return workflow.GatherAnswer{Output: append(list, ']')}, nil
}

// TooLarge answers the permanent failure of an output over MaxOutput (T8).
func TooLarge(what string) *pawl.Failure {
	return &pawl.Failure{Class: "output_too_large", Message: what + " is larger than 1 MiB, the limit of an output", Permanent: true}
}

func orNull(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return json.RawMessage("null")
	}
	return b
}

// failure reads why a step failed.
func (p *preparation) failure(s *pawl.Step) error {
	bodies, err := p.e.store.Bodies(p.ctx, []pawl.StepKey{s.StepKey})
	if err != nil {
		return err
	}
	if b := bodies[s.StepKey]; b != nil {
		p.answers.Errors[s.Ord] = b.Error
	}
	return nil
}

// output evaluates the job's output.
func (p *preparation) output() (*workflow.GatherAnswer, error) {
	if !p.def.HasOutput() {
		return &workflow.GatherAnswer{}, nil
	}
	scope, err := p.scope(p.def.OutputNeeds())
	if err != nil {
		return nil, err
	}
	out, err := p.def.EvalOutput(scope)
	switch {
	case err != nil:
		return &workflow.GatherAnswer{Failure: expressionFailure("output", err)}, nil
	case len(out) > MaxOutput:
		return &workflow.GatherAnswer{Failure: TooLarge("the job's output")}, nil
	}
	return &workflow.GatherAnswer{Output: out}, nil
}

func (p *preparation) scope(nodes []int) (*workflow.Scope, error) {
	return p.e.scope(p.ctx, p.job.Key(), nodes)
}
