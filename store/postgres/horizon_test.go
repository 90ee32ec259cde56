package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// looksBack has all looks from the beginning take too long for beats, and the
// horizon of a route where nothing that is there lies behind it.
func looksBack(db *DB, route int64) *horizon {
	h := db.horizons.of([]int64{route})
	later := pawl.RankAt(pawl.Micros(time.Now().Add(time.Hour)), 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took, h.from, h.next = time.Hour, sight{later, later}, time.Now().Add(time.Hour)
	return h
}

// TestLookBeforeTheHorizon: what lies before the horizon is found by a look that is
// not a claim's, and claimed then; a beat tells of it (T5, J4).
func TestLookBeforeTheHorizon(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(db *DB, q *store.Query) (found bool){
		"by claims": func(db *DB, q *store.Query) (found bool) {
			err := db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
				found = len(f.Claims[0].Steps)+len(f.Claims[0].Starts) == 1
				return nil, nil
			})
			return err == nil && found
		},
		"by beats": func(db *DB, q *store.Query) bool {
			answer, err := db.Beat(t.Context(), store.Pulse{Routes: q.Claims[0].Routes})
			return err == nil && answer.Work
		},
	} {
		for _, enqueued := range []bool{false, true} {
			db := fresh(t)
			jobs := submit(t, db, 1, 1)
			if enqueued {
				enqueue(t, db, jobs)
			}
			q := &store.Query{Claims: []store.ClaimQuery{{Routes: []int64{1}, Limit: 5}}}
			h := looksBack(db, 1)
			if ask(db, q) {
				t.Fatalf("%s: found before anybody has looked before the horizon", name)
			}
			h.mu.Lock()
			h.next = time.Time{}
			h.mu.Unlock()
			for deadline := time.Now().Add(30 * time.Second); !ask(db, q); {
				if time.Now().After(deadline) {
					t.Fatalf("%s, enqueued %v: never found", name, enqueued)
				}
			}
		}
	}
}

// TestBeatsOfWhatNobodyClaims: where no claim moves the horizon of the routes that a beat
// names, and looks from the beginning are dear, the beat makes none: it would be given up,
// and the worker taken for dead. A look in the background finds the work (T10).
func TestBeatsOfWhatNobodyClaims(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 1, 1)
	h := looksBack(db, 1)
	h.mu.Lock()
	h.from = beginning
	h.mu.Unlock()
	work := func() bool {
		answer, err := db.Beat(t.Context(), store.Pulse{Routes: []int64{1}})
		return err == nil && answer.Work
	}
	if work() {
		t.Fatal("a beat has made a dear look")
	}
	h.mu.Lock()
	h.next = time.Time{}
	h.mu.Unlock()
	for deadline := time.Now().Add(30 * time.Second); !work(); {
		if time.Now().After(deadline) {
			t.Fatal("never found")
		}
	}
	db.horizons.looking.Lock() // it is over
	defer db.horizons.looking.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.under) != 0 || h.from.steps == beginning.steps || h.from.jobs == beginning.jobs {
		t.Errorf("%d looks are under way, and the horizon is at %v after one", len(h.under), h.from)
	}
}

// TestARouteTwice: a worker whose queues are named twice has the horizon that its claims
// move, and not one for its beats that stays at the beginning (T10).
func TestARouteTwice(t *testing.T) {
	t.Parallel()
	all := new(horizons)
	if all.of([]int64{2, 1, 2}) != all.of([]int64{1, 2}) {
		t.Error("the same routes have two horizons")
	}
}

// begun answers a claim of one step and one job that begins now.
func begun(h *horizon) *claimGroup {
	g := &claimGroup{limit: 1, atLeast: 1}
	h.begin(g)
	return g
}

// TestCheapLook: while looks from the beginning are cheap, the claim that comes after a
// while makes one, and finds at once what lies before the horizon; and so it does with
// more of that than it can take (T5, J4).
func TestCheapLook(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	enqueue(t, db, submit(t, db, 3, 1))
	h := looksBack(db, 1)
	h.mu.Lock()
	h.took, h.next = 0, time.Time{}
	h.mu.Unlock()
	for n := 3; n > 0; n-- {
		do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: []int64{1}, Limit: 1}}}, func(f *store.Facts, d *draft) {
			if len(f.Claims[0].Steps) != 1 {
				t.Fatalf("claimed %d steps with %d before the horizon; want 1", len(f.Claims[0].Steps), n)
			}
			k := f.Claims[0].Steps[0]
			d.moveStep(f.Jobs[k.Job].ID, f.Steps[k], lifecycle.StepClaim, lifecycle.StepInProgress)
		})
	}
}

// TestHorizonIsSetBack: claims that failed have locked what others passed over, so
// that the next one looks from where they did (T5).
func TestHorizonIsSetBack(t *testing.T) {
	t.Parallel()
	const minute = int64(time.Minute / time.Microsecond)
	start := sight{minute, minute}
	now := 10 * minute
	reach := now - horizonAt.Microseconds()
	h := &horizon{from: start, next: time.Now().Add(time.Hour)}
	failing, other, slow := begun(h), begun(h), begun(h)
	h.end(other, now, nowhere)
	if h.from != (sight{reach, reach}) {
		t.Fatalf("horizon at %v after a claim that found nothing; want %d", h.from, reach)
	}
	h.end(failing, now, failing.from)
	if h.from != start {
		t.Fatalf("horizon at %v after a claim that failed; want %v, where it had looked from", h.from, start)
	}
	h.end(slow, now, nowhere) // it passed over what the failing one had locked
	if h.from != start {
		t.Fatalf("horizon at %v after a claim that had begun before; want %v", h.from, start)
	}
	failing, slow = begun(h), begun(h)
	h.end(failing, now, failing.from) // and the horizon has not moved meanwhile
	if h.end(slow, now, nowhere); h.from != start {
		t.Fatalf("horizon at %v after a claim that had begun before; want %v", h.from, start)
	}
	if h.end(begun(h), now, nowhere); h.from != (sight{reach, reach}) {
		t.Fatalf("horizon at %v after one that began later; want %d", h.from, reach)
	}
}

// TestHorizonMovesOnToWhatIsLeft: claims that leave something of what they found, as
// those of a worker with long jobs do in nearly every commit, move the horizon on to that,
// also while another is always under way (T10).
func TestHorizonMovesOnToWhatIsLeft(t *testing.T) {
	t.Parallel()
	const minute = int64(time.Minute / time.Microsecond)
	now := 1000 * minute
	h := &horizon{from: beginning}
	before := begun(h)
	for i := int64(1); i < 10; i++ {
		next, left := begun(h), sight{i * minute, i*minute + 1}
		before.found = []claimable{{rank: left.steps}, {rank: left.jobs, starts: true}}
		before.limit = 2
		if h.end(before, now, left); i > 2 && h.from.jobs < (i-2)*minute {
			t.Fatalf("horizon at %v after a claim that left what is at %v", h.from, left)
		}
		if h.from.steps > left.steps || h.from.jobs > left.jobs {
			t.Fatalf("horizon at %v, beyond what was left at %v", h.from, left)
		}
		before = next
	}
}

// TestEveryClaimEnds: what fails before anything is decided, or cannot be written, sets
// the horizon back like what cannot be committed (T5).
func TestEveryClaimEnds(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	jobs := submit(t, db, 2, 1)
	q := &store.Query{Jobs: []int64{jobs[0].Key()}, Claims: []store.ClaimQuery{{Routes: []int64{1}, Limit: 5}}}
	h := db.horizons.of([]int64{1})
	h.next = time.Now().Add(time.Hour) // no look but those of the claims
	err := other.Do(t.Context(), &store.Query{Jobs: q.Jobs}, func(*store.Facts) (*store.Changes, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return nil, db.Do(ctx, q, func(*store.Facts) (*store.Changes, error) { return nil, nil })
	})
	if err == nil {
		t.Fatal("a transaction that waits for a lock succeeded")
	}
	if len(h.under) != 0 {
		t.Errorf("%d claims are under way after one that could not read", len(h.under))
	}
	if h.took < cheapLook {
		t.Errorf("a claim that was given up after 100 ms is noted as %v", h.took)
	}
	if err := try(db, q, func(f *store.Facts, d *draft) {
		j := f.Jobs[jobs[0].Key()]
		d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: j, Was: 99})
	}); err == nil {
		t.Fatal("a transaction that changes what is not there succeeded")
	}
	if len(h.under) != 0 || h.from != beginning {
		t.Errorf("%d claims are under way, and the horizon is at %v, after one that could not write", len(h.under), h.from)
	}
}

// TestAFailedLookIsNotCheap: a look from the beginning that took all the time that a beat
// has is not made by the next one, nor after a short look that failed (T10).
func TestAFailedLookIsNotCheap(t *testing.T) {
	t.Parallel()
	later := sight{1, 1}
	h := &horizon{from: later}
	h.looked(h.glance(), sessionLimit, true)
	if from := h.glance(); from != later {
		t.Fatalf("beats look from %v after one that failed for the time it took; want %v", from, later)
	}
	h.looked(beginning, 0, true)
	if from := h.glance(); from != later {
		t.Fatalf("beats look from %v after a short look that failed; want %v", from, later)
	}
	h.looked(beginning, 0, false)
	if from := h.glance(); from != beginning {
		t.Fatalf("beats look from %v after a short look; want the beginning", from)
	}
	h.looked(sight{1, beginning.jobs}, time.Second, false)
	if from := h.glance(); from != later {
		t.Fatalf("beats look from %v after a look that was long in one queue; want %v", from, later)
	}
}

// TestABeatThatFailsCounts: a beat that was given up has told how long it takes (T10).
func TestABeatThatFailsCounts(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "set local idle_in_transaction_session_timeout = 0; lock table beat in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	p := store.Pulse{Worker: 7, Routes: []int64{1}}
	if _, err := db.Beat(t.Context(), p); err == nil {
		t.Fatal("a beat that cannot be written succeeded")
	}
	if h := db.horizons.of(p.Routes); h.took < cheapLook {
		t.Fatalf("a beat that was given up after %v is noted as %v", sessionLimit, h.took)
	}
}
