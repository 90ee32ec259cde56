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
