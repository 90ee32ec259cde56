package health

import "time"

const (
	// Silence is how long a worker may go without a beat, by default.
	Silence = 6 * time.Second

	// MinSilence is the shortest silence that may be configured.
	MinSilence = 2 * time.Second

	// MaxSilence is the longest that a remote worker may choose.
	MaxSilence = time.Hour
)

const (
	beatsInSilence = 3
	longestBeat    = 2 * time.Second
	longestApart   = 3 * time.Second
)

// Beat returns the interval between a worker's beats for a silence.
func Beat(silence time.Duration) time.Duration { return min(longestBeat, silence/beatsInSilence) }

// Attempt returns the timeout of one beat, or of one attempt to connect for it, such that
// one may time out and the next still succeed within the silence.
func Attempt(silence time.Duration) time.Duration { return silence / beatsInSilence }

// Apart returns the least time between the two queries of one observer that find a worker
// gone whose lock was lost with a connection.
func Apart(silence time.Duration) time.Duration { return min(longestApart, silence/2) }

const (
	// isolationMargin is what remains of the silence when a step that must not overlap
	// has been killed.
	isolationMargin = time.Second

	// leastGrace is the least time that such a step has between SIGTERM and SIGKILL, if
	// isolation is asked for when a worker starts.
	leastGrace = time.Second

	// IsolationSilence is the shortest silence that has room for isolation: for a beat
	// that fails before the next one succeeds, the grace, and the margin.
	IsolationSilence = beatsInSilence * (leastGrace + isolationMargin)
)

// Grace returns the time between SIGTERM and SIGKILL of a step that must not overlap,
// given the grace of other steps.
func Grace(silence, grace time.Duration) time.Duration {
	return max(min(grace, silence/beatsInSilence-isolationMargin), 0)
}

// Deadline returns when a worker without contact begins to stop steps that must not
// overlap, so that all are killed, after their grace, before the silence is over that
// observers measure from the last beat. sent is when that beat was sent, by the worker's
// clock: no later than the time that the database recorded.
func Deadline(sent time.Time, silence, grace time.Duration) time.Time {
	return sent.Add(silence - Grace(silence, grace) - isolationMargin)
}
