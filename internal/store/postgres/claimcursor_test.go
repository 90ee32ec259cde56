package postgres

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// blind ends the looks from the beginning: claims find what they find by themselves.
func blind(db *DB) { db.lookback.stop() }

// ahead puts the claim cursor of a route behind everything that is there.
func ahead(db *DB, route rowkey.Route) *claimCursor {
	h := db.lookback.claimCursor([]rowkey.Route{route})
	later := pawl.RankAt(pawl.Micros(time.Now().Add(time.Hour)), 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from, h.looked = sight{later, later}, time.Now()
	return h
}

// finds reports how much a claim from the route finds. It takes nothing.
func finds(t *testing.T, db *DB, route rowkey.Route) (n int) {
	t.Helper()
	q := &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{route}, Limit: 5}}}
	err := db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		n = len(f.Claims[0].Steps) + len(f.Claims[0].Starts)
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

// TestClaimCursor: claims begin at what an earlier one has seen first, and a fixed lag ago at
// the latest.
func TestClaimCursor(t *testing.T) {
	t.Parallel()
	const minute = int64(time.Minute / time.Microsecond)
	now := 1000 * minute
	reach := now - cursorLag.Microseconds()
	seen := func(steps, jobs int64) glimpse { return glimpse{at: now, first: sight{steps, jobs}} }
	for name, tt := range map[string]struct {
		do   func(h *claimCursor)
		want sight
	}{
		"nothing is there":                  {func(h *claimCursor) { h.claimed(seen(math.MaxInt64, math.MaxInt64), 0) }, sight{reach, reach}},
		"something is":                      {func(h *claimCursor) { h.claimed(seen(5, 7), 0) }, sight{5, 7}},
		"it has just come":                  {func(h *claimCursor) { h.claimed(seen(now, now), 0) }, sight{reach, reach}},
		"a queue that was not looked at":    {func(h *claimCursor) { h.claimed(seen(5, math.MinInt64), 0) }, sight{5, math.MinInt64}},
		"what is urgent may have come late": {func(h *claimCursor) { h.claimed(seen(math.MaxInt64, 7), 10) }, sight{reach - 10*minute, 7}},
		"an older glimpse": {func(h *claimCursor) {
			h.claimed(seen(9, 9), 0)
			h.claimed(seen(5, 5), 0)
		}, sight{9, 9}},
		"a look that finds nothing": {func(h *claimCursor) {
			h.claimed(seen(9, 9), 0)
			if g := h.begin(); h.found(glimpse{from: g.from, setBacks: g.setBacks, at: now, first: sight{9, 11}}) {
				t.Error("what stands behind the claim cursor is reported")
			}
		}, sight{9, 11}},
		"a look that finds something": {func(h *claimCursor) {
			h.claimed(seen(9, 9), 0)
			claim, look := h.begin(), h.begin()
			look.at, look.first = now, sight{20, 3}
			if !h.found(look) {
				t.Error("what stands before the claim cursor is not reported")
			}
			claim.at, claim.first = now, sight{50, 50} // it has not seen that
			h.claimed(claim, 0)
		}, sight{9, 3}},
		"claims after that": {func(h *claimCursor) {
			h.claimed(seen(9, 9), 0)
			look := h.begin()
			look.at, look.first = now, sight{20, 3}
			h.found(look)
			claim := h.begin()
			claim.at, claim.first = now, sight{50, 50}
			h.claimed(claim, 0)
		}, sight{50, 50}},
	} {
		h := &claimCursor{from: beginning}
		if tt.do(h); h.from != tt.want {
			t.Errorf("%s: claims begin at %v; want %v", name, h.from, tt.want)
		}
	}
}

// TestLoneRoutes: which route is assumed to have all there is, after what claims have taken.
func TestLoneRoutes(t *testing.T) {
	t.Parallel()
	one, two, none, others := &claimGroup{route: 1}, &claimGroup{route: 2}, &claimGroup{}, &claimGroup{route: 1, others: true}
	vain, alone := &claimGroup{route: 1, lone: 1, wide: true}, &claimGroup{route: 1, lone: 1}
	times := slices.Repeat[[]*claimGroup]
	list := func(lists ...[]*claimGroup) []*claimGroup { return slices.Concat(lists...) }
	single := func(g ...*claimGroup) []*claimGroup { return g }
	for name, tt := range map[string]struct {
		took []*claimGroup
		want rowkey.Route
	}{
		"nothing":                     {single(none, none, none, none, none), 0},
		"too few":                     {single(one, one, one), 0},
		"enough":                      {single(one, one, one, one), 1},
		"enough, and nothing since":   {single(one, one, none, one, one, none), 1},
		"another one at last":         {single(one, one, one, one, two), 0},
		"another one for long":        {single(one, two, two, two, two), 2},
		"several":                     {single(one, one, one, one, others), 0},
		"several, long ago":           {single(others, one, one, one, one), 1},
		"in vain":                     {list(times(single(one), 9), single(vain)), 0},
		"too few since one in vain":   {list(single(vain), times(single(one), 7)), 0},
		"enough since one in vain":    {list(single(vain), times(single(one), 8)), 1},
		"too few since many in vain":  {list(times(single(vain), 99), times(single(one), 63)), 0},
		"enough since many in vain":   {list(times(single(vain), 99), times(single(one), 64)), 1},
		"in vain, before one was not": {list(times(single(vain), 99), single(alone, others), times(single(one), 4)), 1},
	} {
		h := new(claimCursor)
		for _, g := range tt.took {
			h.took(g)
		}
		if got := h.loneRoute(); got != tt.want {
			t.Errorf("%s: route %d is assumed to have all there is, want %d", name, got, tt.want)
		}
	}
}

// TestLookBeforeTheClaimCursor: what lies before the claim cursor is found by a look that is
// not a claim's, and claimed then; who listens is told, and so is a beat (T5, J4).
func TestLookBeforeTheClaimCursor(t *testing.T) {
	t.Parallel()
	for _, enqueued := range []bool{false, true} {
		db := fresh(t)
		told := make(chan store.Topic, 100)
		go db.Listen(t.Context(), func(h store.Hint) { told <- h.Topic })
		jobs := submit(t, db, 1, 1)
		if enqueued {
			enqueue(t, db, jobs)
		}
		ahead(db, 1)
		if n := finds(t, db, 1); n != 0 {
			t.Fatalf("a claim has found %d before its claim cursor", n)
		}
		if topic := <-told; topic != store.TopicWork {
			t.Fatalf("told of %v; want %v", topic, store.TopicWork)
		}
		if n := finds(t, db, 1); n != 1 { // at once
			t.Fatalf("enqueued %v: a claim finds %d after it was told; want 1", enqueued, n)
		}
	}
}

// TestNearScans: while no whole scan can be made, near ones find what was enqueued since
// shortly before the last whole one, however long ago that was; the next whole one finds the rest,
// without another claim (T5, T10).
func TestNearScans(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	l := &db.lookback
	l.mu.Lock()
	l.scans[whole].active = true // as if one were under way
	l.mu.Unlock()
	h := ahead(db, 1)
	var late, old int64
	do(t, db, &store.Query{}, func(f *store.Facts, d *draft) {
		const long = int64(time.Hour / time.Microsecond)
		h.mu.Lock()
		h.whole, h.looked = f.Now-long, time.Time{}
		h.mu.Unlock()
		late, old = pawl.RankAt(f.Now-long-nearLag.Microseconds()/2, 0), pawl.RankAt(f.Now-long-2*nearLag.Microseconds(), 0)
		for _, rank := range []int64{late, old} {
			j := d.newJob(1)
			d.newStep(j, 1, 1)
			j.Rank = rank
		}
	})
	if n := finds(t, db, 1); n != 0 {
		t.Fatalf("a claim has found %d before its claim cursor", n)
	}
	from := func() int64 { return h.begin().from.jobs }
	eventually(t, "claims begin at what a near scan has found", func() bool { return from() == late })
	l.over.Go(func() { l.work(whole) })
	eventually(t, "claims begin at what a whole scan has found", func() bool { return from() == old })
	eventually(t, "the scans end", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.scans[whole].active && !l.scans[near].active
	})
}

// TestBeatsLookBeforeTheClaimCursor: a worker that rests has its beats ask for a look now and
// then: a hint may be lost (T10).
func TestBeatsLookBeforeTheClaimCursor(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 1, 1)
	work := func() bool {
		answer, err := db.Beat(t.Context(), link.Pulse{Routes: []rowkey.Route{1}})
		return err == nil && answer.Work
	}
	h := ahead(db, 1)
	if work() || h.wanted[whole] {
		t.Fatal("a beat has looked before the claim cursor soon after another look")
	}
	h.mu.Lock()
	h.looked = time.Now().Add(-idleLook)
	h.mu.Unlock()
	eventually(t, "a beat tells of work", work)
}

// TestBeatsOfWhatNobodyClaims: a beat never looks from the beginning, where there may be
// any number of dead entries: it would be given up, and the worker taken for dead. Where no
// claim moves the claim cursor of its routes on, a look in the background does (T10).
func TestBeatsOfWhatNobodyClaims(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 1, 1)
	h := db.lookback.claimCursor([]rowkey.Route{1})
	if from := h.known(); from != nowhere {
		t.Fatalf("a beat looks from %v; want nowhere", from)
	}
	eventually(t, "a beat tells of work", func() bool {
		answer, err := db.Beat(t.Context(), link.Pulse{Routes: []rowkey.Route{1}})
		return err == nil && answer.Work
	})
	if from := h.known(); from == nowhere {
		t.Error("the claim cursor is at the beginning after a look")
	}
}

// TestARouteTwice: a worker whose queues are named twice has the claim cursor that its claims
// move, and not one for its beats that stays at the beginning (T10).
func TestARouteTwice(t *testing.T) {
	t.Parallel()
	all := new(lookback)
	if all.claimCursor([]rowkey.Route{2, 1, 2}) != all.claimCursor([]rowkey.Route{1, 2}) {
		t.Error("the same routes have two claim cursors")
	}
}

// TestALongTransaction: what was enqueued by a transaction that stayed open for longer than
// the claim cursor lies back is claimed as soon as that has ended (T5, T10).
func TestALongTransaction(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	do(t, other, &store.Query{}, func(f *store.Facts, d *draft) {
		j := d.newJob(1)
		d.newStep(j, 1, 1)
		j.Rank = pawl.RankAt(f.Now, 0)
		ahead(db, 1) // it stays open for that long
		if n := finds(t, db, 1); n != 0 {
			t.Errorf("%d jobs are found that are not there yet", n)
		}
	})
	eventually(t, "it is claimed", func() bool { return finds(t, db, 1) == 1 })
}

// TestWhatIsUrgent: the first job of a priority that was never seen, and a pending job that
// was paused, come before the claim cursor; no beat is needed to find them (T9, J4).
func TestWhatIsUrgent(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	paused := submit(t, db, 1, 1)[0]
	setPaused := func(p bool) {
		do(t, db, &store.Query{Jobs: []rowkey.Job{paused.Key()}}, func(f *store.Facts, d *draft) {
			j := f.Jobs[paused.Key()]
			j.Paused = p
			d.moveJob(j, lifecycle.JobPending, lifecycle.JobPause)
		})
	}
	setPaused(true)
	for range 3 {
		if n := finds(t, db, 1); n != 0 {
			t.Fatalf("%d jobs are found; want none", n)
		}
	}
	setPaused(false)
	eventually(t, "the job that was paused is found", func() bool { return finds(t, db, 1) == 1 })
	setPaused(true)
	eventually(t, "it is paused again", func() bool { return finds(t, db, 1) == 0 })
	do(t, db, &store.Query{}, func(f *store.Facts, d *draft) {
		j := d.newJob(1)
		d.newStep(j, 1, 1)
		j.Priority, j.Rank = 500, pawl.RankAt(f.Now, 500)
	})
	eventually(t, "the urgent one is found", func() bool { return finds(t, db, 1) == 1 })
}

// locked runs f while another transaction has the steps and the pending jobs locked that
// are the first on the route.
func locked(t *testing.T, db *DB, route int64, steps, jobs int, f func()) {
	t.Helper()
	ctx := context.Background()
	tx, err := open(t, db.cfg.URL).pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	_, err = tx.Exec(ctx, "set local idle_in_transaction_session_timeout = 0")
	for table, n := range map[string]int{"step": steps, "job": jobs} {
		if err == nil {
			_, err = tx.Exec(ctx, "select from "+table+" where line = 1 and route = $1 order by rank limit $2 for update", route, n)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f()
}

// TestClaimsTellOfWhatTheyPassedOver: a claim that comes back short says whether others
// had rows locked, and where it ended by its limit, that there may be more (T3).
func TestClaimsTellOfWhatTheyPassedOver(t *testing.T) {
	t.Parallel()
	const window = 2*2 + 100 // of a claim of two from several routes
	for name, tt := range map[string]struct {
		steps, jobs             int // that are there
		lockedSteps, lockedJobs int
		found, ofSeveral        int // by a claim of two
		more, skipped           bool
	}{
		"nothing":                        {},
		"all there is":                   {steps: 1, found: 1, ofSeveral: 1},
		"as many as asked for":           {steps: 1, jobs: 2, found: 2, ofSeveral: 2, more: true},
		"exactly as many":                {steps: 2, found: 2, ofSeveral: 2, more: true},
		"behind locked ones":             {steps: 4, lockedSteps: 2, found: 2, ofSeveral: 2, more: true},
		"one, and a locked step":         {steps: 2, lockedSteps: 1, found: 1, ofSeveral: 1, skipped: true},
		"one, and a locked job":          {steps: 1, jobs: 1, lockedJobs: 1, found: 1, ofSeveral: 1, skipped: true},
		"nothing but locked ones":        {steps: 3, jobs: 3, lockedSteps: 3, lockedJobs: 3, skipped: true},
		"behind a window of locked jobs": {jobs: window + 1, lockedJobs: window, found: 1, ofSeveral: 0, skipped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			blind(db)
			if tt.steps > 0 {
				enqueue(t, db, submit(t, db, tt.steps, 1))
			}
			if tt.jobs > 0 {
				submit(t, db, tt.jobs, 1)
			}
			claim := func(routes ...rowkey.Route) (got store.ClaimFacts) {
				do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 2}}}, func(f *store.Facts, _ *draft) { got = f.Claims[0] })
				return got
			}
			locked(t, db, 1, tt.lockedSteps, tt.lockedJobs, func() {
				for range 2 { // the second one begins where the first has seen something
					for _, x := range []struct {
						routes []rowkey.Route
						found  int
						alone  bool
					}{{[]rowkey.Route{1}, tt.found, false}, {[]rowkey.Route{1, 2}, tt.ofSeveral, false}, {[]rowkey.Route{1, 2}, tt.found, true}} {
						h := supposeLone(db, x.routes...) // such a claim has no window of locked jobs
						if !x.alone {
							h.took(&claimGroup{others: true})
						}
						got := claim(x.routes...)
						if n := len(got.Steps) + len(got.Starts); n != x.found || got.More != tt.more || got.Skipped != tt.skipped {
							t.Errorf("routes %v: %d found, more %v, skipped %v; want %d, %v, %v", x.routes, n, got.More, got.Skipped, x.found, tt.more, tt.skipped)
						}
					}
				}
			})
			// They are left as they were, and found by the next claim: no look is needed.
			for _, routes := range [][]rowkey.Route{{1}, {1, 2}} {
				if got, want := claim(routes...), min(2, tt.steps+tt.jobs); len(got.Steps)+len(got.Starts) != want || got.Skipped {
					t.Errorf("routes %v: %d found when nothing is locked any more, skipped %v; want %d", routes, len(got.Steps)+len(got.Starts), got.Skipped, want)
				}
			}
		})
	}
}

// TestClaimsOfOneTransactionTell: each claim of a transaction is told what it needs.
func TestClaimsOfOneTransactionTell(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	blind(db)
	enqueue(t, db, submit(t, db, 4, 1))
	q := &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 2}, {Routes: []rowkey.Route{1, 2}, Limit: 3}, {Routes: []rowkey.Route{2}, Limit: 1}, {Limit: 1}}}
	locked(t, db, 1, 1, 0, func() {
		for range 2 {
			do(t, db, q, func(f *store.Facts, _ *draft) {
				want := []store.ClaimFacts{{More: true}, {Skipped: true}, {}, {}}
				if diff := cmp.Diff(want, f.Claims, cmpopts.IgnoreFields(store.ClaimFacts{}, "Steps", "Starts")); diff != "" {
					t.Errorf("claims (-want +got):\n%s", diff)
				}
			})
			supposeLone(db, 1, 2) // in vain, after the other claims
		}
	})
}

// TestLoneRoutesOfOneTransaction: two claims of one transaction share a route, and both assume that a
// route is alone, one of them in vain. Nothing is claimed twice, and a locked job is reported.
func TestLoneRoutesOfOneTransaction(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	blind(db)
	var jobs []rowkey.Job
	for i, route := range []rowkey.Route{1, 1, 2, 2, 2} {
		jobs = append(jobs, ranked(t, db, route, int64(i)).Key())
	}
	a, b := []rowkey.Route{1, 2}, []rowkey.Route{2, 3}
	for name, tt := range map[string]struct {
		claims []store.ClaimQuery
		want   []store.ClaimFacts
	}{
		"wrong first":  {[]store.ClaimQuery{{Routes: a, Limit: 2}, {Routes: b, Limit: 2}}, []store.ClaimFacts{{Starts: jobs[1:3], More: true}, {Starts: jobs[3:], More: true}}},
		"wrong last":   {[]store.ClaimQuery{{Routes: b, Limit: 2}, {Routes: a, Limit: 2}}, []store.ClaimFacts{{Starts: jobs[2:4], More: true}, {Starts: []rowkey.Job{jobs[1], jobs[4]}, More: true}}},
		"all there is": {[]store.ClaimQuery{{Routes: a, Limit: 5}, {Routes: b, Limit: 2}}, []store.ClaimFacts{{Starts: jobs[1:], Skipped: true}, {}}},
	} {
		locked(t, db, 1, 0, 1, func() {
			right, wrong := supposeLone(db, b...), supposeLone(db, a...)
			do(t, db, &store.Query{Claims: tt.claims}, func(f *store.Facts, _ *draft) {
				if diff := cmp.Diff(tt.want, f.Claims); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			})
			if right.loneRoute() != 2 || wrong.loneRoute() != 0 {
				t.Errorf("%s: then %d and %d are assumed to be alone, want 2 and none", name, right.loneRoute(), wrong.loneRoute())
			}
		})
	}
}

// TestClosingEndsALook: a look that takes long holds up no close.
func TestClosingEndsALook(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	tx, err := open(t, db.cfg.URL).pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "set local idle_in_transaction_session_timeout = 0; lock table job in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	h := db.lookback.claimCursor([]rowkey.Route{1})
	db.lookback.want(h)
	eventually(t, "the look begins", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return !h.looked.IsZero() })
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("close waits for a look")
	}
}
