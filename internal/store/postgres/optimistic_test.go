package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A pair is two handles on one database, as two processes have them, and a job that
// runs on it: a step in progress, and one that waits for it.
type pair struct {
	*testing.T
	a, b   *DB
	job    *pawl.Job
	worker *pawl.Worker
	q      *store.Query
	first  pawl.StepKey
	second pawl.StepKey
}

func newPair(t *testing.T) *pair {
	url := pgtest.URL(t)
	p := &pair{T: t, a: open(t, url), b: open(t, url)}
	do(t, p.a, &store.Query{}, func(_ *store.Facts, d *draft) { p.worker = d.newWorker() })
	p.job = running(t, p.a)
	p.first, p.second = pawl.StepKey{Job: p.job.Key(), Ord: pawl.MakeOrd(1, 0)}, pawl.StepKey{Job: p.job.Key(), Ord: pawl.MakeOrd(2, 0)}
	p.q = &store.Query{Jobs: []rowkey.Job{p.job.Key()}, Steps: []pawl.StepKey{p.first, p.second}, Watched: []rowkey.Worker{p.worker.Key()}}
	p.look(p.a) // reads the worker
	return p
}

// running makes a job of two steps that runs.
func running(t *testing.T, db *DB) (j *pawl.Job) {
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		j = d.newJob(1)
		s := d.newStep(j, 1, 1)
		d.newStep(j, 2, 1)
		j.State, s.State = lifecycle.JobRunning, lifecycle.StepInProgress // as the decision of a hand-over leaves them
	})
	return j
}

// look runs a transaction that changes nothing but a counter of the job.
func (p *pair) look(db *DB) (decided int) {
	p.Helper()
	do(p, db, p.q, func(f *store.Facts, d *draft) {
		decided++
		f.Jobs[p.job.Key()].Active++
		p.keep(f, d)
	})
	return decided
}

// keep writes the job with its state as it is.
func (p *pair) keep(f *store.Facts, d *draft) {
	d.moveJob(f.Jobs[p.job.Key()], lifecycle.JobRunning, lifecycle.JobPause)
}

func (p *pair) knows(db *DB) bool { return db.cache.find(p.q, &db.rooms) != nil }

// TestOptimisticSeesWhatOthersWrote (K5): a transaction that decides on what is known
// decides anew when any row of its query has been changed by another process, whether
// it writes that row or not.
func TestOptimisticSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	change := map[string]func(p *pair, f *store.Facts, d *draft){
		"the job": func(p *pair, f *store.Facts, d *draft) { p.keep(f, d) },
		"the job, and no audit entry tells": func(p *pair, f *store.Facts, d *draft) {
			j := f.Jobs[p.job.Key()]
			j.Open = 7
			d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
		},
		"a step that is only read": func(p *pair, f *store.Facts, d *draft) {
			d.moveStep(p.job.ID, f.Steps[p.second], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		},
		"the worker": func(p *pair, f *store.Facts, d *draft) {
			w := f.Workers[p.worker.Key()]
			w.Capacity = 3
			d.Workers = append(d.Workers, store.Update[*pawl.Worker]{Record: w, Was: w.Seq})
		},
	}
	for name, change := range change {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			if !p.knows(p.a) {
				t.Fatal("what was read and written is not known")
			}
			q := *p.q
			q.Watched, q.Workers = nil, q.Watched // to be changed
			do(t, p.b, &q, func(f *store.Facts, d *draft) { change(p, f, d) })
			var seen []store.Facts
			do(t, p.a, p.q, func(f *store.Facts, d *draft) {
				seen = append(seen, *f)
				d.moveStep(p.job.ID, f.Steps[p.first], lifecycle.StepSuccess, lifecycle.StepComplete)
				f.Jobs[p.job.Key()].Active++
				p.keep(f, d)
			})
			if len(seen) != 2 {
				t.Fatalf("decided %d times, want once on what was known and once on what is", len(seen))
			}
			was, is := seen[0], seen[1]
			if was.Jobs[p.job.Key()].Seq == is.Jobs[p.job.Key()].Seq && was.Jobs[p.job.Key()].Open == is.Jobs[p.job.Key()].Open &&
				was.Steps[p.second].State == is.Steps[p.second].State && was.Workers[p.worker.Key()].Capacity == is.Workers[p.worker.Key()].Capacity {
				t.Error("the second decision saw what the first one saw")
			}
			steps, err := p.a.Steps(t.Context(), p.job.Key(), 0, 0)
			if err != nil || steps[0].State != lifecycle.StepComplete || steps[0].Seq != 2 {
				t.Errorf("afterwards %v, %v: want the first step complete, once", steps, err)
			}
		})
	}
}

// TestOptimisticIsOneDecision: nobody else was at the rows, so what is known holds,
// transaction after transaction.
func TestOptimisticIsOneDecision(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for range 20 {
		if !p.knows(p.a) {
			t.Fatal("what was committed is not known")
		}
		if n := p.look(p.a); n != 1 {
			t.Fatalf("decided %d times, want once", n)
		}
	}
	j, err := p.b.Job(t.Context(), p.job.Key())
	if err != nil || j.Active != 21 {
		t.Errorf("counted to %d, %v; want 21", j.Active, err)
	}
}

// TestOptimisticCountsRight (K5): many transactions of two processes on one job lose no
// update, and what both are at is read before it is decided on.
func TestOptimisticCountsRight(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const each = 40
	var all sync.WaitGroup
	for _, db := range []*DB{p.a, p.b, p.a, p.b} {
		all.Go(func() {
			for range each {
				err := store.ErrStale
				for errors.Is(err, store.ErrStale) {
					err = try(db, p.q, func(f *store.Facts, d *draft) {
						f.Jobs[p.job.Key()].Active++
						p.keep(f, d)
					})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	j, err := p.a.Job(t.Context(), p.job.Key())
	if err != nil || j.Active != 1+4*each {
		t.Errorf("counted to %d, %v; want %d", j.Active, err, 1+4*each)
	}
	p.look(p.b)
	if p.look(p.a); p.knows(p.a) {
		t.Error("a job that another process changes all the time is still decided on unread")
	}
}

// TestOptimisticLocks: what is optimistic is locked until the commit all the same: another
// transaction waits, and sees what was written.
func TestOptimisticLocks(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	tx, err := p.b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "update step set claims = 9 where job = $1 and ord = $2", p.second.Job, p.second.Ord); err != nil {
		t.Fatal(err)
	}
	decided := make(chan int, 1)
	go func() { decided <- p.look(p.a) }() // writes the job, and is to make sure of the steps
	await(t, p.b, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-decided; n != 2 {
		t.Errorf("decided %d times, want 2: the step was being changed", n)
	}
}

// TestOptimisticAfterAnother: what another process has made is read once, with the steps
// that nobody has asked for yet; from then on it is known.
func TestOptimisticAfterAnother(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	third := pawl.StepKey{Job: p.job.Key(), Ord: pawl.MakeOrd(3, 0)}
	do(t, p.a, p.q, func(f *store.Facts, d *draft) {
		d.newStep(f.Jobs[p.job.Key()], 3, 1)
		p.keep(f, d)
	})
	p.look(p.b)
	p.q.Steps = []pawl.StepKey{third}
	if !p.knows(p.b) {
		t.Fatal("a step that was there is not known")
	}
	if n := p.look(p.b); n != 1 {
		t.Errorf("decided %d times, want once", n)
	}
	do(t, p.a, p.q, func(f *store.Facts, d *draft) {
		d.moveStep(p.job.ID, f.Steps[third], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		p.keep(f, d)
	})
	if n := p.look(p.b); n != 2 {
		t.Errorf("decided %d times, want 2: the step has moved", n)
	}
}

// TestOptimisticAfterARestart: after connections broke nothing is taken as known.
func TestOptimisticAfterARestart(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if err := killAll(p.a); err != nil {
		t.Fatal(err)
	}
	if n := p.look(p.a); n != 2 {
		t.Errorf("decided %d times, want 2: on what was known, and on what is", n)
	}
}

// TestOptimisticIsBounded: only so many jobs, and of a job so many steps, are kept, and
// none that has ended.
func TestOptimisticIsBounded(t *testing.T) {
	t.Parallel()
	var k rowCache
	r, row := newReading(&store.Query{}), func(state string) *pawl.Job {
		return &pawl.Job{ID: newID(), Record: pawl.Record{State: lifecycle.JobRunning}}
	}
	ch := &store.Changes{}
	for range maxCachedJobs + 500 {
		ch.NewJobs = append(ch.NewJobs, row("RUNNING"))
	}
	wide := ch.NewJobs[len(ch.NewJobs)-1]
	for i := range 10 * maxCachedSteps {
		ch.NewSteps = append(ch.NewSteps, &pawl.Step{StepKey: pawl.StepKey{Job: wide.Key(), Ord: pawl.MakeOrd(1, i+1)}})
	}
	k.put(r, ch, &stamp{xid: 1})
	if len(k.jobs) > maxCachedJobs || k.jobs[wide.Key()] == nil || len(k.jobs[wide.Key()].steps) != maxCachedSteps {
		t.Fatalf("%d jobs are known, and of the last one %v", len(k.jobs), k.jobs[wide.Key()])
	}
	wide.State = lifecycle.JobCompleted
	k.put(r, &store.Changes{Jobs: []store.Update[*pawl.Job]{{Record: wide}}}, &stamp{xid: 2})
	if k.jobs[wide.Key()] != nil {
		t.Error("a job that has ended is still known")
	}
}

// TestALateStampDoesNotSetTheClockBack: what a commit that took long tells of the
// database's clock is behind it, and what is decided by that would be due too early (K8).
func TestALateStampDoesNotSetTheClockBack(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	var c rowCache
	for _, tt := range []struct {
		now, after, took time.Duration
		ahead            time.Duration // of the database's clock before ours, less 1e15 µs
		why              string
	}{
		{0, 0, 0, 0, "the first"},
		{100 * time.Millisecond, 400 * time.Millisecond, 300 * time.Millisecond, 0, "one that was 300 ms on its way"},
		{500 * time.Millisecond, 490 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond, "a better one"},
		{1000 * time.Millisecond, 1000 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond, "one that is not as good"},
		{1600 * time.Millisecond, 1700 * time.Millisecond, 100 * time.Millisecond, -100 * time.Millisecond, "a late one, when the best is old"},
		{5000 * time.Millisecond, 10000 * time.Millisecond, 5000 * time.Millisecond, -100 * time.Millisecond, "one that a disk held up for 5 s"},
	} {
		c.hear(&stamp{now: 1e15 + tt.now.Microseconds(), at: begun.Add(tt.after), took: tt.took})
		if got := time.Duration(c.now-1e15)*time.Microsecond - c.at.Sub(begun); got != tt.ahead {
			t.Errorf("after %s the clock is %v before ours, want %v", tt.why, got, tt.ahead)
		}
	}
}
