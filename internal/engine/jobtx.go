package engine

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A jobTx is one job of a transaction, as a decision sees it.
type jobTx struct {
	e   *Engine
	t   *tx
	key rowkey.Job
}

var _ decide.JobTx = jobTx{}

func (b jobTx) Job() *pawl.Job { return b.t.job(b.key) }

func (b jobTx) Steps(f func(*pawl.Step)) {
	for h := b.t.ofJob[b.key]; h != nil; h = h.next {
		f(b.t.step(h.record.StepKey))
	}
}

func (b jobTx) Make(ord pawl.Ord) *pawl.Step { return b.t.makeStep(b.Job(), ord) }

func (b jobTx) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	return b.t.moveStep(b.Job(), s, event, note)
}

func (b jobTx) MoveJob(event machine.Event, note decide.Note) error {
	return b.t.moveJob(b.Job(), event, note)
}

func (b jobTx) Fold(s *pawl.Step) { b.t.fold(b.Job(), s) }

func (b jobTx) Save(s *pawl.Step) { b.t.steps[s.StepKey].dirty = true }

func (b jobTx) SaveJob() { b.t.jobs[b.key].dirty = true }

// parentOf returns the key of the step that waits for a child job; its ord is 0 if none does.
func parentOf(j *pawl.Job) pawl.StepKey { return pawl.StepKey{Job: j.Parent, Ord: j.ParentStep} }

func (b jobTx) Spawn(s *pawl.Step, child *workflow.Born) (string, error) {
	j := b.Job()
	id := b.e.NewID()
	err := b.e.createJob(b.t, &creation{
		id: id, def: child.Definition, workspace: j.Workspace, version: child.Version, inputs: child.Inputs,
		metadata: child.Metadata, private: j.Private, priority: j.Priority, parent: j, parentStep: s.Ord, key: child.Key,
		note: decide.Note{Metadata: []byte(`{"parent":"` + j.ID.Step(s.Ord).Public(pawl.StepPrefix) + `"}`)},
	})
	return id.Public(pawl.JobPrefix), err
}

func (b jobTx) Take(signal *pawl.Signal, s *pawl.Step) { b.t.takeSignal(signal, s.Ord) }
