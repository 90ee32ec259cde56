package engine

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// PauseWorker keeps a running worker from claiming more until it is resumed; its running
// steps complete (J1, J9).
func (e *Engine) PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.operateWorker(ctx, id, c, lifecycle.WorkerPause)
}

// ResumeWorker ends a pause.
func (e *Engine) ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	done, err := e.operateWorker(ctx, id, c, lifecycle.WorkerResume)
	if err == nil {
		e.wake(manySteps, false, false)
	}
	return done, err
}

func (e *Engine) operateWorker(ctx context.Context, id pawl.ID, c pawl.Change, event machine.Event) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	w, err := store.FindWorker(ctx, e.store, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, w.Workspace, "POST /api/supervisor/workers/{id}/{event}", id, event)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, &moveWorker{key: id.WorkerKey(), event: event, note: noteOf(c)}, c)
}

// TerminateWorker ends a worker permanently: its steps are interrupted and immediately
// pending again for others, and its process stops. A reason is required.
func (e *Engine) TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if c.Reason == "" {
		return pawl.Receipt{}, &pawl.Error{Kind: pawl.Invalid, Message: "reason: a worker is not terminated without one"}
	}
	w, err := store.FindWorker(ctx, e.store, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, w.Workspace, "POST /api/supervisor/workers/{id}/terminate", id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if known, done, err := r.earlier(ctx); done || err != nil {
		return known, err
	}
	end := &release{worker: id.WorkerKey(), note: noteOf(c), end: true, strict: true, interrupt: true}
	var done pawl.Receipt
	err = e.release(ctx, end, func() (err error) {
		done, err = e.act(ctx, r, end, c)
		return err
	})
	return done, err
}

// WorkerEnd returns who ended a worker, and why.
func (e *Engine) WorkerEnd(ctx context.Context, key rowkey.Worker) (link.WorkerEnd, error) {
	end, _, err := e.workerEnd(ctx, key)
	return end, err
}

// workerEnd is WorkerEnd, and reports whether the worker's steps have lost nothing by it.
func (e *Engine) workerEnd(ctx context.Context, key rowkey.Worker) (end link.WorkerEnd, spared bool, err error) {
	w, err := e.store.Worker(ctx, key)
	if err != nil {
		return end, false, err
	}
	last := pawl.Transition{}
	err = trail.EachEntry(ctx, e.store, store.WorkerEntity(key), func(entry *audit.Entry) error { last = pawl.TransitionOf(entry); return nil })
	if err != nil || last.Sequence == 0 {
		return end, false, err
	}
	end = link.WorkerEnd{Actor: last.Actor, Reason: last.Reason}
	var told endMetadata
	spared = json.Unmarshal(last.Metadata, &told) == nil && told.Spared
	end.Operator = last.To == lifecycle.WorkerTerminated && last.Actor != actorEngine && last.Actor != w.ID.Public(pawl.WorkerPrefix)
	return end, spared, nil
}

// Hears reports whether hints of other processes reach this engine at this moment. If not,
// a worker has to poll for work.
func (e *Engine) Hears() bool { return e.store.Hears() }

// interrupted returns the report for a step whose worker was terminated: the step is
// pending again, and has lost no attempt (T1).
func interrupted(w *pawl.Worker, note decide.Note) decide.Report {
	f := &pawl.Failure{Class: "interrupted", Message: "its worker " + w.ID.Public(pawl.WorkerPrefix) + " was terminated: " + note.Reason}
	return decide.Report{Event: lifecycle.StepInterrupt, Failure: f, Note: decide.Note{Actor: note.Actor, Reason: f.Message}}
}
