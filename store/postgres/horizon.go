package postgres

import (
	"context"
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
// priority than any seen, what a dead process had locked) is found by looks from
// the beginning, now and then. They are not made within commits, which would be
// held up for the longer the older that snapshot is.

// A sight is a rank in the queue of steps and one in that of pending jobs.
type sight struct{ steps, jobs int64 }

// or answers of each rank the first.
func (s sight) or(t sight) sight { return sight{min(s.steps, t.steps), min(s.jobs, t.jobs)} }

const (
	lookEvery = time.Second      // between looks from the beginning, at the least
	lookLimit = 5 * time.Second  // and at the most
	lookShare = 50               // they take a 50th of the time, or less
	longLook  = time.Minute      // after which one is given up
	horizonAt = 10 * time.Second // how long a transaction may be under way before what it enqueues is seen
)

var (
	beginning = sight{math.MinInt64, math.MinInt64}
	nowhere   = sight{math.MaxInt64, math.MaxInt64}
)

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
	under    []*claimGroup // claims under way
	priority int           // the highest seen
	next     time.Time     // when a look from the beginning is due
	took     time.Duration // by the last one
	looking  bool
}

// begin has a claim look from the horizon on, until its end.
func (h *horizon) begin(g *claimGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.from, g.most = h.from, nowhere
	h.under = append(h.under, g)
}

// back sets the horizon back, if that is before it. The claims that are under way may
// not have seen what is there, and do not move it beyond. The lock is held.
func (h *horizon) back(to sight) {
	h.from = h.from.or(to)
	for _, g := range h.under {
		g.most = g.most.or(to)
	}
}

// cheapLook is how long a look from the beginning may take for beats to make it.
const cheapLook = 20 * time.Millisecond

// glance answers where a beat looks from: from the beginning while that is cheap.
func (h *horizon) glance() sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.took < cheapLook {
		return beginning
	}
	return h.from
}

// glanced notes what a beat has found, and how long it took.
func (h *horizon) glanced(from, found sight, took time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from == beginning {
		h.looked(took, err)
	}
	if err == nil {
		h.back(found)
	}
}

// looked notes how long a look from the beginning took: that long at least, if it
// failed. The lock is held.
func (h *horizon) looked(took time.Duration, err error) {
	if err != nil {
		took = max(took, h.took)
	}
	h.took = took
	h.next = time.Now().Add(min(max(took*lookShare, lookEvery), lookLimit))
}

// due reports whether a look from the beginning is due, which is then the caller's.
func (h *horizon) due() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looking || h.from == beginning || time.Now().Before(h.next) {
		return false
	}
	h.looking = true
	return true
}

// before answers the first ranks before a horizon of what can be claimed.
const before = `select
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from step s where s.line = 1 and s.route = r.route and s.rank < $2::bigint order by rank, job, ord limit 1) h), $4::bigint),
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from job j where j.line = 1 and j.route = r.route and not j.paused and j.rank < $3::bigint order by rank, id limit 1) h), $4::bigint)`

// lookBack has somebody look what there is before the horizon, if that is due.
func (db *DB) lookBack(routes []int64) {
	if h := db.horizons.of(routes); len(routes) > 0 && h.due() {
		go db.lookBefore(h, routes)
	}
}

func (db *DB) lookBefore(h *horizon, routes []int64) {
	ctx, cancel := context.WithTimeout(db.life, longLook)
	defer cancel()
	h.mu.Lock()
	from := h.from
	h.mu.Unlock()
	found, begun := nowhere, time.Now()
	err := db.query(ctx, "look before the horizon", before, func(c *cursor) {
		found = sight{c.num(), c.num()}
	}, routes, from.steps, from.jobs, int64(math.MaxInt64))
	if err != nil {
		found = nowhere
		if db.life.Err() == nil {
			db.log.Warn("a look for what can be claimed failed; it is made again", "error", err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = false
	h.looked(time.Since(begun), err)
	h.back(found)
}

// A claimable is a row that a look has found, as it was.
type claimable struct {
	key      pawl.StepKey
	starts   bool // a pending job, and not a step
	rank     int64
	priority int
}

// lookedAt moves the horizons on, after a transaction that claimed what it found. They
// are set back to what it left, and where it failed to where it had looked from: others
// may have passed over what it had locked.
func (r *reading) lookedAt(good bool) {
	for _, g := range r.groups {
		switch {
		case g.horizon == nil:
		case good && r.Spoiled == 0:
			g.horizon.end(g, r.Now, r.left(g))
		default:
			g.horizon.end(g, r.Now, g.from)
		}
	}
}

// left answers the first ranks of what is still there to be claimed.
func (r *reading) left(g *claimGroup) sight {
	first := nowhere
	for _, f := range g.found {
		if !f.starts {
			if r.Steps[f.key].State == lifecycle.StepEnqueued {
				first.steps = min(first.steps, f.rank)
			}
		} else if j := r.Jobs[f.key.Job]; j.State == lifecycle.JobPending && !j.Paused {
			first.jobs = min(first.jobs, f.rank)
		}
	}
	return first
}

// end takes what a look at the database's time now has come to: all before left has
// been claimed.
func (h *horizon) end(g *claimGroup, now int64, left sight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.under = slices.DeleteFunc(h.under, func(u *claimGroup) bool { return u == g })
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
	h.back(left)
	most := g.most.or(left)
	reach := pawl.RankAt(now-horizonAt.Microseconds(), h.priority)
	h.from.steps = max(h.from.steps, min(most.steps, rise(last.steps, reach, steps == g.limit)))
	if sought := max(g.limit-steps, g.atLeast); sought > 0 {
		h.from.jobs = max(h.from.jobs, min(most.jobs, rise(last.jobs, reach, jobs == sought)))
	}
}

// rise answers how far a look reaches: to the last one found, if there may be more
// behind it, but never beyond the reach of what may still come.
func rise(last, reach int64, more bool) int64 {
	if more {
		return min(last, reach)
	}
	return reach
}
