package worker

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/decide"
)

// Snooze returns an error with which a function asks for its step to be tried again
// after d, although nothing has failed: for example because what it needs does not
// exist yet. The attempt does not count against the retries of the step, and holds no
// slot while it waits. The step's timeout applies to each attempt; only the timeout of
// its job limits how often it snoozes. A d outside of 1ms to 366 days is a permanent
// failure of class invalid_snooze.
func Snooze(d time.Duration) error { return &snoozeError{d} }

type snoozeError struct{ after time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %s", e.after) }

// snoozed returns a result that snoozes, or fails because it is out of range.
func snoozed(after time.Duration) Result {
	if after < decide.MinSnooze || after > decide.MaxSnooze {
		return Result{Failure: permanent("invalid_snooze", "Snooze: %s: want %s to %s", after, decide.MinSnooze, decide.MaxSnooze)}
	}
	return Result{Snooze: after}
}
