package access

import (
	"context"
	"io"

	"github.com/pawl-dev/pawl"
)

// trail returns an error unless the principal sees a job, or all workspaces for the zero id.
func (e *Engine) trail(ctx context.Context, job pawl.ID) error {
	if job == (pawl.ID{}) {
		return everywhere(ctx)
	}
	return e.job(ctx, job)
}

func (e *Engine) VerifyTrail(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	return when(e.trail(ctx, job), func() (*pawl.Verdict, error) { return e.of.VerifyTrail(ctx, job, each) })
}

func (e *Engine) ExportTrail(ctx context.Context, job pawl.ID, w io.Writer) error {
	if err := e.trail(ctx, job); err != nil {
		return err
	}
	return e.of.ExportTrail(ctx, job, w)
}

func (e *Engine) WriteCheckpoint(ctx context.Context, w io.Writer, folder string) (*pawl.Checkpoint, error) {
	return when(everywhere(ctx), func() (*pawl.Checkpoint, error) { return e.of.WriteCheckpoint(ctx, w, folder) })
}
