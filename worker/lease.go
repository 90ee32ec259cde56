package worker

import (
	"time"

	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/workflow"
)

// errCutOff is why a step ends that must not overlap: its worker cannot tell any more
// whether others have been given it. It is an interruption.
var errCutOff error = cutOffError{}

type cutOffError struct{}

func (cutOffError) Error() string {
	return "interrupted: the worker is cut off from the database, and the step must not overlap"
}

func (cutOffError) Unwrap() error { return ErrInterrupted }

// never is longer than any worker lives.
const never = 100 * 365 * 24 * time.Hour

// A lease is how long a worker may still run what must not overlap. Its times carry
// monotonic clock readings: a wall clock that is set changes nothing.
type lease struct {
	until time.Time   // zero: nothing was answered yet
	fuse  *time.Timer // goes off then
}

func (l *lease) over() bool { return !l.until.IsZero() && !time.Now().Before(l.until) }

// renew notes a beat of a worker, or its registration, that was sent at that time, and
// answered with its being alive.
func (w *Worker) renew(worker int64, sent time.Time) {
	until := health.Deadline(sent, w.config.Silence, w.config.Limits.withDefaults().Grace)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.self.Key() != worker {
		return // of a life that is over
	}
	w.lease.until = until
	w.lease.fuse.Reset(time.Until(until))
}

// cutOff ends what must not overlap, unless a beat was answered just now.
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
	return w.config.Isolation == workflow.IsolationStop ||
		a.Definition != nil && a.Definition.Node(a.Step.Ord.Node()).Isolation == workflow.IsolationStop
}
