package client

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
)

// Audit is about what the database keeps: it verifies and copies the trails, withholds
// payload, and removes what ended long ago.
type Audit struct{ base }

// Redact withholds the payload of a job that has ended, or of one of its steps, for
// good (K6). It returns when all of it is removed, and calls each, if not nil, with its
// progress.
func (s *Audit) Redact(ctx context.Context, job pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error) {
	return s.engine.RedactJob(ctx, job, step, s.by(c), each)
}

// List calls f with the moves that the query selects, of a whole database or of one entity. It
// ends with the first error of f. Limit of the query is the size of the pages that it reads.
func (s *Audit) List(ctx context.Context, q pawl.AuditQuery, f func(*pawl.Move) error) error {
	return eachPage(f, func(after string) ([]pawl.Move, string, error) {
		q.After = cmp.Or(after, q.After)
		return s.engine.MovePage(ctx, q)
	})
}

// Verify checks the audit trail of a job and its steps, or, for the zero id, of everything
// in all workspaces, and calls each, if not nil, with the number of rows that it has
// checked so far (K6). A broken trail is a verdict and no error.
func (s *Audit) Verify(ctx context.Context, job pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	return s.engine.VerifyTrail(ctx, job, each)
}

// Export writes the audit trail of a job and its steps, or, for the zero id, of everything
// in all workspaces: one row as JSON on each line, as audit.VerifyLines reads them.
func (s *Audit) Export(ctx context.Context, job pawl.ID, w io.Writer) error {
	return s.engine.ExportTrail(ctx, job, w)
}

// Checkpoint writes the ends of all trails, to be kept elsewhere and compared later. A
// temporary file holds them meanwhile, in a folder; empty is that for temporary files.
func (s *Audit) Checkpoint(ctx context.Context, w io.Writer, folder string) (*pawl.Checkpoint, error) {
	return s.engine.WriteCheckpoint(ctx, w, folder)
}

// Prune removes what ended longer ago than the age, each job, worker and schedule with
// its whole trail, and calls each, if not nil, with its progress.
func (s *Audit) Prune(ctx context.Context, age time.Duration, c pawl.Change, each func(pawl.Pruning)) (pawl.Pruning, error) {
	if each == nil {
		each = func(pawl.Pruning) {}
	}
	return s.engine.Prune(ctx, age, s.by(c), each)
}

// Prospects returns what Prune would remove.
func (s *Audit) Prospects(ctx context.Context, age time.Duration) ([]pawl.Prospect, error) {
	return s.engine.Prospects(ctx, age)
}
