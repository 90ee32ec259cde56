package engine

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// wait evaluates what a step, or an instance of it, will wait for.
func (p *preparation) wait(s *pawl.Step, scope *workflow.Scope) (decide.StartAnswer, error) {
	n := s.Ord.Node()
	if s.Ord.Instance() > 0 {
		if err := p.e.instance(p.ctx, p.def, s.StepKey, scope); err != nil {
			return decide.StartAnswer{}, err
		}
	}
	reused, err := p.e.reusable(p.ctx, p.job.Key(), p.def, s.Ord, scope)
	if err != nil || reused != nil {
		return decide.StartAnswer{If: true, Reused: reused}, err
	}
	w, err := p.def.EvalWait(n, scope)
	if err != nil {
		return decide.StartAnswer{Failure: expressionFailure(string(p.def.Node(n).Kind), err)}, nil
	}
	if w.Child != nil {
		if f, err := p.born(w.Child, p.def.Node(n).Child); f != nil || err != nil {
			return decide.StartAnswer{Failure: f}, err
		}
	}
	return decide.StartAnswer{If: true, Waiting: w}, nil
}

// born completes a child job to be made: its definition, its inputs and its concurrency
// key. The failure tells why the child cannot be made.
func (p *preparation) born(b *workflow.Born, from *workflow.Child) (*pawl.Failure, error) {
	refuse := func(err error) *pawl.Failure {
		return &pawl.Failure{Class: "child", Message: "there can be no child job: " + err.Error(), Permanent: true}
	}
	if p.job.Depth >= MaxDepth {
		return refuse(pawl.Errorf(pawl.Invalid, "depth: %d is the deepest that a job may lie", MaxDepth)), nil
	}
	own, err := originOf(p.job.Metadata)
	if err != nil {
		return nil, err
	}
	f := origin{Dir: p.childDir(own.Dir, from.File), Trace: p.e.traceOfChild(p.job.ID, own.Trace)}
	if b.Definition == nil {
		if err := p.registered(b, &f); err != nil {
			return fault(refuse, err)
		}
	}
	b.Metadata = f.json()
	if b.Key, err = concurrencyKey(b.Definition, b.Inputs); err != nil {
		return fault(refuse, err)
	}
	return p.circle(b)
}

// childDir returns the folder where the commands of a child start: for a private job that
// of the child's file, for a submitted job that of the parent, if one was given.
func (p *preparation) childDir(dir, file string) string {
	switch folder := filepath.Dir(file); {
	case p.job.Private == 0:
		return dir
	case filepath.IsAbs(folder):
		return folder
	default:
		return filepath.Join(dir, folder)
	}
}

// registered looks up the definition of a child, and binds its inputs.
func (p *preparation) registered(b *workflow.Born, f *origin) error {
	v, def, err := p.e.Lookup(p.ctx, pawl.WorkflowName{Workspace: p.job.Workspace, Name: b.Name}, b.Version)
	if err != nil {
		return err
	}
	b.Definition, b.Version = def, v.Version
	if p.job.Private != 0 && v.Dir != "" {
		f.Dir = v.Dir
	}
	b.Inputs, err = def.BindInputs(b.Given)
	return err
}

// fault distinguishes a fault of the child from one of the store.
func fault(refuse func(error) *pawl.Failure, err error) (*pawl.Failure, error) {
	switch pawl.KindOf(err) {
	case pawl.Invalid, pawl.NotFound:
		return refuse(err), nil
	}
	return nil, err
}

// circle refuses a child that would wait for a slot that an ancestor keeps until the child
// has ended.
func (p *preparation) circle(b *workflow.Born) (*pawl.Failure, error) {
	if b.Definition.Concurrency == 0 {
		return nil, nil
	}
	pool := concurrencyPool(p.job.Workspace, b.Definition, b.Key)
	for job := p.job; ; {
		if job.Pool == pool {
			return &pawl.Failure{Class: "child", Permanent: true,
				Message: "there can be no child job: it would wait for ever for its concurrency key, which job " + job.ID.Public(pawl.JobPrefix) + " above it holds"}, nil
		}
		if job.Parent == 0 || job.ParentStep == 0 { // a job does not wait for those that were submitted below it
			return nil, nil
		}
		var err error
		if job, err = p.e.store.Job(p.ctx, job.Parent); err != nil {
			return nil, err
		}
	}
}

// child reads the state of a step's child job, and cancels the job if required.
func (p *preparation) child(s *pawl.Step) error {
	w, err := p.e.waitOf(p.ctx, s.StepKey)
	if err != nil {
		return err
	}
	id, err := pawl.ParseID(pawl.JobPrefix, w.Job)
	if err != nil {
		return err
	}
	child, err := p.e.store.Job(p.ctx, id.JobKey())
	if err != nil {
		return err
	}
	if lifecycle.Job.Ended(child.State) {
		p.answers.Ends[s.Ord] = childEnd(child)
		return nil
	}
	p.lives[s.Ord] = child.Key()
	if s.DueEvent != lifecycle.StepCancel {
		return nil
	}
	if child.Ending == lifecycle.JobCanceled || child.Hooks != pawl.HooksNotYet {
		return nil // it is already ending, and its hooks have to run
	}
	job, err := p.e.recallID(p.ctx, id)
	if err != nil {
		return err
	}
	err = p.e.committer.one(p.ctx, &cancelJob{e: p.e, job: job, note: decide.Note{Reason: "its parent job is ending"}, spare: true})
	if pawl.KindOf(err) == pawl.Conflict {
		return nil // it is already ending
	}
	return err
}

func childEnd(child *pawl.Job) decide.ChildEnd {
	if child.State == lifecycle.JobCompleted {
		return decide.ChildEnd{Output: decide.OrNull(child.Output)}
	}
	f := &pawl.Failure{Class: "child", Permanent: true, Message: "child job " + child.ID.Public(pawl.JobPrefix) + " is " + string(child.State)}
	if child.Error != nil {
		f.Message += ": " + child.Error.Message
	}
	return decide.ChildEnd{Failure: f}
}

// waitOf reads what a step waits for.
func (e *Engine) waitOf(ctx context.Context, k pawl.StepKey) (w pawl.Wait, err error) {
	bodies, err := e.store.Bodies(ctx, []pawl.StepKey{k})
	if err != nil || bodies[k] == nil || len(bodies[k].Input) == 0 {
		return w, err
	}
	return w, json.Unmarshal(bodies[k].Input, &w)
}

// listeners brings the steps into sight that wait for signals that have arrived.
func (p *preparation) listeners() error {
	signals, err := p.e.store.Signals(p.ctx, p.job.Key()) // without data
	if err != nil {
		return err
	}
	wanted := make(map[string]bool)
	for _, s := range signals {
		wanted[s.Name] = true
		p.answers.Heard = s.Seq
	}
	for n := 1; n <= len(p.def.Nodes); n++ {
		node := p.def.Node(n)
		if node.Kind != workflow.KindEvent || !wanted[node.Event] {
			continue
		}
		if err := p.listenersOf(n, node); err != nil {
			return err
		}
	}
	return nil
}

// listenersOf brings a node that waits for a signal into sight, or the instances of it that
// do.
func (p *preparation) listenersOf(n int, node *workflow.Node) error {
	if !node.Fans() {
		p.listening = append(p.listening, pawl.MakeOrd(n, 0))
		return nil
	}
	found := 0
	for after := pawl.MakeOrd(n, 0); found < store.MaxSignals; {
		page, err := p.e.store.Steps(p.ctx, p.job.Key(), after, gatherPage)
		if err != nil {
			return err
		}
		for _, s := range page {
			if after = s.Ord; s.Ord.Node() == n && s.State == lifecycle.StepInProgress {
				p.listening = append(p.listening, s.Ord)
				found++
			}
		}
		if len(page) == 0 || after.Node() != n {
			return nil
		}
	}
	return nil
}

// instance adds the item or the matrix values of an instance to its scope.
func (e *Engine) instance(ctx context.Context, def *workflow.Definition, k pawl.StepKey, scope *workflow.Scope) (err error) {
	scope.Index = k.Ord.Instance() - 1
	if n := k.Ord.Node(); len(def.Node(n).Matrix) > 0 {
		scope.Item = def.MatrixItem(n, k.Ord.Instance())
		return nil
	}
	scope.Item, err = e.item(ctx, k)
	return err
}

// hookScope adds to a hook's scope how the job is going to end.
func hookScope(s *workflow.Scope, j *pawl.Job) {
	s.JobStatus = j.Ending
	if j.Error != nil && j.Ending != lifecycle.JobCompleted {
		s.JobError = j.Error.Message
	}
}

// reusable returns the output that an instance has in the job that its job continues, if
// that output is to be reused, or nil.
func (e *Engine) reusable(ctx context.Context, job rowkey.Job, def *workflow.Definition, ord pawl.Ord, scope *workflow.Scope) (json.RawMessage, error) {
	if ord.Instance() == 0 {
		return nil, nil
	}
	r, err := e.recall(ctx, job)
	if err != nil || r.old == 0 {
		return nil, err
	}
	if _, again := rerun(def, r.meta)[ord.Node()]; again {
		return nil, nil
	}
	k := pawl.StepKey{Job: r.old, Ord: ord}
	bodies, err := e.store.Bodies(ctx, []pawl.StepKey{k})
	if err != nil || bodies[k] == nil || bodies[k].State != lifecycle.StepComplete {
		return nil, err
	}
	was := &workflow.Scope{}
	err = e.instance(ctx, def, k, was)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if string(was.Item) != string(scope.Item) {
		return nil, nil
	}
	return decide.OrNull(bodies[k].Output), nil
}

// rerun returns the nodes whose results a job does not take over from the job that it
// continues: those listed, and all their dependents.
func rerun(def *workflow.Definition, metadata json.RawMessage) map[int]bool {
	f, err := originOf(metadata)
	if err != nil {
		return nil
	}
	again := make(map[int]bool)
	for _, id := range f.Rerun {
		if n := def.NodeByID(id); n != 0 {
			again[n] = true
			for _, m := range def.Descendants(n) {
				again[m] = true
			}
		}
	}
	return again
}
