// Package tracing makes spans of jobs and attempts, and exports them by OTLP.
//
// No span is open while something runs: a job may last for weeks, and whoever ends it is another
// process than the one that began it. A span is made at the end, of stored times, by the process
// that commits the end of a job or of a wait, or that ran an attempt. Ids follow from what is
// stored, so that a span can name its parent before that exists: the trace of a job is the one that
// it was submitted with, or else has the 128 bits of the job's id; its span is a hash of its id, and
// that of an attempt a hash of the id of the step and the number of the claim.
//
// The exporter is a few lines of JSON over HTTP. The one of OpenTelemetry for Go would add 14 MB
// to a binary of 30, most of it gRPC, and its spans are made to be open.
package tracing
