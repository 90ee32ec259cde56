package explain

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Workers lists workers, newest first.
func (r *Reader) Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	if q.Limit < 0 || q.Limit > maxList {
		return nil, pawl.Errorf(pawl.Invalid, "limit %d: want 1 to %d", q.Limit, maxList)
	}
	_, running, err := r.store.InFlight(ctx)
	if err != nil {
		return nil, err
	}
	views := []pawl.WorkerView{}
	for f := (store.WorkerFilter{Living: len(q.Statuses) == 0, Limit: maxList}); ; {
		page, err := r.store.Workers(ctx, f)
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
func (r *Reader) Worker(ctx context.Context, id pawl.ID) (*pawl.WorkerView, error) {
	w, err := store.FindWorker(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	_, running, err := r.store.InFlight(ctx)
	if err != nil {
		return nil, err
	}
	v := workerView(w, running[w.Key()])
	var own lastMoves
	err = r.workerMoves(ctx, w.Key(), func(t pawl.Transition) error { own.add(t); return nil })
	v.StateHistory, v.HistoryOmitted = own.list, own.omitted
	return &v, err
}

// WorkerHistory calls f with every move of a worker, oldest first. It ends with the first
// error of f.
func (r *Reader) WorkerHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if _, err := store.FindWorker(ctx, r.store, id); err != nil {
		return err
	}
	return r.workerMoves(ctx, id.WorkerKey(), f)
}

func (r *Reader) workerMoves(ctx context.Context, key rowkey.Worker, f func(pawl.Transition) error) error {
	return r.moves(ctx, store.WorkerEntity(key), func(t pawl.Transition) error {
		t.Entity = ""
		return f(t)
	})
}

func workerView(w *pawl.Worker, running int) pawl.WorkerView {
	return pawl.WorkerView{
		ID: w.ID.Public(pawl.WorkerPrefix), Workspace: w.Workspace, Name: w.Name, Host: w.Host, PID: w.PID, Status: w.State,
		Capacity: w.Capacity, Running: running, Handlers: append([]string{}, w.Handlers...), Metadata: decide.OrNull(w.Metadata),
		CreatedAt: pawl.Timestamp(w.CreatedAt), UpdatedAt: pawl.Timestamp(w.UpdatedAt),
	}
}
