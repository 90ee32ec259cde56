package engine

import (
	"context"
	"io"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

// VerifyTrail checks the trails of a job and its steps, or, for the zero id, all trails (K6).
func (e *Engine) VerifyTrail(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	key, err := e.trailOf(ctx, job)
	if err != nil {
		return nil, err
	}
	return trail.Verify(ctx, e.store, key, each)
}

// ExportTrail writes the rows of these trails as JSON lines.
func (e *Engine) ExportTrail(ctx context.Context, job pawl.ID, w io.Writer) error {
	key, err := e.trailOf(ctx, job)
	if err != nil {
		return err
	}
	return e.store.Trails(ctx, key, func(t store.TrailOf) error { return audit.WriteLines(w, t.Entries) })
}

// WriteCheckpoint writes the ends of all trails.
func (e *Engine) WriteCheckpoint(ctx context.Context, w io.Writer, folder string) (*pawl.Checkpoint, error) {
	return trail.WriteCheckpoint(ctx, e.store, e.cfg.Clock(), w, folder)
}

// trailOf returns the key of a job that exists, or 0 for the zero id.
func (e *Engine) trailOf(ctx context.Context, job pawl.ID) (rowkey.Job, error) {
	if job == (pawl.ID{}) {
		return 0, nil
	}
	j, err := store.FindJob(ctx, e.store, job)
	if err != nil {
		return 0, err
	}
	return j.Key(), nil
}
