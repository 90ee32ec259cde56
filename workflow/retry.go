package workflow

import (
	"math"
	"time"
)

// Backoff is how the delay grows from attempt to attempt.
type Backoff string

// The backoffs.
const (
	Exponential Backoff = "exponential" // base, twice, four times, ...
	Linear      Backoff = "linear"      // base, twice, three times, ...
	Constant    Backoff = "constant"    // base
)

// Jitter is how the delay is spread.
type Jitter string

// The jitters.
const (
	FullJitter Jitter = "full" // anywhere from 0 to the delay
	NoJitter   Jitter = "none"
)

// Retry says how often and when a step is tried again (T6).
type Retry struct {
	MaxAttempts        int           // the first one included
	Backoff            Backoff       // how the delay grows
	Base               time.Duration // the delay before the second attempt
	Cap                time.Duration // the longest delay
	Jitter             Jitter
	PermanentExitCodes []int // exit codes after which there is no further attempt, ascending
}

// Delay returns how long to wait after attempt, counted from 1, has failed. The jitter,
// in [0, 1), is used where the policy has one. The result is never negative and never
// above Cap.
func (r Retry) Delay(attempt int, jitter float64) time.Duration {
	d := min(r.grown(max(attempt, 1)), r.Cap)
	if r.Jitter == NoJitter {
		return d
	}
	return min(times(d, max(jitter, 0)), d)
}

// grown returns the delay before cap and jitter. Instead of overflowing it is the
// longest Duration.
func (r Retry) grown(attempt int) time.Duration {
	switch r.Backoff {
	case Exponential:
		return times(r.Base, math.Exp2(float64(attempt-1)))
	case Linear:
		return times(r.Base, float64(attempt))
	default:
		return r.Base
	}
}

func times(d time.Duration, factor float64) time.Duration {
	if d <= 0 {
		return 0 // and not nothing times infinity
	}
	product := float64(d) * factor
	if product >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(product)
}

// Permanent reports whether an exit code ends the attempts.
func (r Retry) Permanent(exit int) bool {
	for _, code := range r.PermanentExitCodes {
		if code == exit {
			return true
		}
	}
	return false
}
