package api

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) workerOperations() []operation {
	const tag = "workers"
	list, read := does(s, s.listWorkers), does(s, s.getWorker)
	return []operation{
		{id: "list-workers", method: get, path: "/api/workers", role: Viewer, tag: tag,
			summary: "List workers, newest first", detail: "Lists the workers that live, or those in the given states.", add: list},
		{id: "get-worker", method: get, path: "/api/workers/{id}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a worker", detail: "Reads a worker with its last moves.", add: read},
		{id: "list-worker-history", method: get, path: "/api/workers/{id}/history", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a worker", detail: "Lists the moves of a worker, oldest first.", add: does(s, s.listWorkerHistory)},
		{id: "supervise-workers", method: get, path: "/api/supervisor/workers", role: Viewer, tag: tag,
			summary: "List workers for operators", detail: "The same as list-workers.", add: list},
		{id: "supervise-worker", method: get, path: "/api/supervisor/workers/{id}", role: Viewer, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a worker for operators", detail: "The same as get-worker.", add: read},
		{id: "pause-worker", method: post, path: "/api/supervisor/workers/{id}/pause", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Pause a worker", detail: "Keeps a worker from claiming more. Its running steps complete.", add: does(s, s.workerVerb((*client.Workers).Pause))},
		{id: "resume-worker", method: post, path: "/api/supervisor/workers/{id}/resume", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resume a worker", detail: "Ends a pause.", add: does(s, s.workerVerb((*client.Workers).Resume))},
		{id: "terminate-worker", method: post, path: "/api/supervisor/workers/{id}/terminate", role: Operator, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Terminate a worker", detail: "Ends a worker for good: its steps are interrupted, and go to others at once. A reason is required.", add: does(s, s.workerVerb((*client.Workers).Terminate))},
		{id: "get-counts", method: get, path: "/api/supervisor/metrics", role: Viewer, tag: tag,
			summary: "Count workers, jobs and steps by state", detail: "Counts what is in flight exactly, and what has ended up to a bound.", add: does(s, s.getCounts)},
	}
}

func (s *Service) listWorkers(ctx context.Context, in *struct {
	OfWorkspace
	Window
	Status []string `query:"status" enum:"IDLE,RUNNING,PAUSED,COMPLETED,FAILED,TERMINATED" doc:"Only in these states, separated by commas. Default: those that live."`
}) (*body[page[pawl.WorkerView]], error) {
	filter := []any{"workers", in.Workspace, in.Status}
	q := pawl.WorkerQuery{Workspace: in.Workspace}
	for _, state := range in.Status {
		q.Statuses = append(q.Statuses, machine.State(state))
	}
	return placedPage(in.Window, filter, func(after string, limit int) ([]pawl.WorkerView, string, error) {
		q.Before, q.Limit = after, limit
		return s.Engine.WorkerPage(ctx, q)
	})
}

func (s *Service) getWorker(ctx context.Context, in *struct{ WorkerPath }) (*body[pawl.WorkerView], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	v, err := s.Engine.Worker(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[pawl.WorkerView]{*v}, nil
}

func (s *Service) listWorkerHistory(ctx context.Context, in *struct {
	WorkerPath
	Window
}) (*body[page[pawl.Transition]], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"worker", in.ID}, func(after string, limit int) ([]pawl.Transition, string, error) {
		return s.Engine.WorkerHistoryPage(ctx, id, pawl.HistoryQuery{After: after, Limit: limit})
	})
}

func (s *Service) workerVerb(verb func(*client.Workers, context.Context, pawl.ID, pawl.Change) (pawl.Receipt, error)) func(context.Context, *struct {
	WorkerPath
	Command
}) (*receipt, error) {
	return func(ctx context.Context, in *struct {
		WorkerPath
		Command
	}) (*receipt, error) {
		id, err := in.worker()
		if err != nil {
			return nil, err
		}
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		return receiptOf(verb(s.client(ctx, "").Workers, ctx, id, c))
	}
}

func (s *Service) getCounts(ctx context.Context, in *struct{ OfWorkspace }) (*body[pawl.Counts], error) {
	counts, err := s.Engine.Counts(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	return &body[pawl.Counts]{*counts}, nil
}
