package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// waiting is the query of a report in a job of which up to limit steps may get a slot.
func (p *pair) waiting(limit int) *store.Query {
	q := *p.q
	q.Waiting = []store.JobLimit{{Job: p.job.Key(), Limit: limit}, {Job: p.job.Key(), Limit: limit}}
	return &q
}

// letWait lets a step wait for a slot.
func (p *pair) letWait(db *DB, key pawl.StepKey) {
	p.Helper()
	do(p, db, p.waiting(10), func(f *store.Facts, d *draft) {
		s := f.Steps[key]
		s.Mark = pawl.Waiting
		d.Steps = append(d.Steps, store.Update[*pawl.Step]{Record: s, Was: s.Seq})
		p.keep(f, d)
	})
}

// wantWaiting expects that a handle decides so often about the query, the last time with these steps
// in sight.
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

// TestWhatWaitsIsKnown (J7): a process that has written all that waits in a job reads nothing to
// find it, also if it claims beside.
func TestWhatWaitsIsKnown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.letWait(p.a, p.second)
	if p.a.cache.find(p.waiting(10)) == nil {
		t.Fatal("it is not known")
	}
	p.wantWaiting(p.a, p.waiting(10), 1, p.second)
	q := p.waiting(10)
	q.Claims = []store.ClaimQuery{{Routes: []rowkey.Route{9}, Limit: 5}}
	p.wantWaiting(p.a, q, 1, p.second)
}

// TestWhatOthersLetWait (J7): a step that another process lets wait is in sight of the next
// decision.
func TestWhatOthersLetWait(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.letWait(p.a, p.second)
	p.letWait(p.b, p.first)
	p.wantWaiting(p.a, p.waiting(10), 2, p.first, p.second)
}

// TestWhatWaitsIsNotAllKnown (J7): what was read only in part, or not written, is read again.
func TestWhatWaitsIsNotAllKnown(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]func(p *pair) *store.Query{
		"no more than may get a slot were read": func(p *pair) *store.Query { return p.waiting(1) },
		"one is not among those that were written": func(p *pair) *store.Query {
			q := p.waiting(10)
			q.Steps = []pawl.StepKey{p.first}
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.letWait(p.a, p.second)
			p.wantWaiting(p.b, q(p), 1, p.second)
			if p.b.cache.find(p.waiting(10)) != nil {
				t.Error("it is taken for known")
			}
			p.wantWaiting(p.b, q(p), 1, p.second)
		})
	}
}
