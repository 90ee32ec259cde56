package explain

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Workers lists workers, newest first.
func (r *Reader) Workers(ctx context.Context, q pawl.WorkerQuery) ([]pawl.WorkerView, error) {
	most, err := limit(q.Limit)
	if err != nil {
		return nil, err
	}
	all := []pawl.WorkerView{}
	for {
		q.Limit = most - len(all)
		page, next, err := r.WorkerPage(ctx, q)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" || len(all) == most {
			return all, nil
		}
		q.Before = next
	}
}

// WorkerPage lists workers, newest first. It looks at no more than maxRows of them, and ends
// with the one that brings the metadata to maxListBytes, so that a page may be short, or
// empty, though there are more. next is the Before of the next page, empty after the last
// one.
func (r *Reader) WorkerPage(ctx context.Context, q pawl.WorkerQuery) (workers []pawl.WorkerView, next string, err error) {
	most, err := limit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	f := store.WorkerFilter{Living: !slices.ContainsFunc(q.Statuses, lifecycle.Worker.Ended), Limit: maxList}
	if q.Before != "" {
		id, err := pawl.ParseID(pawl.WorkerPrefix, q.Before)
		if err != nil {
			return nil, "", err
		}
		f.Before = id.WorkerKey()
	}
	_, running, err := r.store.InFlight(ctx)
	if err != nil {
		return nil, "", err
	}
	workers = []pawl.WorkerView{}
	for looked, size := 0, 0; ; {
		page, err := r.store.Workers(ctx, f)
		if err != nil {
			return nil, "", err
		}
		if len(page) == 0 {
			return workers, "", nil
		}
		for _, w := range page {
			if wanted(q, w) {
				if len(workers) == most || size >= maxListBytes {
					return workers, workers[len(workers)-1].ID, nil
				}
				workers = append(workers, workerView(w, running[w.Key()]))
				size += len(w.Metadata)
			}
			if looked++; looked == maxRows {
				return workers, w.ID.Public(pawl.WorkerPrefix), nil
			}
		}
		f.Before = page[len(page)-1].Key()
	}
}

func wanted(q pawl.WorkerQuery, w *pawl.Worker) bool {
	return (q.Workspace == "" || q.Workspace == w.Workspace) && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, w.State))
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
