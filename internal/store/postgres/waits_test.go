package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// waiting is the query of a report in a job of which up to limit steps may get a slot. It names none.
func (p *pair) waiting(limit int) *store.Query {
	q := *p.q
	q.Steps, q.Waiting = nil, []store.JobLimit{{Job: p.job.Key(), Limit: limit}, {Job: p.job.Key(), Limit: limit}}
	return &q
}

// letWait lets steps wait for a slot.
func (p *pair) letWait(db *DB, keys ...pawl.StepKey) {
	p.Helper()
	q := p.waiting(10)
	q.Steps = keys
	do(p, db, q, func(f *store.Facts, d *draft) {
		for _, k := range keys {
			p.mark(f, d, k, pawl.Waiting)
		}
		p.keep(f, d)
	})
}

// mark changes nothing but the mark of a step.
func (p *pair) mark(f *store.Facts, d *draft, key pawl.StepKey, m pawl.Mark) {
	s := f.Steps[key]
	s.Mark = m
	d.Steps = append(d.Steps, store.Update[*pawl.Step]{Record: s, Was: s.Seq})
}

// wantWaiting expects the handle to decide this many times about the query, the last time with these
// steps in sight.
func (p *pair) wantWaiting(db *DB, q *store.Query, times int, want ...pawl.StepKey) {
	p.Helper()
	decided, got := 0, []pawl.StepKey(nil)
	do(p, db, q, func(f *store.Facts, d *draft) {
		decided++
		got = f.Waiting[p.job.Key()]
		for _, k := range got {
			if f.Steps[k] == nil || f.Steps[k].Mark != pawl.Waiting {
				p.Errorf("step %s waits, and is read as %v", k, f.Steps[k])
			}
		}
		p.keep(f, d)
	})
	if diff := cmp.Diff(want, got); diff != "" || decided != times {
		p.Errorf("decided %d times, want %d; what waits (-want +got):\n%s", decided, times, diff)
	}
}

// knowsWaiting reports whether a handle would find what waits without reading.
func (p *pair) knowsWaiting(db *DB) bool { return db.cache.find(p.waiting(10), &db.rooms) != nil }

// TestWhatWaitsIsKnown (J7): a process that has written all that waits in a job reads nothing to
// find it, also if it claims beside.
func TestWhatWaitsIsKnown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.letWait(p.a, p.second)
	if !p.knowsWaiting(p.a) {
		t.Fatal("it is not known")
	}
	p.wantWaiting(p.a, p.waiting(10), 1, p.second)
	q := p.waiting(10)
	q.Claims = []store.ClaimQuery{{Routes: []rowkey.Route{9}, Limit: 5}}
	r := newReading(q)
	if p.a.cache.recall(r); !r.recalled {
		t.Error("it is not recalled beside a claim")
	}
	p.wantWaiting(p.a, q, 1, p.second)
}

// TestWhatOthersLetWait (J7): a step that another process lets wait is in sight of the next
// decision, also beside a claim, and so is one that begins to wait as it is tried again.
func TestWhatOthersLetWait(t *testing.T) {
	t.Parallel()
	retry := func(p *pair) {
		do(p, p.b, p.q, func(f *store.Facts, d *draft) {
			s := f.Steps[p.first]
			s.Mark = pawl.Waiting
			d.moveStep(p.job.ID, s, lifecycle.StepFail, lifecycle.StepRetryableError, lifecycle.StepRetry, lifecycle.StepPending)
			p.keep(f, d)
		})
	}
	for name, tt := range map[string]struct {
		other  func(p *pair)
		claims []store.ClaimQuery
	}{
		"a mark":         {other: func(p *pair) { p.letWait(p.b, p.first) }},
		"beside a claim": {other: func(p *pair) { p.letWait(p.b, p.first) }, claims: []store.ClaimQuery{{Routes: []rowkey.Route{9}, Limit: 5}}},
		"a retry":        {other: retry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.letWait(p.a, p.second)
			tt.other(p)
			q := p.waiting(10)
			q.Claims = tt.claims
			p.wantWaiting(p.a, q, 2, p.first, p.second)
		})
	}
}

// TestWhatWaitsIsNotAllKnown (J7): what was read only in part, or not written, is read again.
func TestWhatWaitsIsNotAllKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ limit int }{
		"no more than may get a slot were read":    {limit: 1},
		"one is not among those that were written": {limit: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.letWait(p.a, p.first) // it is in progress, like the node of a fan-out: not read ahead
			p.wantWaiting(p.b, p.waiting(tt.limit), 1, p.first)
			if p.knowsWaiting(p.b) {
				t.Error("it is taken for known")
			}
			p.wantWaiting(p.b, p.waiting(tt.limit), 1, p.first)
		})
	}
}

// TestMoreWaitThanAreKept (J7): if more steps of a job wait than are kept, they are read.
func TestMoreWaitThanAreKept(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if p.wantWaiting(p.a, p.waiting(10), 1); !p.knowsWaiting(p.a) {
		t.Fatal("that nothing waits is not known")
	}
	var keys []pawl.StepKey
	do(t, p.a, p.waiting(10), func(f *store.Facts, d *draft) {
		for i := range maxCachedSteps + 3 {
			s := d.newStepAt(f.Jobs[p.job.Key()], pawl.MakeOrd(3, i+1), 1)
			s.Mark = pawl.Waiting
			keys = append(keys, s.StepKey)
		}
		p.keep(f, d)
	})
	if p.knowsWaiting(p.a) {
		t.Error("they are taken for known")
	}
	p.wantWaiting(p.a, p.waiting(100), 1, keys...)
}

// late runs a transaction whose put comes after that of meanwhile.
func (p *pair) late(q *store.Query, meanwhile func(), decide func(*store.Facts, *draft)) {
	p.Helper()
	db := p.a
	facts := db.cache.find(q, &db.rooms)
	conn, err := db.pool.Acquire(p.Context())
	if facts == nil && err == nil {
		conn.Release()
		conn, facts, err = db.begin(p.Context(), q)
	}
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Release()
	d := &draft{now: facts.Now}
	decide(facts.Facts, d)
	w, err := db.encode(facts, &d.Changes)
	if err == nil {
		err = db.commit(p.Context(), conn, nil, w, writeLimit)
	}
	if err != nil {
		p.Fatal(err)
	}
	meanwhile()
	db.cache.put(facts, &d.Changes, &w.stamp)
}

// TestALatePutHidesNothingThatWaits (J7, K5): claims, and transactions that wait for pools, do not
// wait for other transactions on a job. What they have written may be put into the cache after
// what followed on it.
func TestALatePutHidesNothingThatWaits(t *testing.T) {
	t.Parallel()
	begin := func(p *pair) func(f *store.Facts, d *draft) {
		return func(f *store.Facts, d *draft) {
			d.moveStep(p.job.ID, f.Steps[p.second], lifecycle.StepEnqueue, lifecycle.StepEnqueued, lifecycle.StepClaim, lifecycle.StepInProgress)
		}
	}
	for name, tt := range map[string]struct {
		query func(p *pair) *store.Query
		late  func(p *pair) func(f *store.Facts, d *draft)
		wait  func(p *pair) // lets the second step wait
	}{
		"a claim": {
			query: func(p *pair) *store.Query { return &store.Query{Steps: []pawl.StepKey{p.second}} }, late: begin,
			wait: func(p *pair) {
				do(p, p.a, p.q, func(f *store.Facts, d *draft) {
					s := f.Steps[p.second]
					s.Mark = pawl.Waiting
					d.moveStep(p.job.ID, s, lifecycle.StepFail, lifecycle.StepRetryableError, lifecycle.StepRetry, lifecycle.StepPending)
					p.keep(f, d)
				})
			},
		},
		"a mark that is cleared with the job": {
			query: func(p *pair) *store.Query { return p.pooled() },
			late: func(p *pair) func(f *store.Facts, d *draft) {
				return func(f *store.Facts, d *draft) {
					p.mark(f, d, p.second, pawl.Clear)
					p.keep(f, d)
				}
			},
			wait: func(p *pair) { p.letWait(p.a, p.second) },
		},
		"a mark that is cleared without the job": {
			query: func(p *pair) *store.Query { return p.pooled() },
			late: func(p *pair) func(f *store.Facts, d *draft) {
				return func(f *store.Facts, d *draft) { p.mark(f, d, p.second, pawl.Clear) }
			},
			wait: func(p *pair) { p.letWait(p.a, p.second) },
		},
		"a mark that is cleared on what is known": {
			query: func(p *pair) *store.Query { return p.named() },
			late: func(p *pair) func(f *store.Facts, d *draft) {
				return func(f *store.Facts, d *draft) { p.mark(f, d, p.second, pawl.Clear) }
			},
			wait: func(p *pair) {
				do(p, p.a, p.pooled(), func(f *store.Facts, d *draft) {
					p.mark(f, d, p.second, pawl.Waiting)
					p.keep(f, d)
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.wantWaiting(p.a, p.waiting(10), 1)
			p.late(tt.query(p), func() { tt.wait(p) }, tt.late(p))
			for range 2 {
				var got []pawl.StepKey
				do(t, p.a, p.waiting(10), func(f *store.Facts, d *draft) {
					got = f.Waiting[p.job.Key()]
					p.keep(f, d)
				})
				if diff := cmp.Diff([]pawl.StepKey{p.second}, got); diff != "" {
					t.Errorf("what waits (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// pooled is the query of a transaction that waits for pools.
func (p *pair) pooled() *store.Query {
	q := p.waiting(10)
	q.Steps, q.Pools = []pawl.StepKey{p.second}, []store.Pool{{Kind: store.PoolJobs, Key: 1}}
	return q
}

// named is the query of a transaction on what is known.
func (p *pair) named() *store.Query {
	q := *p.q
	q.Watched = nil
	return &q
}
