package worker

import (
	"sync/atomic"
	"time"
)

const (
	maxLingered = 64                   // up to how many steps a visit waits for: more share one anyway
	longVisit   = 5 * time.Millisecond // what counts at most of one: it may have waited for a database that is gone
)

// Of the last steps most were brief if the score is at least half of the highest one.
const (
	maxScore  = 32
	minScore  = -4 * maxScore // after a visit waited for a step that was not brief
	slowCosts = 4             // as many brief steps as make up for one that was not
)

// A pace is how long the steps of a worker take beside its visits. A step is brief if it takes at
// most half as long as a visit: to wait for it then costs less than the visit that this saves.
type pace struct {
	last  atomic.Int64 // nanoseconds of the last visit
	score atomic.Int64
}

func (p *pace) visited(took time.Duration) { p.last.Store(int64(min(took, longVisit))) }

func (p *pace) visit() time.Duration { return time.Duration(p.last.Load()) }

// ran notes how long a step took.
func (p *pace) ran(took time.Duration) {
	score := p.score.Load()
	if 2*took <= p.visit() {
		score++
	} else {
		score -= slowCosts
	}
	p.score.Store(min(max(score, minScore), maxScore)) // a lost update does no harm
}

// misjudged notes that steps took longer than a visit. It takes many brief ones before a visit
// waits again.
func (p *pace) misjudged() { p.score.Store(minScore) }

func (p *pace) brief() bool { return p.score.Load() >= maxScore/2 }
