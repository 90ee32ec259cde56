package supervisor

import (
	"math"
	"time"
)

// A Backoff is the delay after failures: Base, twice that, four times, and at most Max.
// Unless Exact is set, jitter takes off up to half of it.
type Backoff struct {
	Base  time.Duration // 0: 1 s
	Max   time.Duration // 0: 60 s
	Exact bool
}

// Delay returns the delay after the given failure, counted from 1. The random number is in
// [0, 1).
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
