package controller

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPlain: errors of gRPC are in words for people, and who dials where nobody listens reads what to do.
func TestPlain(t *testing.T) {
	t.Parallel()
	const refused = `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:7296: connect: connection refused"`
	for _, tt := range []struct {
		err                 error
		address, text, hint string
	}{
		{status.Error(codes.Unavailable, refused), "127.0.0.1:7296", "dial tcp 127.0.0.1:7296: connect: connection refused", "start one with: pawl agent --root DIR --listen 127.0.0.1:7296"},
		{status.Error(codes.Unavailable, refused), "host:7296", "dial tcp 127.0.0.1:7296: connect: connection refused", "is an agent running there, and does it listen on that address?"},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), "host:7296", "the agent has closed it, or has died", ""},
		{errors.New("other"), "host:7296", "other", ""},
	} {
		err := plain(tt.err)
		if hint := absent(tt.address, err); err.Error() != tt.text || hint != tt.hint {
			t.Errorf("%v: %v, %q", tt.err, err, hint)
		}
	}
}
