package postgres

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

func first(j *pawl.Job) pawl.StepKey { return pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(1, 0)} }

func firsts(jobs []*pawl.Job) []pawl.StepKey {
	var keys []pawl.StepKey
	for _, j := range jobs {
		keys = append(keys, first(j))
	}
	return keys
}

func keysOf(jobs []*pawl.Job) []rowkey.Job {
	var keys []rowkey.Job
	for _, j := range jobs {
		keys = append(keys, j.Key())
	}
	return keys
}

// TestClaims: enqueued steps before pending jobs, one answer per query, nothing
// twice (T3, T5).
func TestClaims(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	a, b := submit(t, db, 3, 1), submit(t, db, 2, 2)
	pending := submit(t, db, 3, 2)
	paused := submit(t, db, 1, 2)
	enqueue(t, db, append(a[:3:3], b...))
	do(t, db, &store.Query{Jobs: keysOf(paused)}, func(f *store.Facts, d *draft) {
		j := f.Jobs[paused[0].Key()]
		j.Paused = true
		d.moveJob(j, lifecycle.JobPending, lifecycle.JobPause)
	})
	tests := map[string]struct {
		claims []store.ClaimQuery
		want   []store.ClaimFacts
	}{
		"one route":       {[]store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 2}}, []store.ClaimFacts{{Steps: firsts(a[:2]), More: true}}},
		"no route":        {[]store.ClaimQuery{{Limit: 2}}, []store.ClaimFacts{{}}},
		"no limit":        {[]store.ClaimQuery{{Routes: []rowkey.Route{1}}}, []store.ClaimFacts{{More: true}}},
		"starts fill up":  {[]store.ClaimQuery{{Routes: []rowkey.Route{2}, Limit: 4}}, []store.ClaimFacts{{Steps: firsts(b), Starts: keysOf(pending[:2]), More: true}}},
		"several routes":  {[]store.ClaimQuery{{Routes: []rowkey.Route{2, 1, 9, 1}, Limit: 4}}, []store.ClaimFacts{{Steps: firsts(append(a[:3:3], b[0])), More: true}}},
		"all there is":    {[]store.ClaimQuery{{Routes: []rowkey.Route{2, 1}, Limit: 50}}, []store.ClaimFacts{{Steps: firsts(append(a[:3:3], b...)), Starts: keysOf(pending)}}},
		"two of the same": {[]store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 1}, {Routes: []rowkey.Route{1}, Limit: 5}}, []store.ClaimFacts{{Steps: firsts(a[:1]), More: true}, {Steps: firsts(a[1:])}}},
		"overlapping": {[]store.ClaimQuery{{Routes: []rowkey.Route{1, 2}, Limit: 4}, {Routes: []rowkey.Route{2}, Limit: 3}},
			[]store.ClaimFacts{{Steps: firsts(append(a[:3:3], b[0])), More: true}, {Steps: firsts(b[1:]), Starts: keysOf(pending[:2]), More: true}}},
	}
	for name, tt := range tests {
		check := func(t *testing.T) {
			err := db.Do(t.Context(), &store.Query{Claims: tt.claims}, func(f *store.Facts) (*store.Changes, error) {
				if diff := cmp.Diff(tt.want, f.Claims); diff != "" {
					t.Errorf("claims (-want +got):\n%s", diff)
				}
				for _, c := range f.Claims {
					for _, key := range c.Starts {
						if f.Jobs[key] == nil || string(f.Jobs[key].Inputs) != `{"n":1}` || f.Steps[pawl.StepKey{Job: key, Ord: 1 << 20}] == nil {
							t.Errorf("start %d lacks its row, inputs or step", key)
						}
					}
				}
				return nil, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Run(name, check)
		t.Run(name+", for a lone route", func(t *testing.T) {
			for _, c := range tt.claims {
				if len(c.Routes) > 1 {
					supposeLone(db, c.Routes...)
				}
			}
			check(t)
		})
	}
}

// supposeLone makes the next claim from several routes assume that the first one has all there is.
func supposeLone(db *DB, routes ...rowkey.Route) *claimCursor {
	h := db.lookback.claimCursor(routes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lone, h.streak, h.vain = routes[0], loneAfter, 0
	return h
}

// TestLoneRoute: claims from several routes assume that one of them has all there is after some that
// took nothing else, and whatever else there is then is claimed in its turn, at once (T5, T9).
func TestLoneRoute(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	blind(db)
	routes := []rowkey.Route{1, 2}
	h := db.lookback.claimCursor(routes)
	claim := func(limit int, wantSteps []pawl.StepKey, wantStarts []rowkey.Job) {
		t.Helper()
		do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: limit}}}, func(f *store.Facts, _ *draft) {
			if diff := cmp.Diff([]store.ClaimFacts{{Steps: wantSteps, Starts: wantStarts, More: true}}, f.Claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
	var jobs []*pawl.Job
	for rank := range int64(4) {
		jobs = append(jobs, ranked(t, db, 1, 2*rank))
	}
	for i := range loneAfter {
		if lone := h.loneRoute(); lone != 0 {
			t.Errorf("after %d claims route %d is assumed to be alone", i, lone)
		}
		claim(2, nil, keysOf(jobs[:2]))
	}
	if lone := h.loneRoute(); lone != 1 {
		t.Errorf("route %d is assumed to be alone, want 1", lone)
	}
	claim(3, nil, keysOf(jobs[:3]))
	jobs = slices.Insert(jobs, 1, ranked(t, db, 2, 1))
	claim(2, nil, keysOf(jobs[:2]))
	if lone := h.loneRoute(); lone != 0 {
		t.Errorf("route %d is assumed to be alone after a job of another one was claimed", lone)
	}
	enqueue(t, db, jobs[3:])
	supposeLone(db, routes...)
	claim(3, firsts(jobs[3:]), keysOf(jobs[:1]))
	if lone := h.loneRoute(); lone != 0 {
		t.Errorf("route %d is assumed to be alone beside enqueued steps", lone)
	}
}

// ranked stores a job of one step. The step's rank, if it is enqueued, is behind the claim cursor.
func ranked(t *testing.T, db *DB, route rowkey.Route, rank int64) (j *pawl.Job) {
	do(t, db, &store.Query{}, func(f *store.Facts, d *draft) {
		j = d.newJob(route)
		j.Rank = rank
		d.newStep(j, 1, route).Rank = pawl.RankAt(f.Now, 0) + int64(time.Hour/time.Microsecond)
	})
	return j
}

// TestLoneRouteInVain: where jobs of another route follow behind a long stretch of one, few claims take
// a second statement.
func TestLoneRouteInVain(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	blind(db)
	submit(t, db, 400, 1)
	ranked(t, db, 2, pawl.RankAt(pawl.Micros(time.Now().Add(time.Hour)), 0))
	routes := []rowkey.Route{1, 2}
	h := db.lookback.claimCursor(routes)
	vain := 0
	for range 100 {
		if h.loneRoute() != 0 {
			vain++
		}
		do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 2}}}, func(f *store.Facts, _ *draft) {
			if len(f.Claims[0].Starts) != 2 {
				t.Errorf("%d jobs are claimed", len(f.Claims[0].Starts))
			}
		})
	}
	if vain < 1 || vain > 8 {
		t.Errorf("%d of 100 claims assumed in vain that a route is alone, want a few", vain)
	}
}

// TestClaimsBringBodiesOnce: a claim of a pending job brings its inputs and metadata, long ones with
// one row only, however many first steps the job has.
func TestClaimsBringBodiesOnce(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	long := []byte(`"` + strings.Repeat("x", 5000) + `"`)
	bodies := map[rowkey.Job][2]string{}
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for _, b := range [][2][]byte{{nil, nil}, {[]byte("1"), []byte("2")}, {long, nil}, {nil, long}, {long, long}} {
			j := d.newJob(1)
			j.Inputs, j.Metadata = b[0], b[1]
			bodies[j.Key()] = [2]string{string(b[0]), string(b[1])}
			for node := range 3 {
				d.newStep(j, node+1, 1)
			}
		}
	})
	for _, tt := range []struct {
		statement *statement
		routes    []rowkey.Route
	}{{claimOne, []rowkey.Route{1}}, {claimMany, []rowkey.Route{1, 2}}, {claimLone, []rowkey.Route{1, 2}}} {
		if tt.statement == claimLone {
			supposeLone(db, tt.routes...)
		}
		longRows := 0
		r := claimAlone(t, db, tt.routes, func(c *call) {
			if c.statement != tt.statement {
				t.Errorf("%v are claimed by %s", tt.routes, c.statement.name)
			}
			row := c.row
			c.row = func(c *cursor) {
				if len(bytes.Join(c.vals, nil)) > 5000 {
					longRows++
				}
				row(c)
			}
		})
		got := map[rowkey.Job][2]string{}
		for _, key := range r.groups[0].starts {
			got[key] = [2]string{string(r.Jobs[key].Inputs), string(r.Jobs[key].Metadata)}
		}
		if diff := cmp.Diff(bodies, got); diff != "" || len(r.Steps) != 3*len(bodies) || longRows != 3 {
			t.Errorf("%s: %d steps, and %d rows with long bodies, want 3; bodies (-want +got):\n%s", tt.statement.name, len(r.Steps), longRows, diff)
		}
	}
}

// claimAlone sends nothing but a claim, which prepare may change.
func claimAlone(t *testing.T, db *DB, routes []rowkey.Route, prepare func(*call)) *reading {
	t.Helper()
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	r := newReading(&store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 9}}})
	r.claimCursor = db.lookback.claimCursor
	p := db.pipe(conn)
	r.queueClaims(p)
	prepare(&p.calls[0])
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestClaimsPassOverWhatMoves: what gets another route between the snapshot of a claim and its locks is
// not claimed from the old one.
func TestClaimsPassOverWhatMoves(t *testing.T) {
	t.Parallel()
	db := freshOf(t, 10)
	blind(db)
	jobs := submit(t, db, 2, 1)
	enqueue(t, db, jobs[:1])
	other, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	run := func(sql string) {
		if _, err := other.Exec(context.Background(), sql); err != nil {
			t.Error(err)
		}
	}
	run("select pg_advisory_lock(7)")
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		await(t, db, "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')")
		run("update step set route = 3")
		run("update job set route = 3")
		run("select pg_advisory_unlock(7)")
	}()
	r := claimAlone(t, db, []rowkey.Route{1, 2}, func(c *call) {
		sql := c.statement.sql
		for _, heads := range []string{"h", "i"} { // are read before the lock is there
			sql = strings.Replace(sql, "from "+heads+" cross join", "from (select *, pg_advisory_xact_lock_shared(7) from "+heads+" offset 0) "+heads+" cross join", 1)
		}
		c.statement = &statement{"held_up", sql}
	})
	<-moved
	if g := r.groups[0]; len(g.steps)+len(g.starts) > 0 || !g.skipped {
		t.Errorf("steps %v and jobs %v are claimed, skipped %v; want none, and that there was more", g.steps, g.starts, g.skipped)
	}
	if n := finds(t, db, 3); n != 2 {
		t.Errorf("%d are found at the new route, want 2", n)
	}
}

// TestClaimsPassOverWhatIsLocked: two claimers at once get different work (T5).
func TestClaimsPassOverWhatIsLocked(t *testing.T) {
	t.Parallel()
	db := freshOf(t, 10) // five transactions, one in the other
	for _, routes := range [][]rowkey.Route{{1}, {2, 3}, {4, 5}} {
		a := submit(t, db, 4, routes[0])
		enqueue(t, db, a[:2])
		q := &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 1}}}
		want := []store.ClaimFacts{{Steps: firsts(a[:1]), More: true}, {Steps: firsts(a[1:2]), More: true}, {Starts: keysOf(a[2:3]), More: true, Skipped: true},
			{Starts: keysOf(a[3:]), More: true, Skipped: true}, {Skipped: true}}
		var got []store.ClaimFacts
		var claim func()
		claim = func() {
			if routes[0] > 3 {
				supposeLone(db, routes...)
			}
			err := db.Do(context.Background(), q, func(f *store.Facts) (*store.Changes, error) {
				if got = append(got, f.Claims[0]); len(got) < len(want) {
					claim() // while this transaction holds its locks
				}
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		claim()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes %v (-want +got):\n%s", routes, diff)
		}
	}
}

// TestRank: lower first, then older, whatever the priority (T9).
func TestRank(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var jobs []*pawl.Job
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for i, rank := range []int64{0, -5, 5, -5} {
			j := d.newJob(1)
			j.Rank, j.Priority = rank, i
			d.newStep(j, 1, 1).Rank = rank
			d.newStep(j, 2, 1).Unmet = 1
			jobs = append(jobs, j)
		}
	})
	order := []*pawl.Job{jobs[1], jobs[3], jobs[0], jobs[2]}
	for _, routes := range [][]rowkey.Route{{1}, {1, 2}} {
		do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 9}}}, func(f *store.Facts, _ *draft) {
			if diff := cmp.Diff(keysOf(order), f.Claims[0].Starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if len(f.Steps) != 4 {
				t.Errorf("%d steps, want the four without unmet needs", len(f.Steps))
			}
		})
	}
	do(t, db, &store.Query{Jobs: keysOf(jobs)}, func(f *store.Facts, d *draft) {
		for _, j := range f.Jobs {
			j.Route = 0
			d.moveJob(j, lifecycle.JobPending, lifecycle.JobPause)
		}
	})
	var ranked []store.Ranked
	for _, j := range order {
		ranked = append(ranked, store.Ranked{Rank: j.Rank, Job: j.Key()})
	}
	if a, err := db.Look(t.Context(), store.LookQuery{Limit: 3, Pending: ranked[0]}); err != nil || !cmp.Equal(a.Pending, ranked[1:]) {
		t.Errorf("agenda %v, %v, want %v", a.Pending, err, ranked[1:])
	}
	enqueue(t, db, jobs)
	db = open(t, db.cfg.URL) // which has not seen yet that there is nothing so old
	for _, routes := range [][]rowkey.Route{{1}, {1, 2}} {
		do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: routes, Limit: 3}}}, func(f *store.Facts, _ *draft) {
			if diff := cmp.Diff(firsts(order[:3]), f.Claims[0].Steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodes: the nodes of each job in order, and none of their instances.
func TestNodes(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	want := map[rowkey.Job][]pawl.StepKey{}
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for _, nodes := range [][]int{{1, 2, 5, 1000}, {3}, {1}, {}} {
			j := d.newJob(0)
			for _, node := range nodes {
				want[j.Key()] = append(want[j.Key()], d.newStep(j, node, 0).StepKey)
				for instance := 1; instance <= node%5*20; instance++ {
					d.newStepAt(j, pawl.MakeOrd(node, instance), 0)
				}
			}
		}
	})
	q := &store.Query{Jobs: slices.Collect(maps.Keys(want)), Nodes: slices.Collect(maps.Keys(want))}
	q.Nodes = append(q.Nodes, q.Nodes[0])
	do(t, db, q, func(f *store.Facts, _ *draft) {
		if diff := cmp.Diff(want, f.Nodes); diff != "" || len(f.Steps) != 6 {
			t.Errorf("%d steps, want 6; nodes (-want +got):\n%s", len(f.Steps), diff)
		}
	})
}

// TestStepsFoundByWhatTheyAre reads marked, waiting, open and held steps.
func TestStepsFoundByWhatTheyAre(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var j *pawl.Job
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		j = d.newJob(0)
		for node := 1; node <= 6; node++ {
			d.newStep(j, node, 1)
		}
		s := d.NewSteps
		s[0].State, s[0].Mark, s[0].MarkAt = lifecycle.StepComplete, pawl.Attention, 7
		s[1].Mark, s[2].Mark, s[2].Priority, s[3].Mark = pawl.Waiting, pawl.Waiting, 1, pawl.Waiting
		s[4].State, s[4].Worker = lifecycle.StepInProgress, 77
		s[5].State = lifecycle.StepSkipped
	})
	k := func(nodes ...int) []pawl.StepKey {
		var keys []pawl.StepKey
		for _, n := range nodes {
			keys = append(keys, pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(n, 0)})
		}
		return keys
	}
	one := []rowkey.Job{j.Key()}
	q := &store.Query{Jobs: one, Waiting: []store.JobLimit{{Job: j.Key(), Limit: 2}}, Open: one, Held: []rowkey.Worker{77}, Steps: append(k(6, 6), pawl.StepKey{Job: 3, Ord: 3})}
	do(t, db, q, func(f *store.Facts, _ *draft) {
		if diff := cmp.Diff(map[rowkey.Job][]pawl.StepKey{j.Key(): k(3, 2)}, f.Waiting); diff != "" {
			t.Errorf("waiting:\n%s", diff)
		}
		if diff := cmp.Diff(map[rowkey.Job][]pawl.StepKey{j.Key(): k(2, 3, 4, 5)}, f.Open); diff != "" {
			t.Errorf("open:\n%s", diff)
		}
		if diff := cmp.Diff(map[rowkey.Worker][]pawl.StepKey{77: k(5)}, f.Held); diff != "" {
			t.Errorf("held:\n%s", diff)
		}
		if len(f.Steps) != 5 {
			t.Errorf("%d steps, want each of the five once", len(f.Steps))
		}
	})
	a, err := db.Look(t.Context(), store.LookQuery{Limit: 10})
	if err != nil || !cmp.Equal(a.Marked, []store.Marked{{At: 7, Job: j.Key()}}) || !cmp.Equal(a.Pending, []store.Ranked{{Job: j.Key()}}) || a.Now == 0 {
		t.Errorf("agenda %+v, %v", a, err)
	}
	marked, err := db.Marked(t.Context(), j.Key())
	if err != nil || len(marked) != 1 || marked[0].StepKey != k(1)[0] {
		t.Errorf("marked view: %v, %v", marked, err)
	}
	counts, err := db.StepCounts(t.Context(), j.Key())
	if err != nil || counts[lifecycle.StepPending] != 3 || counts[lifecycle.StepSkipped] != 1 {
		t.Errorf("counts: %v, %v", counts, err)
	}
}
