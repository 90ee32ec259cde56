package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// claiming is the query of a worker that reports what it runs, and asks for more.
func (p *pair) claiming() *store.Query {
	q := *p.q
	q.Claims = []store.ClaimQuery{{Routes: []rowkey.Route{9}, Limit: 5}}
	return &q
}

// reportAndBegin ends the first step, looks at the second, and begins the job that was claimed.
func (p *pair) reportAndBegin(f *store.Facts, d *draft) {
	d.moveStep(p.job.ID, f.Steps[p.first], lifecycle.StepSuccess, lifecycle.StepComplete)
	f.Jobs[p.job.Key()].Active++
	p.keep(f, d)
	for _, key := range f.Claims[0].Starts {
		d.moveJob(f.Jobs[key], lifecycle.JobRunning, lifecycle.JobAllocateResources)
	}
}

// free reports whether nobody has a job locked.
func (p *pair) free(key rowkey.Job) bool {
	p.Helper()
	var n int
	if err := p.b.pool.QueryRow(p.Context(), "select count(*) from (select 1 from job where id = $1 for update skip locked) x", int64(key)).Scan(&n); err != nil {
		p.Fatal(err)
	}
	return n == 1
}

// TestAReportBesideAClaimIsRecalled: rows that this process has written are not read and locked
// again because the worker asks for more with its report; what is claimed is locked.
func TestAReportBesideAClaimIsRecalled(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	claimed := submit(t, p.b, 1, 9)[0]
	decided := 0
	do(t, p.a, p.claiming(), func(f *store.Facts, d *draft) {
		if decided++; !p.free(p.job.Key()) || p.free(claimed.Key()) {
			t.Errorf("the job that is reported is free: %v, and the one that is claimed: %v", p.free(p.job.Key()), p.free(claimed.Key()))
		}
		p.reportAndBegin(f, d)
	})
	if decided != 1 {
		t.Errorf("decided %d times", decided)
	}
	p.wantReported(claimed)
}

// TestARecallBesideALoneRoute: a claim that assumes wrongly that a route is alone takes its second
// statement behind the limit of waits of such a transaction, passes over what others have locked, and
// is decided once.
func TestARecallBesideALoneRoute(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	blind(p.a)
	jobs := submit(t, p.b, 3, 9)
	enqueue(t, p.b, submit(t, p.b, 1, 9))
	q := p.claiming()
	q.Claims[0].Routes = []rowkey.Route{8, 9}
	supposeLone(p.a, 9, 8)
	decided := 0
	locked(t, p.b, 9, 1, 1, func() {
		do(t, p.a, q, func(f *store.Facts, d *draft) {
			decided++
			if diff := cmp.Diff([]store.ClaimFacts{{Starts: keysOf(jobs[1:]), Skipped: true}}, f.Claims); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			p.reportAndBegin(f, d)
		})
	})
	if lone := p.a.lookback.claimCursor(q.Claims[0].Routes).loneRoute(); decided != 1 || lone != 0 {
		t.Errorf("decided %d times; then route %d is assumed to be alone", decided, lone)
	}
	p.wantReported(jobs[1])
}

// TestRecalledRowsThatOthersChanged (K5): what another process has changed meanwhile, whether it
// is written or only read here, makes the decision be made anew on what is there, and the claim
// is made once.
func TestRecalledRowsThatOthersChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *pair, f *store.Facts, d *draft){
		"the job": func(p *pair, f *store.Facts, d *draft) { p.keep(f, d) },
		"a step that is only read": func(p *pair, f *store.Facts, d *draft) {
			d.moveStep(p.job.ID, f.Steps[p.second], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			claimed := submit(t, p.b, 1, 9)[0]
			do(t, p.b, p.q, func(f *store.Facts, d *draft) { change(p, f, d) })
			var seen []int64
			do(t, p.a, p.claiming(), func(f *store.Facts, d *draft) {
				seen = append(seen, f.Jobs[p.job.Key()].Seq+f.Steps[p.second].Seq)
				p.reportAndBegin(f, d)
			})
			if len(seen) != 2 || seen[1] != seen[0]+1 {
				t.Errorf("decided on sequences %v, want twice, the second time on what is there", seen)
			}
			p.wantReported(claimed)
			if !p.free(p.job.Key()) {
				t.Error("the job is still locked")
			}
		})
	}
}

// TestRecalledRowsThatOthersHold: who has locked what is reported, and wants what is claimed, gets
// it: the claim is given up before the server sees a deadlock, and made anew afterwards.
func TestRecalledRowsThatOthersHold(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	claimed := submit(t, p.b, 1, 9)[0]
	other, err := p.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(key rowkey.Job) {
		if _, err := other.Exec(t.Context(), "select 1 from job where id = $1 for update", int64(key)); err != nil {
			t.Error(err)
		}
	}
	lock(p.job.Key())
	held, over := make(chan struct{}), make(chan struct{})
	decided := 0
	go func() {
		defer close(over)
		do(t, p.a, p.claiming(), func(f *store.Facts, d *draft) {
			if decided++; decided == 1 {
				close(held)
			}
			p.reportAndBegin(f, d)
		})
	}()
	select {
	case <-held:
	case <-over:
		t.Fatal("nothing was decided")
	}
	lock(claimed.Key())
	if err := other.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	<-over
	if decided != 2 {
		t.Errorf("decided %d times, want twice", decided)
	}
	p.wantReported(claimed)
}

func (p *pair) wantReported(claimed *pawl.Job) {
	p.Helper()
	steps, err := p.b.Steps(p.Context(), p.job.Key(), 0, 0)
	if err != nil || steps[0].State != lifecycle.StepComplete || steps[0].Seq != 2 {
		p.Errorf("afterwards %v, %v: want the first step complete, once", steps, err)
	}
	j, err := p.b.Job(p.Context(), claimed.Key())
	if err != nil || j.State != lifecycle.JobRunning || j.Seq != 3 {
		p.Errorf("the claimed job is %s at %d, %v", j.State, j.Seq, err)
	}
}
