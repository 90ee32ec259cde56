package engine

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A board is one job of a transaction as a decision sees it.
type board struct {
	t   *tx
	key int64
}

var _ workflow.Board = board{}

func (b board) Job() *pawl.Job { return b.t.job(b.key) }

func (b board) Step(ord pawl.Ord) *pawl.Step { return b.t.step(pawl.StepKey{Job: b.key, Ord: ord}) }

func (b board) Steps(f func(*pawl.Step)) {
	for _, h := range b.t.ofJob[b.key] {
		f(b.t.step(h.record.StepKey))
	}
}

func (b board) Make(ord pawl.Ord) *pawl.Step { return b.t.makeStep(b.Job(), ord) }

func (b board) Move(s *pawl.Step, event machine.Event, note workflow.Note) error {
	return b.t.moveStep(b.Job(), s, event, note)
}

func (b board) MoveJob(event machine.Event, note workflow.Note) error {
	return b.t.moveJob(b.Job(), event, note)
}

func (b board) Save(s *pawl.Step) { b.t.steps[s.StepKey].dirty = true }

func (b board) SaveJob() { b.t.jobs[b.key].dirty = true }
