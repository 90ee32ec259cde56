package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// TestErrorsOfManyJobs: each error says which job it is about, and says it once.
func TestErrorsOfManyJobs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"an error that names nothing", errors.New("disk full"), "job a1b2: disk full"},
		{"an error that names no job", pawl.Errorf(pawl.NotFound, "workflow a1b2 has no step x"), "job a1b2: workflow a1b2 has no step x"},
		{"an error that names the job", &pawl.Error{Message: "job j_1 is not paused", Entity: "j_1"}, "job j_1 is not paused"},
		{"a cause that names the job", fmt.Errorf("pause: %w", &pawl.Error{Message: "job j_1 is not paused", Entity: "j_1"}), "pause: job j_1 is not paused"},
		{"a refusal", &machine.Refusal{Machine: "job", Entity: "j_1", State: "FAILED", Event: "pause", Final: true}, "job j_1: event pause is not allowed in state FAILED, which is final"},
		{"a refusal of something unnamed", &machine.Refusal{Machine: "job", State: "FAILED", Event: "pause", Final: true}, "job a1b2: job: event pause is not allowed in state FAILED, which is final"},
	} {
		if got := ofJob("a1b2", tt.err); got.Error() != tt.want || !errors.Is(got, tt.err) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
