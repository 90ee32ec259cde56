package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// visiting returns a worker whose last visit took this long, and has begun steps that take so long each.
func visiting(t *testing.T, visit time.Duration, steps ...time.Duration) *Worker {
	w := &Worker{results: make(chan link.Report, len(steps)), running: make(map[claimKey]occupant)}
	w.pace.visited(visit)
	t.Cleanup(func() { time.Sleep(2 * time.Hour) }) // until all have ended
	for i, took := range steps {
		key := pawl.StepKey{Job: 1, Ord: pawl.MakeOrd(1, i+1)}
		w.running[claimKey{key, 1}] = occupant{}
		go func() {
			time.Sleep(took) // on the clock of the bubble
			w.results <- link.Report{Step: key, Claim: 1}
		}()
	}
	return w
}

// TestBriefStepsShareAVisit: a visit waits for what was begun by the last one if steps take less
// time than a visit, and not longer than a visit.
func TestBriefStepsShareAVisit(t *testing.T) { // T3
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		before []time.Duration // steps that have ended
		steps  []time.Duration
		begun  int // of the steps
		want   int // reports in the outbox
		takes  time.Duration
		sent   bool // all have sent their reports before
	}{
		"they are brief":                  {before: []time.Duration{ms}, steps: []time.Duration{0, ms, ms}, begun: 3, want: 3, takes: ms},
		"all have ended":                  {before: []time.Duration{ms}, steps: []time.Duration{0, 0, 0}, begun: 3, want: 3, sent: true},
		"one of them takes longer":        {before: []time.Duration{ms}, steps: []time.Duration{ms, time.Hour}, begun: 2, want: 1, takes: 4 * ms},
		"one that runs for long":          {before: []time.Duration{ms}, steps: []time.Duration{ms, ms, time.Hour}, begun: 2, want: 2, takes: ms},
		"they are as long as a visit":     {before: []time.Duration{4 * ms}, steps: []time.Duration{ms, ms}, begun: 2},
		"every fourth is long":            {before: []time.Duration{ms, ms, ms, time.Second}, steps: []time.Duration{ms, ms}, begun: 2},
		"one that runs alone":             {before: []time.Duration{ms}, steps: []time.Duration{ms}, begun: 1},
		"nothing was begun":               {before: []time.Duration{ms}, steps: []time.Duration{ms, ms}},
		"so many that they share a visit": {before: []time.Duration{ms}, steps: make([]time.Duration, maxLingered+1), begun: maxLingered + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := visiting(t, 4*ms, test.steps...)
				for range maxScore {
					for _, took := range test.before {
						w.pace.ran(took)
					}
				}
				if test.sent {
					synctest.Wait()
				}
				began := time.Now()
				w.linger(test.begun)
				if took := time.Since(began); took != test.takes || len(w.outbox) != test.want {
					t.Errorf("lingered for %d reports in %v, want %d in %v", len(w.outbox), took, test.want, test.takes)
				}
			})
		})
	}
}

// TestAVisitIsNotWaitedForLong: a visit that waited for a database that was gone says nothing
// about the next one.
func TestAVisitIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := visiting(t, time.Hour, time.Minute, time.Minute)
		for range maxScore {
			w.pace.ran(time.Millisecond)
		}
		began := time.Now()
		w.linger(2)
		if took := time.Since(began); took != longVisit {
			t.Errorf("waited for %v, want %v", took, longVisit)
		}
		w.linger(2)
		if took := time.Since(began); took != longVisit {
			t.Errorf("waited again, until %v", took)
		}
	})
}

// TestAMisjudgementIsExpensive: after a visit has waited for a step that was not brief, it takes many
// brief ones before another one waits.
func TestAMisjudgementIsExpensive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := visiting(t, 4*time.Millisecond, time.Millisecond, time.Hour)
		for range maxScore {
			w.pace.ran(time.Millisecond)
		}
		w.linger(2)
		n := 0
		for ; !w.pace.brief(); n++ {
			w.pace.ran(time.Millisecond)
		}
		if n < 4*maxScore {
			t.Errorf("after %d brief steps a visit waits again, want %d at least", n, 4*maxScore)
		}
	})
}

// An endless link has for each report another brief step of the same job.
type endless struct {
	link.Worker
	link.Slots
	hears         bool
	visits, looks int    // looks: visits that ask for what waits in the queue
	tenth         func() // called in the tenth visit
}

func (e *endless) Hears() bool                        { return e.hears }
func (e *endless) Overlap() int                       { return 1 }
func (e *endless) Add(int)                            {}
func (e *endless) Close()                             {}
func (e *endless) Strays() <-chan struct{}            { return nil }
func (e *endless) Recall()                            {}
func (e *endless) Reserved() int                      { return 0 }
func (e *endless) Rung() bool                         { return false }
func (e *endless) Unreserved(free func() int) (n int) { return free() }

func (e *endless) Exchange(_ context.Context, x link.Exchange) (list []link.Assignment, _ error) {
	time.Sleep(time.Millisecond)
	if e.visits++; e.visits == 10 {
		e.tenth()
	}
	if !x.SkipQueue {
		e.looks++
	}
	if e.visits < 1000 {
		for i := range max(len(x.Reports), 2) {
			list = append(list, link.Assignment{Step: link.Claimed{StepKey: pawl.StepKey{Job: 1, Ord: pawl.MakeOrd(1, 2*e.visits+i)}, Claims: 1}})
		}
	}
	return list, nil
}

func (e *endless) StepInput(context.Context, *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	return nil, &pawl.Failure{Class: "brief"}, nil
}

// TestVisitsWithoutARestLookAround: a worker whose visits follow on each other looks for work that no
// hint announces, reads what the heartbeat tells, and does not wait for what has ended.
func TestVisitsWithoutARestLookAround(t *testing.T) { // T10, T4
	t.Parallel()
	for name, test := range map[string]struct {
		hears bool
		tenth func(*Worker)
		least int
	}{
		"no hints come":     {tenth: func(*Worker) {}, least: 10},
		"a beat tells work": {hears: true, tenth: func(w *Worker) { w.tell(news{worker: w.key(), work: true}) }, least: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &endless{hears: test.hears}
				w, err := New(linked{e}, Config{Capacity: 4, Poll: 50 * time.Millisecond, Handlers: map[string]Handler{"h": func(context.Context, *Task) Result { return Result{} }}})
				if err != nil {
					t.Fatal(err)
				}
				e.tenth = func() { test.tenth(w) }
				w.self, w.offer = &pawl.Worker{ID: pawl.MakeID(time.Now(), 1, 0)}, e
				w.pace.score.Store(maxScore)
				began := time.Now()
				w.visitAll(false)
				if took := time.Since(began); took > 1100*time.Millisecond {
					t.Errorf("1000 visits of 1 ms took %v: they rest though all that they began has ended", took)
				}
				if e.visits < 1000 || e.looks < test.least {
					t.Errorf("%d of %d visits looked for work, want %d at least", e.looks, e.visits, test.least)
				}
			})
		})
	}
}

type linked struct{ link link.Worker }

func (l linked) Link() link.Worker { return l.link }
