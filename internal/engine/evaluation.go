package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// MaxOutput is the largest output, in bytes of JSON (T8).
const MaxOutput = 1 << 20

// An evaluation holds everything marked in a job, and the results of the expressions
// evaluated outside the transaction.
type evaluation struct {
	e       *Engine
	job     rowkey.Job
	facts   *jobFacts
	seen    map[pawl.Ord]seenMark   // what is marked; the job itself is 0
	lives   map[pawl.Ord]rowkey.Job // unfinished child jobs of marked steps
	reads   decide.ReadSet
	more    bool // the marked steps do not all fit into one commit
	answers decide.Answers
	erase   bool // the job has ended, and is being redacted or has children to be canceled
}

// prepare reads what is marked in a job and evaluates the expressions that it needs. If
// nothing is marked, seen is empty. What it reads of steps does not change while their
// marks stand, so it holds in the transaction that follows. The decision itself sees any
// change of the job since.
func (a *evaluation) prepare(ctx context.Context) error {
	e := a.e
	marked, err := e.store.Marked(ctx, a.job) // first, so that the job is not older than its marks
	if err != nil {
		return err
	}
	a.seen = make(map[pawl.Ord]seenMark, len(marked)+1)
	for _, s := range marked {
		a.seen[s.Ord] = seenMark{s.MarkAt, s.Seq, s.Made, s.MarkTries}
	}
	job, err := e.store.Job(ctx, a.job)
	if errors.Is(err, store.ErrNotFound) {
		clear(a.seen)
		return nil
	}
	if err != nil {
		return err
	}
	if job.Mark == pawl.Attention {
		a.seen[0] = seenMark{job.MarkAt, job.Seq, 0, job.MarkTries}
	}
	if a.erase = job.Mark == pawl.Attention && lifecycle.Job.Ended(job.State); a.erase || len(a.seen) == 0 {
		return nil
	}
	def, err := e.defs.Get(ctx, job.Definition)
	if err != nil {
		return err
	}
	a.facts, a.lives = e.jobs.put(job, def), make(map[pawl.Ord]rowkey.Job)
	a.answers = decide.Answers{Starts: make(map[pawl.Ord]decide.StartAnswer), Gathers: make(map[pawl.Ord]decide.GatherAnswer),
		Errors: make(map[pawl.Ord]*pawl.Failure), Ends: make(map[pawl.Ord]decide.ChildEnd), Lives: make(map[pawl.Ord]bool)}
	p := &preparation{e: e, ctx: ctx, job: job, def: def, evaluation: a}
	a.more = len(marked) == store.MaxMarked
	rows := 0 // of child jobs to be created
	for _, s := range marked {
		if err := p.step(s); err != nil {
			return err
		}
		if w := a.answers.Starts[s.Ord].Waiting; w != nil && w.Child != nil {
			rows += len(w.Child.Definition.Nodes)
		}
		if rows > maxGroup*heavyRows {
			a.more = true
			break
		}
	}
	if job.Mark == pawl.Attention {
		err = p.whole()
	}
	a.reads = decide.EvaluateReads(def, job, p.listening, &a.answers)
	return err
}

func (a *evaluation) query(q *store.Query) {
	a.facts.ask(q, a.reads)
	for _, child := range a.lives {
		q.Jobs = append(q.Jobs, child)
	}
}

func (a *evaluation) decide(t *tx) error {
	if t.job(a.job) == nil {
		return pawl.Errorf(pawl.NotFound, "there is no job with key %d", a.job)
	}
	if a.e.outdated(t, a.job, a.facts) {
		a.e.evaluator.request(a.job) // the expressions evaluated belong to another version
		return nil
	}
	same := a.same(t)
	a.children(t)
	d := a.e.decisionBy(t, a.job, a.facts.def, a.answers)
	if err := d.Evaluate(); err != nil {
		return err
	}
	a.delay(t, same)
	if a.more {
		a.e.evaluator.request(a.job)
	}
	return d.Refill()
}

// children gives the decision the child jobs that live. They are locked and in sight: one
// that ends from now on marks the waiting step after this commit.
func (a *evaluation) children(t *tx) {
	for ord, key := range a.lives {
		child := t.job(key)
		a.answers.Lives[ord] = child != nil && !lifecycle.Job.Ended(child.State)
		if !a.answers.Lives[ord] {
			a.e.evaluator.request(a.job) // it has ended since it was read
		}
	}
}

// whole prepares what the job itself is marked for: a signal has arrived, or the job is
// about to end.
func (p *preparation) whole() (err error) {
	if p.def.Events {
		if err := p.listeners(); err != nil {
			return err
		}
	}
	if p.job.Open > 0 {
		return nil
	}
	p.answers.Ending = true
	if p.job.Ending == "" {
		p.answers.Output, err = p.output()
	}
	return err
}

// A preparation builds an evaluation.
type preparation struct {
	e         *Engine
	ctx       context.Context
	job       *pawl.Job
	def       *workflow.Definition
	listening []pawl.Ord // steps that listen to signals that have arrived
	*evaluation
}

// step prepares one marked step.
func (p *preparation) step(s *pawl.Step) error {
	p.answers.Marked = append(p.answers.Marked, s.Ord)
	node := p.def.Node(s.Ord.Node())
	fan := node.Fans() && s.Ord.Instance() == 0
	switch {
	case s.State == lifecycle.StepPending && s.Unmet == 0 && s.Claims == 0:
		answer, err := p.start(s, node)
		p.answers.Starts[s.Ord] = answer
		return err
	case s.State == lifecycle.StepInProgress && fan:
		return p.fanOut(s)
	case s.State == lifecycle.StepInProgress && node.Kind == workflow.KindWorkflow:
		return p.child(s)
	case s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepRetryableError && decide.Exhausted(p.def, s) != "":
		return p.failure(s)
	}
	return nil
}

// start evaluates `if` and `foreach` of a step, or what the step will wait for.
func (p *preparation) start(s *pawl.Step, node *workflow.Node) (decide.StartAnswer, error) {
	n, instance := s.Ord.Node(), s.Ord.Instance() > 0
	var needs []int
	if !instance {
		needs = append(p.def.IfNeeds(n), p.def.ForeachNeeds(n)...)
	}
	waits := node.Kind.Waits() && (instance || !node.Fans())
	if waits {
		needs = union(needs, p.def.WaitNeeds(n))
	}
	scope, err := p.scope(needs)
	if err != nil {
		return decide.StartAnswer{}, err
	}
	answer := decide.StartAnswer{If: true}
	if node.HasIf && !instance {
		if answer.If, err = p.def.EvalIf(n, scope); err != nil {
			return decide.StartAnswer{Failure: expressionFailure("if", err)}, nil
		}
	}
	switch {
	case !answer.If:
		return answer, nil
	case waits:
		return p.wait(s, scope)
	case node.HasForeach:
		return p.items(n, scope)
	}
	return answer, nil
}

// items evaluates a foreach.
func (p *preparation) items(n int, scope *workflow.Scope) (decide.StartAnswer, error) {
	items, err := p.def.EvalForeach(n, scope)
	if err != nil {
		return decide.StartAnswer{Failure: expressionFailure("foreach", err)}, nil
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return decide.StartAnswer{Failure: expressionFailure("foreach", err)}, nil
	}
	return decide.StartAnswer{If: true, Items: raw, Count: len(items)}, nil
}

// expressionFailure returns the failure of a key that could not be evaluated. An error of
// an expression gives its own position.
func expressionFailure(key string, err error) *pawl.Failure {
	message := err.Error()
	if pawl.KindOf(err) != pawl.Invalid {
		message = key + ": " + message
	}
	return &pawl.Failure{Class: "expression", Message: message, Permanent: true}
}

// fanOut gathers the outputs of a fan-out whose instances have all ended.
func (p *preparation) fanOut(s *pawl.Step) error {
	if s.DueEvent == lifecycle.StepFailPermanently {
		return p.failure(s)
	}
	if s.Made < s.Total || s.Live > 0 {
		return nil
	}
	if !p.def.Node(s.Ord.Node()).Gathers {
		p.answers.Gathers[s.Ord] = decide.GatherAnswer{Output: decide.OrNull(nil)}
		return nil
	}
	answer, err := p.gather(s)
	p.answers.Gathers[s.Ord] = answer
	return err
}

// gatherPage is how many instances are read at once.
const gatherPage = 500

// gather builds the list of the instances' outputs, in order.
func (p *preparation) gather(s *pawl.Step) (decide.GatherAnswer, error) {
	list := []byte{'['}
	last := pawl.MakeOrd(s.Ord.Node(), s.Total)
	for after := s.Ord; after < last; {
		page, err := p.e.store.Steps(p.ctx, s.Job, after, gatherPage)
		if err != nil {
			return decide.GatherAnswer{}, err
		}
		if len(page) == 0 {
			return decide.GatherAnswer{}, pawl.Errorf(pawl.Internal, "step %s: an instance is missing after %d", p.def.Key(s.Ord), after.Instance())
		}
		for _, inst := range page {
			if after = inst.Ord; after > last {
				break
			}
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, p.gathered(inst)...)
		}
		if len(list) > MaxOutput {
			what := fmt.Sprintf("the list of the outputs has %d bytes with %d of its %d items", len(list), min(after, last).Instance(), s.Total)
			return decide.GatherAnswer{Failure: pawl.TooLarge(what, MaxOutput, "let each instance put out less")}, nil
		}
	}
	return decide.GatherAnswer{Output: append(list, ']')}, nil
}

// gathered returns the list item of an instance; for a matrix it includes the instance's
// values.
func (p *preparation) gathered(inst *pawl.Step) []byte {
	output := decide.OrNull(inst.Output)
	if len(p.def.Node(inst.Ord.Node()).Matrix) == 0 {
		return output
	}
	b := append([]byte(`{"matrix":`), p.def.MatrixItem(inst.Ord.Node(), inst.Ord.Instance())...)
	return append(append(append(b, `,"output":`...), output...), '}')
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
func (p *preparation) output() (*decide.GatherAnswer, error) {
	if !p.def.HasOutput() {
		return &decide.GatherAnswer{}, nil
	}
	scope, err := p.scope(p.def.OutputNeeds())
	if err != nil {
		return nil, err
	}
	out, err := p.def.EvalOutput(scope)
	if err != nil { // for example, it is too large
		return &decide.GatherAnswer{Failure: expressionFailure("output", err)}, nil
	}
	return &decide.GatherAnswer{Output: out}, nil
}

func (p *preparation) scope(nodes []int) (*workflow.Scope, error) {
	s, err := p.e.scope(p.ctx, p.job.Key(), nodes)
	if err == nil && p.job.Hooks != pawl.HooksNotYet {
		hookScope(s, p.job)
	}
	return s, err
}
