package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// While a transaction holds an old snapshot, the index entries of claimed rows cannot be
// removed and pile up at the beginning of the queues; they also do so until the next vacuum.
// Claims therefore begin at a claim cursor. An earlier claim has seen nothing before it, and
// it stays a fixed lag behind the clock. That claim need not have taken what it saw: a row
// that another transaction has locked, that was left, or that cannot be read keeps the claim
// cursor before it, whatever happens to the row.
//
// Few rows appear before the claim cursor: those enqueued by a transaction that is open for
// longer than the lag, the first job of a higher priority than any seen, a job that was
// paused. A background scan from the beginning, which follows every claim, finds them. No
// transaction and no beat waits for such a scan, however many dead entries it passes. Where
// it passes so many that it has to rest for long, scans of the last two seconds come in
// between: few transactions are open for longer than that.

// A sight is a rank in the queue of steps and one in that of pending jobs.
type sight struct{ steps, jobs int64 }

func (s sight) min(t sight) sight { return sight{min(s.steps, t.steps), min(s.jobs, t.jobs)} }
func (s sight) max(t sight) sight { return sight{max(s.steps, t.steps), max(s.jobs, t.jobs)} }

const (
	cursorLag  = 250 * time.Millisecond // of what was claimed since, each claim passes the dead entries
	nearLag    = 2 * time.Second        // how far back a scan goes that is not from the beginning
	lookGap    = 50 * time.Millisecond  // minimum time between two scans of a kind
	maxLookGap = 5 * time.Second        // maximum
	lookShare  = 50                     // between these limits, scans of a kind take a 50th of the time
	longLook   = time.Minute            // after which a scan is given up
	idleLook   = 30 * time.Second       // between the scans that beats request
)

var (
	beginning = sight{math.MinInt64, math.MinInt64}
	nowhere   = sight{math.MaxInt64, math.MaxInt64}
)

// A claimCursor is the position at which claims from a set of routes begin.
type claimCursor struct {
	routes []rowkey.Route
	wanted bool      // a scan from the beginning is wanted; guarded by the lookback
	rests  time.Time // until when there is none; used by the goroutine of the lookback only

	mu       sync.Mutex
	from     sight
	setBacks int       // a glimpse from before the last set-back does not move the cursor on
	at       int64     // when a scan was last made, by the database's clock
	priority int       // the highest seen
	looked   time.Time // when the last scan from the beginning began
}

// A glimpse is what one scan of the queues has seen, by a claim or from the beginning.
type glimpse struct {
	from     sight // where it began, or where claims began at the time
	setBacks int   // of the claim cursor, up to then
	at       int64 // when, by the database's clock
	first    sight // the first rank of each queue, locked or not
}

// begin begins a scan.
func (h *claimCursor) begin() glimpse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return glimpse{from: h.from, setBacks: h.setBacks, first: nowhere}
}

// claimed moves the claim cursor on to the first rank that a claim has seen.
func (h *claimCursor) claimed(g glimpse, priority int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.priority = max(h.priority, priority)
	h.moveOn(g)
}

// moveOn requires the lock. It ignores g if the claim cursor was set back since: g may not
// have seen the rows before it.
func (h *claimCursor) moveOn(g glimpse) {
	h.at = max(h.at, g.at)
	if g.setBacks == h.setBacks {
		h.from = h.from.max(g.first.min(h.back(g.at, cursorLag)))
	}
}

// back returns the ranks of what was enqueued d before a time with the highest priority seen.
// It requires the lock.
func (h *claimCursor) back(at int64, d time.Duration) sight {
	rank := pawl.RankAt(at-d.Microseconds(), h.priority)
	return sight{rank, rank}
}

// near returns where a scan begins that need not be from the beginning.
func (h *claimCursor) near() sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from.min(h.back(h.at, nearLag))
}

// found takes the first rank seen by a scan from the beginning, and reports whether it is
// before the position where claims began.
func (h *claimCursor) found(g glimpse) (before bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.first.steps >= g.from.steps && g.first.jobs >= g.from.jobs {
		h.moveOn(g)
		return false
	}
	h.setBacks++
	h.from = h.from.min(g.first)
	return true
}

// known returns where a beat scans from: never the beginning, where there may be any number of
// dead entries. A scan moves the claim cursor of routes without claims.
func (h *claimCursor) known() sight {
	from := h.begin().from
	if from.steps == beginning.steps {
		from.steps = nowhere.steps
	}
	if from.jobs == beginning.jobs {
		from.jobs = nowhere.jobs
	}
	return from
}

// idle reports whether the last scan from the beginning was long ago.
func (h *claimCursor) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.looked) >= idleLook
}

// A lookback keeps the claim cursors of a handle, and scans from the beginning, one scan at a
// time.
type lookback struct {
	db   *DB
	over sync.WaitGroup // its goroutine

	mu     sync.Mutex
	all    map[string]*claimCursor // by routes
	queue  []*claimCursor          // cursors to be scanned
	active bool                    // the goroutine runs
	closed bool
}

// maxClaimCursors is how many cursors are kept.
const maxClaimCursors = 1000

func (l *lookback) claimCursor(routes []rowkey.Route) *claimCursor {
	routes = slices.Compact(slices.Sorted(slices.Values(routes)))
	key := make([]byte, 0, 8*len(routes))
	for _, r := range routes {
		key = binary.BigEndian.AppendUint64(key, uint64(r))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil || len(l.all) > maxClaimCursors {
		l.all = make(map[string]*claimCursor)
	}
	if l.all[string(key)] == nil {
		l.all[string(key)] = &claimCursor{routes: routes, from: beginning}
	}
	return l.all[string(key)]
}

// want requests a scan that begins after this call.
func (l *lookback) want(h *claimCursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.wanted || l.closed || len(h.routes) == 0 {
		return
	}
	h.wanted = true
	l.queue = append(l.queue, h)
	if !l.active {
		l.active = true
		l.over.Go(l.work)
	}
}

// work makes the requested scans, and rests after each. A scan that was not from the
// beginning leaves the request as it is.
func (l *lookback) work() {
	for {
		h := l.next()
		if h == nil {
			return
		}
		begun := time.Now()
		whole := !begun.Before(h.rests)
		l.look(h, whole)
		ended := time.Now()
		rest := min(max(ended.Sub(begun)*lookShare, lookGap), maxLookGap)
		if whole {
			h.rests, rest = ended.Add(rest), lookGap
		} else {
			l.want(h)
		}
		select {
		case <-l.db.life.Done():
		case <-time.After(rest):
		}
	}
}

// next returns the claim cursor that has waited longest, or nil when the goroutine has to end.
func (l *lookback) next() (h *claimCursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.active = len(l.queue) > 0 && !l.closed; !l.active {
		return nil
	}
	h, l.queue = l.queue[0], l.queue[1:]
	h.wanted = false
	return h
}

// stop waits until the goroutine has ended; the context of the handle has ended before.
func (l *lookback) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.over.Wait()
}

// foremost returns the first ranks in the queues from a position on, and when they were read.
const foremost = `select
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from step s where s.line = 1 and s.route = r.route and s.rank >= $3::bigint order by rank, job, ord limit 1) h), $2::bigint),
  coalesce((select min(h.rank) from unnest($1::bigint[]) r(route) cross join lateral
    (select rank from job j where j.line = 1 and j.route = r.route and not j.paused and j.rank >= $4::bigint order by rank, id limit 1) h), $2::bigint),
  (extract(epoch from statement_timestamp()) * 1000000)::bigint`

// look scans from the beginning, or the last of it. If it finds work before the claim cursor,
// the workers of this process get a hint as if from another process.
func (l *lookback) look(h *claimCursor, whole bool) {
	ctx, cancel := context.WithTimeout(l.db.life, longLook)
	defer cancel()
	from := beginning
	if whole {
		h.mu.Lock()
		h.looked = time.Now()
		h.mu.Unlock()
	} else {
		from = h.near()
	}
	g := h.begin()
	err := l.db.query(ctx, "look for what can be claimed", foremost, func(c *cursor) {
		g.first, g.at = sight{c.num(), c.num()}, c.num()
	}, bigints(h.routes), int64(math.MaxInt64), from.steps, from.jobs)
	switch {
	case err == nil && h.found(g):
		l.db.ears.tell(store.TopicWork)
	case err != nil && l.db.life.Err() == nil:
		l.db.log.Warn("a look for what can be claimed failed; it is made again", "error", err)
	}
}
