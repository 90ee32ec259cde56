package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/tracing"
	"github.com/pawl-dev/pawl/lifecycle"
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

// exportJobs exports a span of each job that the transaction has ended.
func (e *Engine) exportJobs(t *tx) {
	if e.cfg.Spans == nil {
		return
	}
	for i := range t.entries {
		entry := &t.entries[i]
		if entry.Kind == lifecycle.Job.Name && lifecycle.Job.Ended(entry.To) && !lifecycle.Job.Ended(entry.From) {
			key := entry.Job
			e.cfg.Spans.Export(func(ctx context.Context) *tracing.Span { return e.spanOfJob(ctx, key) })
		}
	}
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
