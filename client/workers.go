package client

import (
	"context"

	"github.com/pawl-dev/pawl"
)

// Workers lists the workers, and pauses and ends them for operators. A change returns
// what it did to the worker.
type Workers struct{ base }

// List returns workers, newest first.
func (s *Workers) List(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	return s.engine.Workers(ctx, q)
}

// Get returns a worker.
func (s *Workers) Get(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error) {
	return s.engine.Worker(ctx, id)
}

// History calls f with every move of a worker, oldest first. It ends with the first error
// of f.
func (s *Workers) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return s.engine.WorkerHistory(ctx, id, f)
}

// Pause keeps a worker from claiming steps. Its running steps continue.
func (s *Workers) Pause(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.PauseWorker(ctx, id, s.by(c))
}

// Resume ends a pause.
func (s *Workers) Resume(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.ResumeWorker(ctx, id, s.by(c))
}

// Terminate ends a worker. Its steps are interrupted and go to other workers; they lose
// no attempt.
func (s *Workers) Terminate(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.TerminateWorker(ctx, id, s.by(c))
}
