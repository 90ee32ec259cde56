package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

// Limits of the texts in a failure, in bytes.
const (
	maxMessage = 1 << 10
	maxExcerpt = 4 << 10 // of stderr, of a response's body
	maxStack   = 8 << 10
)

func retryable(class, format string, args ...any) *pawl.Failure {
	return &pawl.Failure{Class: class, Message: fmt.Sprintf(format, args...)}
}

func permanent(class, format string, args ...any) *pawl.Failure {
	f := retryable(class, format, args...)
	f.Permanent = true
	return f
}

// stopped returns the failure for the end of ctx.
func stopped(ctx context.Context) *pawl.Failure {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrTimeout):
		return retryable("timeout", "%v", cause)
	case errors.Is(cause, context.DeadlineExceeded):
		return retryable("timeout", "%v", ErrTimeout)
	case errors.Is(cause, ErrInterrupted):
		return retryable("interrupted", "%v", cause)
	case errors.Is(cause, context.Canceled):
		return retryable("canceled", "%v", ErrCanceled)
	default:
		return retryable("canceled", "%v", cause)
	}
}

// bounded truncates s to at most limit bytes, and replaces what is not UTF-8 by "?".
func bounded(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit-len("...")] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

// metadata encodes the data of a failure, which JSON can always represent.
func metadata(fields map[string]any) json.RawMessage {
	b, err := marshal(fields)
	if err != nil {
		return nil
	}
	return b
}
