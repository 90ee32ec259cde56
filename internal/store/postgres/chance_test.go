package postgres

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A chance is counted: it is not how long claims take, but whether one that comes back short
// without a word of more, or of what it has passed over, leaves something that was there
// before it began. Its worker would rest beside it.
type chances struct {
	t      *testing.T
	db     *DB // of those who make the jobs and count what is there
	mu     sync.Mutex
	there  map[rowkey.Job]bool // jobs whose commit has been answered
	missed int
	short  int
	claims int
}

// add makes jobs that have waited for so long, some with their step enqueued. Only those are counted whose transaction was
// shorter than the claim cursor lies back.
func (c *chances) add(n int, age time.Duration, routes ...rowkey.Route) {
	begun := time.Now()
	var keys []rowkey.Job
	err := try(c.db, &store.Query{}, func(f *store.Facts, d *draft) {
		keys = keys[:0]
		for range n {
			route := routes[rand.N(len(routes))]
			j := d.newJob(route)
			s := d.newStep(j, 1, route)
			j.Rank = pawl.RankAt(f.Now-age.Microseconds(), 0)
			s.Rank = j.Rank
			if rand.N(2) == 0 {
				j.State, s.State = lifecycle.JobRunning, lifecycle.StepEnqueued
			}
			keys = append(keys, j.Key())
		}
	})
	if err != nil {
		c.t.Error(err)
		return
	}
	if age > cursorLag || time.Since(begun) < cursorLag*4/5 {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range keys {
			c.there[k] = true
		}
	}
}

// claim takes some of what it finds, or nothing, and sometimes fails.
func (c *chances) claim(db *DB, limit int, routes []rowkey.Route) {
	c.mu.Lock()
	before := make([]rowkey.Job, 0, len(c.there))
	for k := range c.there {
		before = append(before, k)
	}
	c.mu.Unlock()
	if rand.N(2) == 0 {
		supposeLone(db, routes...)
	}
	q := &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: limit, Starts: rand.N(2)}}}
	err := try(db, q, func(f *store.Facts, d *draft) {
		got := f.Claims[0]
		c.judge(before, got, limit, routes)
		if rand.N(4) == 0 { // it fails, or leaves all
			d.now = 0
			return
		}
		for _, k := range got.Steps {
			if s := f.Steps[k]; rand.N(8) > 0 {
				s.Worker, s.Claims = 1, s.Claims+1
				d.moveStep(f.Jobs[k.Job].ID, s, lifecycle.StepClaim, lifecycle.StepInProgress)
			}
		}
		for _, k := range got.Starts {
			if j := f.Jobs[k]; rand.N(8) > 0 {
				j.Inputs, j.Metadata = nil, nil
				d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
			}
		}
	})
	if err != nil {
		c.t.Error(err)
	}
}

// judge counts what a claim has missed that says that there is nothing else.
func (c *chances) judge(before []rowkey.Job, got store.ClaimFacts, limit int, routes []rowkey.Route) {
	c.mu.Lock()
	c.claims++
	c.mu.Unlock()
	if len(got.Steps)+len(got.Starts) >= limit || got.More || got.Skipped {
		return
	}
	var taken []rowkey.Job
	for _, k := range got.Steps {
		taken = append(taken, k.Job)
	}
	taken = append(taken, got.Starts...)
	var missed int
	err := c.db.query(c.t.Context(), "count what is there", `select count(*) from (
  select id as job from job where line = 1 and not paused and route = any($1::bigint[])
  union all select job from step where line = 1 and route = any($1::bigint[])) x
where job = any($2::bigint[]) and job <> all($3::bigint[])`, func(cur *cursor) { missed = cur.int() }, bigints(routes), bigints(before), bigints(append(taken, 0)))
	if err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.short++
	if c.missed += missed; missed > 0 && c.missed == missed {
		c.t.Errorf("a claim of %d from %v has found %d, and missed %d without a word", limit, routes, len(taken), missed)
	}
}

// TestNoChanceIsMissed: several claimers of several processes, each with claims under way at
// once, with windows that the others' locks fill, and with claims that fail or leave what
// they have locked: none that comes back short says that there is nothing while something
// that it may take is pending (T3, T5). No look from the beginning helps.
func TestNoChanceIsMissed(t *testing.T) {
	t.Parallel()
	c := &chances{t: t, db: fresh(t), there: map[rowkey.Job]bool{}}
	blind(c.db)
	c.add(1000, time.Hour, 1, 2, 3)
	var makers, claimers sync.WaitGroup
	end := make(chan struct{})
	makers.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				c.add(rand.N(20), 0, 1, 2, 3)
			}
		}
	})
	for range 3 {
		db := open(t, c.db.cfg.URL)
		blind(db)
		for range 2 {
			claimers.Go(func() {
				for range 60 {
					routes := slices.Clone([][]rowkey.Route{{1}, {2}, {3}, {1, 2}, {1, 2, 3}}[rand.N(5)])
					c.claim(db, []int{1, 3, 20, 100}[rand.N(4)], routes)
				}
			})
		}
	}
	claimers.Wait()
	close(end)
	makers.Wait()
	if c.missed > 0 {
		t.Errorf("%d missed in %d claims of %d that came back short", c.missed, c.short, c.claims)
	}
	t.Logf("%d claims, %d of them short", c.claims, c.short)
}
