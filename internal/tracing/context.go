package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/pawl-dev/pawl"
)

// A SpanID is the id of a span.
type SpanID [8]byte

// A Context is a place in a trace.
type Context struct {
	Trace   [16]byte
	Span    SpanID
	Sampled bool
}

// Parse reads a traceparent, as W3C Trace Context has it. An invalid one is no error there, but
// ignored.
func Parse(traceparent string) (c Context, ok bool) {
	if traceparent == "" {
		return c, false
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 || len(parts[3]) != 2 || strings.ToLower(traceparent) != traceparent {
		return c, false
	}
	var version, flags [1]byte
	for _, p := range []struct {
		to   []byte
		text string
	}{{version[:], parts[0]}, {c.Trace[:], parts[1]}, {c.Span[:], parts[2]}, {flags[:], parts[3]}} {
		if len(p.text) != hex.EncodedLen(len(p.to)) {
			return Context{}, false
		}
		if _, err := hex.Decode(p.to, []byte(p.text)); err != nil {
			return Context{}, false
		}
	}
	c.Sampled = flags[0]&1 != 0
	return c, c.Trace != [16]byte{} && c.Span != SpanID{}
}

// String returns the traceparent.
func (c Context) String() string {
	flags := "00"
	if c.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(c.Span[:]) + "-" + flags
}

// OfJob returns the place of the span of a job, and that of its parent, given the traceparent
// that it was submitted with.
func OfJob(id pawl.ID, submitted string) (span, parent Context) {
	parent, ok := Parse(submitted)
	span = Context{Trace: parent.Trace, Span: spanOf("job", id, 0), Sampled: parent.Sampled}
	if !ok {
		span.Trace, span.Sampled = id, true
	}
	return span, parent
}

// OfAttempt returns the place of the span of an attempt of a step of a job, whose place is
// given.
func OfAttempt(job Context, step pawl.ID, claim int) Context {
	job.Span = spanOf("step", step, claim)
	return job
}

// spanOf returns the id of a span.
func spanOf(kind string, id pawl.ID, claim int) (s SpanID) {
	b := binary.BigEndian.AppendUint64(append([]byte(kind), id[:]...), uint64(claim))
	sum := sha256.Sum256(b)
	copy(s[:], sum[:])
	return s
}
