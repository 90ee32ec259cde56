package daemon

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/worker"
)

// Traced returns the middleware that exports a span of each attempt. An attempt that is in no
// trace, or in one that is not kept, has none.
func Traced(spans *tracing.Exporter) func(worker.Handler) worker.Handler {
	return func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, t *worker.Task) worker.Result {
			began := time.Now()
			r := next(ctx, t)
			if s := spanOf(t, &r, began, time.Now()); s != nil {
				spans.Export(func(context.Context) *tracing.Span { return s })
			}
			return r
		}
	}
}

// spanOf returns the span of an attempt, or nil.
func spanOf(t *worker.Task, r *worker.Result, began, ended time.Time) *tracing.Span {
	at, ok := tracing.Parse(t.Traceparent)
	step, err := pawl.ParseID(pawl.StepPrefix, t.StepID)
	if !ok || !at.Sampled || err != nil || tracing.OfAttempt(at, step, t.Claim) != at { // the engine exports none
		return nil
	}
	job, err := pawl.ParseID(pawl.JobPrefix, t.JobID)
	if err != nil {
		return nil
	}
	parent, _ := tracing.OfJob(job, "")
	s := &tracing.Span{Context: at, Parent: parent.Span, Name: "step " + t.Workflow + "." + t.Key, Kind: tracing.Internal, Begin: began, End: ended,
		Attributes: map[string]any{"pawl.job.id": t.JobID, "pawl.step.id": t.StepID, "pawl.step.key": t.Key, "pawl.step.attempt": t.Attempt, "pawl.step.claim": t.Claim,
			"cicd.pipeline.name": t.Workflow, "cicd.pipeline.run.id": t.JobID, "cicd.pipeline.task.name": t.Key, "cicd.pipeline.task.run.id": t.StepID}}
	if r.Failure != nil {
		s.Error = r.Failure.Class // the message may have payload
		if s.Error == "" {
			s.Error = "failed"
		}
	}
	return s
}
