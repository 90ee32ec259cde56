package remote

import (
	"context"

	"github.com/pawl-dev/pawl"
)

func workerList(q *pawl.WorkerQuery) call {
	return call{operation: "list-workers", path: "/api/workers", query: values("workspace_id", q.Workspace, "status", list(q.Statuses))}
}

// Workers lists workers, newest first.
func (e *Engine) Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	if q.Before != "" {
		return nil, unsupported("a list of workers that begins behind one", "read all of them, or use WorkerPage")
	}
	return upTo[pawl.WorkerView](ctx, e, workerList(&q), q.Limit)
}

// WorkerPage is a page of Workers.
func (e *Engine) WorkerPage(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, string, error) {
	return onePage[pawl.WorkerView](ctx, e, workerList(&q), q.Before, q.Limit)
}

// Worker returns a worker with its last moves.
func (e *Engine) Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error) {
	return read[pawl.WorkerView](ctx, e, "get-worker", at("/api/workers/%s", id.Public(pawl.WorkerPrefix)))
}

func workerHistory(id pawl.ID) call {
	return call{operation: "list-worker-history", path: at("/api/workers/%s/history", id.Public(pawl.WorkerPrefix))}
}

// WorkerHistory calls f with every move of a worker.
func (e *Engine) WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return e.moves(ctx, workerHistory(id), f)
}

// WorkerHistoryPage is a page of WorkerHistory.
func (e *Engine) WorkerHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, workerHistory(id), q.After, q.Limit)
}

func (e *Engine) onWorker(ctx context.Context, id pawl.ID, verb string, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command(verb+"-worker", at("/api/supervisor/workers/%s/%s", id.Public(pawl.WorkerPrefix), verb), c, note{c.Reason}))
}

// PauseWorker keeps a worker from claiming steps.
func (e *Engine) PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.onWorker(ctx, id, "pause", c)
}

// ResumeWorker ends a pause.
func (e *Engine) ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.onWorker(ctx, id, "resume", c)
}

// TerminateWorker ends a worker.
func (e *Engine) TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.onWorker(ctx, id, "terminate", c)
}

// Followed reports true: a server evaluates jobs and fires schedules.
func (e *Engine) Followed(ctx context.Context) (bool, error) {
	_, err := e.greet(ctx)
	return err == nil, err
}
