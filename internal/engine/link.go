package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var (
	_ link.Worker = (*Engine)(nil)
	_ link.Slots  = (*Slots)(nil)
)

// Link returns the engine as the workers of its process see it.
func (e *Engine) Link() link.Worker { return e }

// Register makes a worker. It holds "worker/KEY" (store.Ledger.Hold) from before the
// registration until release, which the caller calls when the worker has ended, or until
// the process dies. The error is link.ErrUnknown if the worker may have been registered.
func (e *Engine) Register(ctx context.Context, r link.Registration) (w *pawl.Worker, release func(), err error) {
	r.Worker.ID = e.NewID()
	note, err := json.Marshal(map[string]any{"pid": r.Worker.PID, "host": r.Worker.Host})
	if err != nil {
		return nil, nil, err
	}
	release, err = e.store.Hold(ctx, fmt.Sprintf("worker/%d", r.Worker.Key()), note)
	if err != nil {
		return nil, nil, err
	}
	w, err = e.enroll(ctx, &r)
	if errors.Is(err, store.ErrUnknown) {
		err = fmt.Errorf("%w: %w", link.ErrUnknown, err)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return w, release, nil
}

// enroll makes the record of a worker. If its predecessor lived but was considered dead,
// the steps taken from it have not lost a worker: enroll takes the losses counted for that
// back (T7). A step that has ended meanwhile stays as it is.
func (e *Engine) enroll(ctx context.Context, r *link.Registration) (*pawl.Worker, error) {
	cmd := &register{worker: r.Worker, note: decide.Note{Actor: r.Actor}}
	if r.Before != nil {
		if err := e.succeed(ctx, cmd, r.Before); err != nil {
			return nil, err
		}
	}
	if err := e.committer.one(ctx, cmd); err != nil {
		return nil, err
	}
	e.wake(0, true, false) // pending jobs may have waited for it
	e.evaluator.look()
	return cmd.made, nil
}

// Beat records that a process and its worker live; see store.Ledger. If the pulse names no
// process, it is that of the engine.
func (e *Engine) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	if p.Node.ID == 0 {
		p.Node = e.cfg.Node
	}
	said, err := e.store.Beat(ctx, p)
	if err == nil {
		e.offers.placed(p.Worker, said.Place, said.Peers)
	}
	return said, err
}

// AppendLogs stores the output that steps have printed; see store.Logs.
func (e *Engine) AppendLogs(ctx context.Context, chunks []pawl.Chunk) error {
	return e.store.AppendLogs(ctx, chunks)
}

// EndedJobs returns those of the jobs that will not run again: they have ended, or no
// longer exist. A job that cannot be read may run again.
func (e *Engine) EndedJobs(ctx context.Context, jobs []pawl.ID) (over []pawl.ID, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	keys := make([]rowkey.Job, len(jobs))
	for i, id := range jobs {
		keys[i] = id.JobKey()
	}
	listed, err := e.store.Jobs(ctx, store.JobFilter{Keys: keys, Bare: true})
	if err != nil {
		return nil, err
	}
	ended := make(map[rowkey.Job]bool, len(listed))
	for _, j := range listed {
		ended[j.Key()] = lifecycle.Job.Ended(j.State)
	}
	for _, id := range jobs {
		isOver, known := ended[id.JobKey()]
		if !known { // lists omit jobs that cannot be read
			_, err := e.store.Job(ctx, id.JobKey())
			if isOver = errors.Is(err, store.ErrNotFound); !isOver && pawl.KindOf(err) == pawl.Unavailable {
				return over, err
			}
		}
		if isOver {
			over = append(over, id)
		}
	}
	return over, nil
}
