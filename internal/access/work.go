package access

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// The engine as a worker uses it. A worker of another workspace has ended, as far as the
// principal sees.

func (e *Engine) Register(ctx context.Context, r link.Registration) (*pawl.Worker, func(), error) {
	if err := in(ctx, r.Worker.Workspace); err != nil {
		return nil, nil, err
	}
	return e.of.Register(ctx, r)
}

// LendSlots is for workers of this process, which have no principal.
func (e *Engine) LendSlots(w *pawl.Worker, run func(*link.Assignment)) link.Slots {
	return e.of.LendSlots(w, run)
}

func (e *Engine) Exchange(ctx context.Context, x link.Exchange) ([]link.Assignment, error) {
	return when(e.workerKey(ctx, x.Worker.Key()), func() ([]link.Assignment, error) { return e.of.Exchange(ctx, x) })
}

func (e *Engine) CompleteTx(ctx context.Context, tx any, r link.Report) error {
	if err := everywhere(ctx); err != nil {
		return err
	}
	return e.of.CompleteTx(ctx, tx, r)
}

func (e *Engine) StepInput(ctx context.Context, a *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	if err := e.jobKeys(ctx, a.Step.Job); err != nil {
		return nil, nil, err
	}
	return e.of.StepInput(ctx, a)
}

func (e *Engine) AppendLogs(ctx context.Context, chunks []pawl.Chunk) error {
	for i := range chunks {
		if i > 0 && chunks[i].Job == chunks[i-1].Job {
			continue
		}
		if err := e.jobKeys(ctx, chunks[i].Job); err != nil {
			return err
		}
	}
	return e.of.AppendLogs(ctx, chunks)
}

func (e *Engine) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	return when(e.workerKey(ctx, p.Worker), func() (*link.Pulsed, error) { return e.of.Beat(ctx, p) })
}

func (e *Engine) Stops() <-chan struct{} { return e.of.Stops() }

func (e *Engine) Overlap() int { return e.of.Overlap() }

func (e *Engine) Hears() bool { return e.of.Hears() }

func (e *Engine) MoveWorker(ctx context.Context, worker rowkey.Worker, event machine.Event, note decide.Note) error {
	if err := e.workerKey(ctx, worker); err != nil {
		return err
	}
	return e.of.MoveWorker(ctx, worker, event, note)
}

func (e *Engine) Terminate(ctx context.Context, worker rowkey.Worker, note decide.Note) error {
	if err := e.workerKey(ctx, worker); err != nil {
		return err
	}
	return e.of.Terminate(ctx, worker, note)
}

func (e *Engine) Followed(ctx context.Context) (bool, error) { return e.of.Followed(ctx) }

func (e *Engine) WorkerEnd(ctx context.Context, worker rowkey.Worker) (link.WorkerEnd, error) {
	return when(e.workerKey(ctx, worker), func() (link.WorkerEnd, error) { return e.of.WorkerEnd(ctx, worker) })
}

// EndedJobs returns jobs of other workspaces as it does jobs that do not exist.
func (e *Engine) EndedJobs(ctx context.Context, jobs []pawl.ID) ([]pawl.ID, error) {
	var mine, over []pawl.ID
	for _, id := range jobs {
		switch err := e.job(ctx, id); {
		case err == nil:
			mine = append(mine, id)
		case pawl.KindOf(err) == pawl.NotFound:
			over = append(over, id)
		default:
			return nil, err
		}
	}
	ended, err := e.of.EndedJobs(ctx, mine)
	return append(over, ended...), err
}
