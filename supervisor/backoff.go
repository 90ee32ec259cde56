package supervisor

import (
	"math"
	"time"
)

// A Backoff is how long to wait after failures: Base, twice that, four times, and
// at most Max. The delay is spread over its upper half unless Exact is set.
type Backoff struct {
	Base  time.Duration // 0: 1 s
	Max   time.Duration // 0: 60 s
	Exact bool
}

// Delay answers the delay after the given failure, counted from 1. The random
// number is in [0, 1). The delay is never above Max, nor below half of it that
// there would be without jitter.
func (b Backoff) Delay(failure int, random float64) time.Duration {
	fill(&b.Base, time.Second)
	fill(&b.Max, time.Minute)
	d := b.Max
	if grown := float64(b.Base) * math.Exp2(float64(max(failure, 1)-1)); grown < float64(b.Max) {
		d = time.Duration(grown)
	}
	if b.Exact {
		return d
	}
	return d - time.Duration(random*float64(d)/2)
}
