package client

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

// Audit is about what the database keeps: it withholds payload, and removes what ended
// long ago.
type Audit struct{ base }

// Redact withholds the payload of a job that has ended, or of one of its steps, for
// good (K6). It returns when all of it is removed, and calls each, if not nil, with its
// progress.
func (s *Audit) Redact(ctx context.Context, job pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error) {
	return s.engine.RedactJob(ctx, job, step, s.by(c), each)
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
