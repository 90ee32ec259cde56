package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// PauseWorker keeps a running worker from claiming more until it is resumed; its running
// steps complete (J1, J9).
func (e *Engine) PauseWorker(ctx context.Context, id pawl.ID, c pawl.Change) error {
	return e.operateWorker(ctx, id, c, lifecycle.WorkerPause)
}

// ResumeWorker ends a pause.
func (e *Engine) ResumeWorker(ctx context.Context, id pawl.ID, c pawl.Change) error {
	err := e.operateWorker(ctx, id, c, lifecycle.WorkerResume)
	if err == nil {
		e.wake(true, false, false)
	}
	return err
}

func (e *Engine) operateWorker(ctx context.Context, id pawl.ID, c pawl.Change, event machine.Event) error {
	if err := checkChange(c); err != nil {
		return err
	}
	w, err := store.FindWorker(ctx, e.store, id)
	if err != nil {
		return err
	}
	r, err := e.newRequest(c, w.Workspace, "POST /api/supervisor/workers/{id}/{event}", id, event)
	if err != nil {
		return err
	}
	return e.committer.one(ctx, r.once(&moveWorker{key: id.WorkerKey(), event: event, note: noteOf(c)}, nil, nil))
}

// TerminateWorker ends a worker permanently: its steps are interrupted and immediately
// pending again for others, and its process stops. A reason is required.
func (e *Engine) TerminateWorker(ctx context.Context, id pawl.ID, c pawl.Change) error {
	if err := checkChange(c); err != nil {
		return err
	}
	if c.Reason == "" {
		return &pawl.Error{Kind: pawl.Invalid, Message: "reason: a worker is not terminated without one"}
	}
	w, err := store.FindWorker(ctx, e.store, id)
	if err != nil {
		return err
	}
	r, err := e.newRequest(c, w.Workspace, "POST /api/supervisor/workers/{id}/terminate", id)
	if err != nil {
		return err
	}
	if done, err := r.replay(ctx, nil); done || err != nil {
		return err
	}
	if _, err := lifecycle.Worker.Next(w.State, lifecycle.WorkerTerminate); err != nil {
		return e.MoveWorker(ctx, id.WorkerKey(), lifecycle.WorkerTerminate, noteOf(c)) // returns the refusal
	}
	end := &release{worker: id.WorkerKey(), note: noteOf(c), end: true, interrupt: true}
	return e.release(ctx, end, r.once(end, nil, nil))
}

// Workers lists workers, newest first.
func (e *Engine) Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	if q.Limit < 0 || q.Limit > maxList {
		return nil, pawl.Errorf(pawl.Invalid, "limit %d: want 1 to %d", q.Limit, maxList)
	}
	_, running, err := e.store.InFlight(ctx)
	if err != nil {
		return nil, err
	}
	views := []pawl.WorkerView{}
	for f := (store.WorkerFilter{Living: len(q.Statuses) == 0, Limit: maxList}); ; {
		page, err := e.store.Workers(ctx, f)
		if err != nil || len(page) == 0 {
			return views, err
		}
		for _, w := range page {
			if q.Workspace != "" && w.Workspace != q.Workspace || len(q.Statuses) > 0 && !slices.Contains(q.Statuses, w.State) {
				continue
			}
			if views = append(views, workerView(w, running[w.Key()])); len(views) == cmp.Or(q.Limit, defaultList) {
				return views, nil
			}
		}
		f.Before = page[len(page)-1].Key()
	}
}

// Worker returns a worker with its history.
func (e *Engine) Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error) {
	w, err := store.FindWorker(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	_, running, err := e.store.InFlight(ctx)
	if err != nil {
		return nil, err
	}
	v := workerView(w, running[w.Key()])
	var own lastMoves
	err = e.workerMoves(ctx, w.Key(), func(t pawl.Transition) error { own.add(t); return nil })
	v.StateHistory, v.HistoryOmitted = own.list, own.omitted
	return &v, err
}

// WorkerHistory calls f with every move of a worker, oldest first. It ends with the first
// error of f.
func (e *Engine) WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if _, err := store.FindWorker(ctx, e.store, id); err != nil {
		return err
	}
	return e.workerMoves(ctx, id.WorkerKey(), f)
}

func (e *Engine) workerMoves(ctx context.Context, key rowkey.Worker, f func(pawl.Transition) error) error {
	return e.moves(ctx, store.WorkerEntity(key), func(t pawl.Transition) error {
		t.Entity = ""
		return f(t)
	})
}

func workerView(w *pawl.Worker, running int) pawl.WorkerView {
	return pawl.WorkerView{
		ID: w.ID.Public(pawl.WorkerPrefix), Workspace: w.Workspace, Name: w.Name, Host: w.Host, PID: w.PID, Status: w.State,
		Capacity: w.Capacity, Running: running, Handlers: append([]string{}, w.Handlers...), Metadata: store.OrNull(w.Metadata),
		CreatedAt: pawl.Timestamp(w.CreatedAt), UpdatedAt: pawl.Timestamp(w.UpdatedAt),
	}
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
	if err := e.workerMoves(ctx, key, func(t pawl.Transition) error { last = t; return nil }); err != nil || last.Sequence == 0 {
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
