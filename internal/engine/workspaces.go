package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

// JobWorkspace returns the id and the workspace of a job. The error is of kind NotFound if
// there is none.
func (e *Engine) JobWorkspace(ctx context.Context, key rowkey.Job) (pawl.ID, string, error) {
	j, err := e.store.Job(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return pawl.ID{}, "", pawl.Errorf(pawl.NotFound, "there is no job with key %d", key)
	case err != nil:
		return pawl.ID{}, "", err
	}
	return j.ID, j.Workspace, nil
}

// WorkerWorkspace returns the workspace of a worker. The error is of kind NotFound if there is
// none.
func (e *Engine) WorkerWorkspace(ctx context.Context, key rowkey.Worker) (string, error) {
	w, err := e.store.Worker(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", pawl.Errorf(pawl.NotFound, "there is no worker with key %d", key)
	case err != nil:
		return "", err
	}
	return w.Workspace, nil
}

// WorkerOwner returns who has registered a worker that exists.
func (e *Engine) WorkerOwner(ctx context.Context, key rowkey.Worker) (actor string, err error) {
	first := errors.New("it is the first entry")
	err = trail.EachEntry(ctx, e.store, store.WorkerEntity(key), func(entry *audit.Entry) error {
		actor = entry.Actor
		return first
	})
	if errors.Is(err, first) {
		err = nil
	}
	return actor, err
}
