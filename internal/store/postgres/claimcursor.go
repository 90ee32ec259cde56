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
// transaction and no beat waits for such a scan, however many dead entries it passes. While
// it passes many, and then rests for long, near scans begin shortly before the last whole one
// began: few transactions are open for longer than that.

// A sight is a rank in the queue of steps and one in that of pending jobs.
type sight struct{ steps, jobs int64 }

func (s sight) min(t sight) sight { return sight{min(s.steps, t.steps), min(s.jobs, t.jobs)} }
func (s sight) max(t sight) sight { return sight{max(s.steps, t.steps), max(s.jobs, t.jobs)} }

const (
	cursorLag  = 250 * time.Millisecond // of what was claimed since, each claim passes the dead entries
	nearLag    = 2 * time.Second        // how long before the last whole scan a near one begins
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
	wanted [kinds]bool // scans; guarded by the lookback
	under  bool        // a whole scan is under way; guarded by the lookback

	mu       sync.Mutex
	from     sight
	setBacks int // a glimpse from before the last set-back does not move the cursor on
	priority int // the highest seen
	lone     rowkey.Route
	streak   int       // of claims that took nothing but pending jobs of the lone route
	vain     int       // claims for a lone route that was not alone, since the last one that was
	looked   time.Time // when the last whole scan began
	whole    int64     // when the last successful one began, by the database's clock; 0: none was
}

// A glimpse is what one scan of the queues has seen, by a claim or from the beginning.
type glimpse struct {
	from     sight // where it began, or where claims began at the time
	setBacks int   // of the claim cursor, up to then
	at       int64 // when, by the database's clock
	first    sight // the first rank of each queue, locked or not
}

// After loneAfter claims in a row that took nothing but pending jobs of one route, the next one
// asks for that route alone. If there is more after all, it takes a second statement. So each one
// in vain doubles the number, maxVain times at most, until one succeeds.
const (
	loneAfter = 4
	maxVain   = 4
)

// begin begins a scan.
func (h *claimCursor) begin() glimpse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return glimpse{from: h.from, setBacks: h.setBacks, first: nowhere}
}

// loneRoute returns the route that probably has all there is to claim, or 0.
func (h *claimCursor) loneRoute() rowkey.Route {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streak < loneAfter<<h.vain {
		return 0
	}
	return h.lone
}

// took notes what a claim has found.
func (h *claimCursor) took(g *claimGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case g.wide:
		h.vain, h.streak = min(h.vain+1, maxVain), 0
	case g.others:
		h.streak = 0
	case g.route != 0:
		if g.lone != 0 {
			h.vain = 0
		}
		if g.route != h.lone {
			h.lone, h.streak = g.route, 0
		}
		h.streak++
	}
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

// near returns where a near scan begins, and whether one is useful: not while whole ones follow
// each other quickly.
func (h *claimCursor) near() (from sight, useful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.from.min(h.back(h.whole, nearLag)), h.whole > 0 && time.Since(h.looked) >= cursorLag
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

// The kinds of scans in the background.
const (
	whole = iota // from the beginning
	near         // since shortly before the last whole one
	kinds
)

// A lookback keeps the claim cursors of a handle, and scans in the background, one scan of a
// kind at a time.
type lookback struct {
	db   *DB
	over sync.WaitGroup // its goroutines

	mu     sync.Mutex
	all    map[string]*claimCursor // by routes
	scans  [kinds]scans
	closed bool
}

// scans are those of a kind.
type scans struct {
	queue  []*claimCursor // for which one is wanted
	active bool           // the goroutine runs
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

// want requests scans that begin after this call.
func (l *lookback) want(h *claimCursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(whole, h)
	l.add(near, h)
}

// add requires the lock.
func (l *lookback) add(kind int, h *claimCursor) {
	if h.wanted[kind] || l.closed || len(h.routes) == 0 {
		return
	}
	h.wanted[kind] = true
	k := &l.scans[kind]
	k.queue = append(k.queue, h)
	if !k.active {
		k.active = true
		l.over.Go(func() { l.work(kind) })
	}
}

// work makes the requested scans of a kind, and rests after each.
func (l *lookback) work(kind int) {
	for h := l.next(kind); h != nil; h = l.next(kind) {
		begun := time.Now()
		if from, useful := h.near(); kind == whole {
			l.look(h, beginning)
		} else if useful {
			l.look(h, from)
		}
		l.made(kind, h)
		select {
		case <-l.db.life.Done():
		case <-time.After(min(max(time.Since(begun)*lookShare, lookGap), maxLookGap)):
		}
	}
}

// next returns the claim cursor that has waited longest, or nil when the goroutine has to end.
func (l *lookback) next(kind int) (h *claimCursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.scans[kind]
	if k.active = len(k.queue) > 0 && !l.closed; !k.active {
		return nil
	}
	h, k.queue = k.queue[0], k.queue[1:]
	h.wanted[kind], h.under = false, h.under || kind == whole
	return h
}

// made notes that a scan has ended. Near scans go on until the whole one that was requested with
// them has been made.
func (l *lookback) made(kind int, h *claimCursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case kind == whole:
		h.under = false
	case h.wanted[whole] || h.under:
		l.add(near, h)
	}
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

// look scans from a position on. If it finds work before the claim cursor, the workers of this
// process get a hint as if from another process.
func (l *lookback) look(h *claimCursor, from sight) {
	ctx, cancel := context.WithTimeout(l.db.life, longLook)
	defer cancel()
	if from == beginning {
		h.mu.Lock()
		h.looked = time.Now()
		h.mu.Unlock()
	}
	g := h.begin()
	err := l.db.query(ctx, "look for what can be claimed", foremost, func(c *cursor) {
		g.first, g.at = sight{c.num(), c.num()}, c.num()
	}, bigints(h.routes), int64(math.MaxInt64), from.steps, from.jobs)
	if err == nil && from == beginning {
		h.mu.Lock()
		h.whole = g.at
		h.mu.Unlock()
	}
	switch {
	case err == nil && h.found(g):
		l.db.ears.tell(store.Hint{Topic: store.TopicWork})
	case err != nil && l.db.life.Err() == nil:
		l.db.log.Warn("a look for what can be claimed failed; it is made again", "error", err)
	}
}
