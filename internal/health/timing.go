package health

import "time"

const (
	// Silence is how long a worker may go without a beat, by default.
	Silence = 6 * time.Second

	// MinSilence is the shortest silence that can be asked for.
	MinSilence = 2 * time.Second

	// MaxLosses is how many deaths of its worker end a step for good (T7).
	MaxLosses = 3
)

const (
	beatsInSilence = 3
	longestBeat    = 2 * time.Second
	longestApart   = 3 * time.Second
)

// Beat returns how often a worker says that it lives, if it may be silent for so long.
func Beat(silence time.Duration) time.Duration { return min(longestBeat, silence/beatsInSilence) }

// Attempt returns how long one beat, or one attempt to connect for it, may take: of
// those that a silence has room for, one may fail slowly and the next one succeed.
func Attempt(silence time.Duration) time.Duration { return silence / beatsInSilence }

// Apart returns how far apart the two looks of one observer are at least that find a
// worker gone whose lock was lost with a connection.
func Apart(silence time.Duration) time.Duration { return min(longestApart, silence/2) }

const (
	// isolationMargin is what remains of the silence when a step that is not to overlap
	// has been killed.
	isolationMargin = time.Second

	// leastGrace is what such a step has between SIGTERM and SIGKILL at least, where
	// isolation is asked for when a worker starts.
	leastGrace = time.Second

	// IsolationSilence is the shortest silence that has room for isolation: for a beat
	// that fails before the next one is answered, the grace, and the margin.
	IsolationSilence = beatsInSilence * (leastGrace + isolationMargin)
)

// Grace returns what a step that is not to overlap has between SIGTERM and SIGKILL, of
// the grace that others have.
func Grace(silence, grace time.Duration) time.Duration {
	return max(min(grace, silence/beatsInSilence-isolationMargin), 0)
}

// Deadline returns when a worker that is cut off begins to stop what is not to overlap:
// so that all of it has been killed, after that grace, before the silence is over that
// others measure from the last beat. The time at which that beat was sent is the
// worker's own, so it is not later than the one that the database has noted.
func Deadline(sent time.Time, silence, grace time.Duration) time.Time {
	return sent.Add(silence - Grace(silence, grace) - isolationMargin)
}
