package postgres

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// While somebody holds an old snapshot, the entries of what was claimed stay in the
// index of what can be claimed, and pile up at its beginning; so do they until the
// next vacuum. Claims therefore begin at a horizon, before which an earlier claim
// has found nothing. What may come before it all the same (a job of a higher
// priority than any seen, a claim that was rolled back) is found by a full look
// that is made now and then.

// A sight is a rank in the queue of steps and one in that of pending jobs.
type sight struct{ steps, jobs int64 }

const (
	fullEvery = time.Second      // between full looks, at the least
	fullLimit = 5 * time.Second  // and at the most
	fullShare = 50               // a full look takes a 50th of the time, or less
	horizonAt = 10 * time.Second // how long a transaction may be under way before what it enqueues is seen
)

var beginning = sight{math.MinInt64, math.MinInt64}

// horizons are kept by the set of routes that a worker claims from.
type horizons struct {
	mu  sync.Mutex
	all map[string]*horizon
}

// maxHorizons bounds how many are kept.
const maxHorizons = 1000

func (h *horizons) of(routes []int64) *horizon {
	key := make([]byte, 0, 8*len(routes))
	for _, r := range slices.Sorted(slices.Values(routes)) {
		key = binary.BigEndian.AppendUint64(key, uint64(r))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil || len(h.all) > maxHorizons {
		h.all = make(map[string]*horizon)
	}
	if h.all[string(key)] == nil {
		h.all[string(key)] = &horizon{from: beginning}
	}
	return h.all[string(key)]
}

// A horizon is where claims begin.
type horizon struct {
	mu       sync.Mutex
	from     sight
	priority int           // the highest seen
	full     time.Time     // when the next full look is due
	took     time.Duration // by the last one
}

// begin answers where to look from, and whether that is the beginning.
func (h *horizon) begin() (from sight, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().Before(h.full) {
		return h.from, false
	}
	return beginning, true
}

// cheapLook is how long a full look may take for beats to make one too.
const cheapLook = 20 * time.Millisecond

// glance answers where a beat looks from: from the beginning while that is cheap.
// Otherwise a claim is due now and then.
func (h *horizon) glance() (from sight, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.took < cheapLook {
		return beginning, false
	}
	return h.from, time.Now().After(h.full.Add(fullLimit))
}

// glanced notes how long a beat took.
func (h *horizon) glanced(from sight, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from == beginning {
		h.took = took
	}
}

// A claimable is a row that a look has found, as it was.
type claimable struct {
	key      pawl.StepKey
	starts   bool // a pending job, and not a step
	rank     int64
	priority int
}

// lookedAt moves the horizons on, after a transaction that claimed all that it
// found. Where it left something, or failed, the next look is a full one.
func (r *reading) lookedAt(good bool) {
	for _, g := range r.groups {
		if g.horizon != nil {
			g.horizon.end(g, r.Now, r.took, good && r.Spoiled == 0 && !r.left(g))
		}
	}
}

// left reports whether something is still there to be claimed.
func (r *reading) left(g *claimGroup) bool {
	return slices.ContainsFunc(g.found, func(f claimable) bool {
		if f.starts {
			j := r.Jobs[f.key.Job]
			return j.State == lifecycle.JobPending && !j.Paused
		}
		return r.Steps[f.key].State == lifecycle.StepEnqueued
	})
}

// end takes what a look at the database's time now has come to.
func (h *horizon) end(g *claimGroup, now int64, took time.Duration, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !all {
		h.full = time.Time{}
		return
	}
	if g.full {
		h.from.steps, h.took = beginning.steps, took
		h.full = time.Now().Add(min(max(took*fullShare, fullEvery), fullLimit))
	}
	var steps, jobs int
	var last sight
	for _, f := range g.found {
		h.priority = max(h.priority, f.priority)
		if f.starts {
			jobs, last.jobs = jobs+1, f.rank
		} else {
			steps, last.steps = steps+1, f.rank
		}
	}
	reach := pawl.RankAt(now-horizonAt.Microseconds(), h.priority)
	h.from.steps = rise(h.from.steps, last.steps, reach, steps == g.limit)
	if sought := max(g.limit-steps, g.atLeast); sought > 0 {
		if g.full {
			h.from.jobs = beginning.jobs
		}
		h.from.jobs = rise(h.from.jobs, last.jobs, reach, jobs == sought)
	}
}

// rise moves a rank on: to the last one found, if there may be more behind it, but
// never beyond the reach of what may still come.
func rise(from, last, reach int64, more bool) int64 {
	if more {
		return max(from, min(last, reach))
	}
	return max(from, reach)
}
