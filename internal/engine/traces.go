package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// traceOf returns the traceparent that a job was submitted with, or "".
func traceOf(metadata json.RawMessage) string {
	if !bytes.Contains(metadata, []byte(`"trace":`)) {
		return ""
	}
	o, err := originOf(metadata)
	if err != nil {
		return "" // the job is in a trace of its own
	}
	return o.Trace
}

// traceOfAttempt returns the traceparent for what a step starts: the attempt itself if spans are
// exported, and else the one that the job was submitted with.
func (e *Engine) traceOfAttempt(job *jobFacts, step *link.Claimed) string {
	submitted := traceOf(job.meta)
	if e.cfg.Spans == nil {
		return submitted
	}
	span, _ := tracing.OfJob(job.id, submitted)
	return tracing.OfAttempt(span, job.id.Step(step.Ord), step.Claims).String()
}

// traceOfChild returns the traceparent that a child job is made with.
func (e *Engine) traceOfChild(parent pawl.ID, submitted string) string {
	if e.cfg.Spans == nil {
		return submitted
	}
	span, _ := tracing.OfJob(parent, submitted)
	return span.String()
}

// exportSpans exports a span of each job that the transaction has ended, and of each wait of a step.
func (e *Engine) exportSpans(t *tx) {
	if e.cfg.Spans == nil {
		return
	}
	for i := range t.entries {
		switch entry := &t.entries[i]; {
		case entry.Kind == lifecycle.Job.Name && lifecycle.Job.Ended(entry.To) && !lifecycle.Job.Ended(entry.From):
			key := entry.Job
			e.cfg.Spans.Export(func(ctx context.Context) *tracing.Span { return e.spanOfJob(ctx, key) })
		case entry.Kind == lifecycle.Step.Name && entry.From == lifecycle.StepInProgress && entry.To != lifecycle.StepInProgress && entry.Reason != decide.Reused:
			if h := t.steps[entry.StepKey]; h != nil && h.record.Worker == 0 { // the engine owned it
				s := h.record
				w := waited{key: s.StepKey, claim: s.Claims, attempt: s.Attempts, began: s.StartedAt, ended: entry.At, status: entry.To}
				if entry.To == lifecycle.StepPermanentError && s.Error != nil {
					w.class = s.Error.Class // the message may have payload
				}
				e.cfg.Spans.Export(func(ctx context.Context) *tracing.Span { return e.spanOfWait(ctx, &w) })
			}
		}
	}
}

// A waited step was in progress without a worker.
type waited struct {
	key            pawl.StepKey
	claim, attempt int
	began, ended   int64
	status         machine.State
	class          string // of its failure, or empty
}

// spanOfWait returns the span of an approval, a sleep or an event, or nil: a step that ran a child
// job has none, since that has its own, nor has a fan-out.
func (e *Engine) spanOfWait(ctx context.Context, w *waited) *tracing.Span {
	j, err := e.store.Job(ctx, w.key.Job)
	if err != nil {
		e.log.Debug("a wait has no span", "job", w.key.Job, "error", err)
		return nil
	}
	job, _ := tracing.OfJob(j.ID, traceOf(j.Metadata))
	def, err := e.defs.Get(ctx, j.Definition)
	if err != nil || !job.Sampled {
		return nil
	}
	n := def.Node(w.key.Ord.Node())
	if !n.Kind.Waits() || n.Kind == workflow.KindWorkflow || n.Fans() && w.key.Ord.Instance() == 0 {
		return nil
	}
	id, step, key := j.ID.Public(pawl.JobPrefix), j.ID.Step(w.key.Ord), def.Key(w.key.Ord)
	s := &tracing.Span{Context: tracing.OfAttempt(job, step, w.claim), Parent: job.Span, Name: "step " + j.Workflow + "." + key, Kind: tracing.Internal,
		Begin: time.UnixMicro(w.began), End: time.UnixMicro(w.ended), Error: w.class,
		Attributes: map[string]any{"pawl.job.id": id, "pawl.step.id": step.Public(pawl.StepPrefix), "pawl.step.key": key, "pawl.step.attempt": w.attempt, "pawl.step.claim": w.claim,
			"pawl.step.status": string(w.status), "pawl.wait.kind": string(n.Kind),
			"cicd.pipeline.name": j.Workflow, "cicd.pipeline.run.id": id, "cicd.pipeline.task.name": key, "cicd.pipeline.task.run.id": step.Public(pawl.StepPrefix)}}
	if n.Kind == workflow.KindEvent {
		s.Attributes["pawl.wait.event"] = n.Event
	}
	return s
}

// spanOfJob returns the span of a job that has ended, or nil if it is in no trace that is kept.
func (e *Engine) spanOfJob(ctx context.Context, key rowkey.Job) *tracing.Span {
	j, err := e.store.Job(ctx, key)
	if err != nil {
		e.log.Debug("a job has no span", "job", key, "error", err)
		return nil
	}
	span, parent := tracing.OfJob(j.ID, traceOf(j.Metadata))
	if !span.Sampled {
		return nil
	}
	id := j.ID.Public(pawl.JobPrefix)
	s := &tracing.Span{Context: span, Parent: parent.Span, Name: "job " + j.Workflow, Kind: tracing.Consumer,
		Begin: time.UnixMicro(j.CreatedAt), End: time.UnixMicro(j.CompletedAt),
		Attributes: map[string]any{"pawl.job.id": id, "pawl.workspace": j.Workspace, "pawl.job.status": string(j.State),
			"cicd.pipeline.name": j.Workflow, "cicd.pipeline.run.id": id, "cicd.pipeline.result": resultOf(j)}}
	if j.StartedAt > 0 {
		s.Attributes["pawl.job.pending_ms"] = int((j.StartedAt - j.CreatedAt) / 1000)
	}
	if j.State == lifecycle.JobFailed {
		s.Error = "failed"
		if j.Error != nil {
			s.Error = j.Error.Class // the message may have payload
		}
	}
	return s
}

// resultOf returns how a job ended, in the words of OpenTelemetry.
func resultOf(j *pawl.Job) string {
	switch j.State {
	case lifecycle.JobCompleted:
		return "success"
	case lifecycle.JobCanceled:
		return "cancellation"
	}
	return "failure"
}
