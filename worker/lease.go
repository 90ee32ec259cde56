package worker

import (
	"time"

	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/workflow"
)

// errCutOff ends a step that must not overlap when its worker no longer knows whether
// another worker has it. It is an interruption.
var errCutOff error = cutOffError{}

type cutOffError struct{}

func (cutOffError) Error() string {
	return "interrupted: the worker is cut off from the database, and the step must not overlap"
}

func (cutOffError) Unwrap() error { return ErrInterrupted }

// never is longer than any worker lives.
const never = 100 * 365 * 24 * time.Hour

// A lease is how long a worker may still run what must not overlap. Its times have
// monotonic clock readings, so setting the wall clock does not affect it.
type lease struct {
	until time.Time   // zero: there was no reply yet
	fuse  *time.Timer // fires then
}

func (l *lease) over() bool { return !l.until.IsZero() && !time.Now().Before(l.until) }

// renew extends the lease for a beat of a worker, or its registration, that was sent at
// that time and whose reply says that the worker lives.
func (w *Worker) renew(worker rowkey.Worker, sent time.Time) {
	until := health.Deadline(sent, w.config.Silence, w.config.Limits.withDefaults().Grace)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.self.Key() != worker {
		return // of an earlier record
	}
	w.lease.until = until
	w.lease.fuse.Reset(time.Until(until))
}

// cutOff ends what must not overlap, unless a beat has just got a reply.
func (w *Worker) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lease.over() {
		return
	}
	for k, o := range w.running {
		if o.isolated {
			w.log.Warn("a step ends, since this worker is cut off from the database and the step must not overlap", "step", k.StepKey.String())
			o.cancel(errCutOff)
		}
	}
}

// isolated reports whether a step must not overlap with another claim of it.
func (w *Worker) isolated(a *link.Assignment) bool {
	return w.config.Isolation == workflow.IsolationStop || a.Isolation == workflow.IsolationStop
}
