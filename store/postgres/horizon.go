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
// next vacuum. Claims therefore begin at a horizon, before which an earlier look
// has found nothing. What may come before it all the same (a job of a higher
// priority than any seen, what a dead process had locked) is found by looks from
// the beginning, now and then. Claims make them while they are cheap. The older that
// snapshot is, the dearer they get, and then they are not made within commits, which
// would be held up.

// A sight is a rank in the queue of steps and one in that of pending jobs.
type sight struct{ steps, jobs int64 }

// or answers of each rank the first.
func (s sight) or(t sight) sight { return sight{min(s.steps, t.steps), min(s.jobs, t.jobs)} }

const (
	lookEvery = time.Second           // between looks from the beginning, at the least
	lookLimit = 5 * time.Second       // and at the most
	lookShare = 50                    // between, they take a 50th of the time
	longLook  = time.Minute           // after which one is given up
	cheapLook = 10 * time.Millisecond // one that takes less is made by claims and beats
	horizonAt = 2 * time.Second       // what a transaction enqueues that is under way for longer, a look has to find
)

var (
	beginning = sight{math.MinInt64, math.MinInt64}
	nowhere   = sight{math.MaxInt64, math.MaxInt64}
)

// horizons are kept by the set of routes that a worker claims from.
type horizons struct {
	mu      sync.Mutex
	all     map[string]*horizon
	looking sync.Mutex // held by lookAll, which keeps a connection
}

// maxHorizons bounds how many are kept.
const maxHorizons = 1000

func (h *horizons) of(routes []int64) *horizon {
	key := make([]byte, 0, 8*len(routes))
	for _, r := range slices.Compact(slices.Sorted(slices.Values(routes))) {
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
}

// begin has a claim look from the horizon on, until its end: from the beginning, where
// a look from there is due and cheap.
func (h *horizon) begin(g *claimGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.took < cheapLook && !now.Before(h.next) {
		h.next = now.Add(lookEvery)
		h.back(beginning)
	}
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

// glance answers where a beat looks from: from the beginning while that is cheap, and
// never while it is not. The horizon may still be there, as no claim moves it while one of
// the queues is full: claims are then made from the others only.
func (h *horizon) glance() sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.took < cheapLook {
		return beginning
	}
	from := h.from
	if from.steps == beginning.steps {
		from.steps = nowhere.steps
	}
	if from.jobs == beginning.jobs {
		from.jobs = nowhere.jobs
	}
	return from
}

// found sets the horizon back to what a look that was no claim's has found.
func (h *horizon) found(to sight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.back(to)
}

// looked notes how long a look took that was from the beginning: that long at least, if
// it failed, or was from there in one of the queues.
func (h *horizon) looked(from sight, took time.Duration, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case from.steps != beginning.steps && from.jobs != beginning.jobs:
	case failed || from != beginning:
		h.took = max(took, h.took)
	default:
		h.took = took
	}
}

// due reports whether a look from the beginning is due that is no claim's.
func (h *horizon) due() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.took >= cheapLook && !time.Now().Before(h.next)
}

// foremost answers the first ranks of what can be claimed, and when it looked.
const foremost = `select
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from step s where s.line = 1 and s.route = r.route order by rank, job, ord limit 1) h), $2::bigint),
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from job j where j.line = 1 and j.route = r.route and not j.paused order by rank, id limit 1) h), $2::bigint),
  (extract(epoch from statement_timestamp()) * 1000000)::bigint`

// lookBack begins a look from the beginning, if one is due that is no claim's.
func (db *DB) lookBack(routes []int64) {
	if h := db.horizons.of(routes); len(routes) > 0 && h.due() && db.horizons.looking.TryLock() {
		go db.lookAll(h, routes)
	}
}

// lookAll moves the horizon like a claim that has left what it found.
func (db *DB) lookAll(h *horizon, routes []int64) {
	defer db.horizons.looking.Unlock()
	ctx, cancel := context.WithTimeout(db.life, longLook)
	defer cancel()
	g := &claimGroup{limit: 1}
	h.begin(g)
	found, at, begun := g.from, int64(0), time.Now()
	err := db.query(ctx, "look for what can be claimed", foremost, func(c *cursor) {
		found, at = sight{c.num(), c.num()}, c.num()
	}, routes, int64(math.MaxInt64))
	if err != nil && db.life.Err() == nil {
		db.log.Warn("a look for what can be claimed failed; it is made again", "error", err)
	}
	h.looked(beginning, time.Since(begun), err != nil)
	h.end(g, at, found)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = time.Now().Add(min(max(h.took*lookShare, lookEvery), lookLimit))
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
		if g.horizon != nil {
			left := g.from
			if good && r.Spoiled == 0 {
				left = r.left(g)
			}
			g.horizon.end(g, r.Now-r.took.Microseconds(), left)
			g.horizon.looked(g.from, r.took, !good)
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

// end takes what a look that began at the database's time at has come to: all before
// left has been claimed.
func (h *horizon) end(g *claimGroup, at int64, left sight) {
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
	reach := pawl.RankAt(at-horizonAt.Microseconds(), h.priority)
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
