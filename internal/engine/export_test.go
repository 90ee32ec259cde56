package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

// SweepRows is how many rows a sweep reads in a minute.
const SweepRows = sweepRows

// SweepAll sweeps everything that runs at once, and returns the number of waits whose cause
// had ended.
func (e *Engine) SweepAll(ctx context.Context) (found int, err error) {
	s := &sweeper{e: e, begun: true}
	for {
		if _, err := s.step(ctx); err != nil {
			return int(s.found.Load()), err
		}
		if s.at == (store.Spot{}) && s.job == 0 {
			break
		}
	}
	for {
		if err := errors.Join(s.schedules(ctx), s.pending(ctx)); err != nil || s.held == 0 && s.unstarted == 0 {
			return int(s.found.Load()), err
		}
	}
}

// StartOf returns where the sweep of a process begins, as a share of all records.
func StartOf(node int64) float64 { return startOf(node) }

// Queued returns how many groups wait for the committer.
func (e *Engine) Queued() int {
	e.committer.mu.Lock()
	defer e.committer.mu.Unlock()
	return len(e.committer.queue)
}

// Bury acts on the verdicts of a judge.
func (e *Engine) Bury(ctx context.Context, dead ...health.Death) error {
	return e.evaluator.bury(ctx, dead)
}

// SeesPaused reports whether the engine goes by a pause of a queue.
func (e *Engine) SeesPaused(ctx context.Context, n pawl.QueueName) (bool, error) {
	l, err := e.limits.Get(ctx)
	return err == nil && l.Paused(n.Workspace, n.Name), err
}
