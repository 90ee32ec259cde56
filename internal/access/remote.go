package access

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// The engine as workers of other machines use it.

func (e *Engine) Enlist(ctx context.Context, r link.Registration, c pawl.Change) (pawl.Receipt, error) {
	return when(in(ctx, r.Worker.Workspace), func() (pawl.Receipt, error) { return e.of.Enlist(ctx, r, c) })
}

func (e *Engine) Visit(ctx context.Context, v link.Visit) (*link.Visited, error) {
	if err := e.mine(ctx, v.Worker); err != nil {
		return nil, err
	}
	return when(e.reported(ctx, v.Reports), func() (*link.Visited, error) { return e.of.Visit(ctx, v) })
}

func (e *Engine) ReportSteps(ctx context.Context, reports []link.Report) ([]link.Reported, error) {
	return when(e.reported(ctx, reports), func() ([]link.Reported, error) { return e.of.ReportSteps(ctx, reports) })
}

// reported returns an error unless the principal sees the steps of all reports, and may act
// for the worker of each.
func (e *Engine) reported(ctx context.Context, reports []link.Report) error {
	jobs := make([]rowkey.Job, len(reports))
	for i := range reports {
		jobs[i] = reports[i].Step.Job
		if i > 0 && reports[i].By == reports[i-1].By {
			continue
		}
		id, err := pawl.ParseID(pawl.WorkerPrefix, reports[i].Actor)
		if err == nil {
			err = e.mine(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return e.jobKeys(ctx, jobs...)
}

func (e *Engine) BeatFor(ctx context.Context, worker pawl.ID, claims []link.Stop) (*link.Pulsed, time.Duration, error) {
	if err := e.mine(ctx, worker); err != nil {
		return nil, 0, err
	}
	return e.of.BeatFor(ctx, worker, claims)
}

func (e *Engine) StepID(ctx context.Context, key pawl.StepKey) (pawl.ID, error) {
	return when(e.jobKeys(ctx, key.Job), func() (pawl.ID, error) { return e.of.StepID(ctx, key) })
}

func (e *Engine) ActWorker(ctx context.Context, worker pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	return when(e.mine(ctx, worker), func() (pawl.Receipt, error) { return e.of.ActWorker(ctx, worker, event, c) })
}

func (e *Engine) LogEnd(ctx context.Context, step pawl.StepKey, claim int, stream string) (int64, error) {
	return when(e.jobKeys(ctx, step.Job), func() (int64, error) { return e.of.LogEnd(ctx, step, claim, stream) })
}

// EndOf returns who has ended a worker that the principal may act for.
func (e *Engine) EndOf(ctx context.Context, worker pawl.ID) (none link.WorkerEnd, _ error) {
	if err := e.mine(ctx, worker); err != nil {
		return none, err
	}
	if _, err := e.of.Worker(ctx, worker); err != nil { // it has to exist
		return none, err
	}
	return e.of.WorkerEnd(ctx, worker.WorkerKey())
}
