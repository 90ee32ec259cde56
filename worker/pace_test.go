package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// visiting returns a worker that visits for so long, and has begun steps that take so long each.
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
	}{
		"they are brief":                  {before: []time.Duration{ms}, steps: []time.Duration{0, ms, ms}, begun: 3, want: 3, takes: ms},
		"one of them takes longer":        {before: []time.Duration{ms}, steps: []time.Duration{ms, time.Hour}, begun: 2, want: 1, takes: 4 * ms},
		"one that runs for long":          {before: []time.Duration{ms}, steps: []time.Duration{ms, ms, time.Hour}, begun: 2, want: 2, takes: ms},
		"they are as long as a visit":     {before: []time.Duration{4 * ms}, steps: []time.Duration{ms, ms}, begun: 2},
		"every fourth is long":            {before: []time.Duration{ms, ms, ms, time.Second}, steps: []time.Duration{ms, ms}, begun: 2},
		"one that runs alone":             {before: []time.Duration{ms}, steps: []time.Duration{ms}, begun: 1},
		"nothing was begun":               {before: []time.Duration{ms}, steps: []time.Duration{ms, ms}},
		"so many that they share a visit": {before: []time.Duration{ms}, steps: make([]time.Duration, maxGathered+1), begun: maxGathered + 1},
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
				began := time.Now()
				w.gather(test.begun)
				if took := time.Since(began); took != test.takes || len(w.outbox) != test.want {
					t.Errorf("gathered %d reports in %v, want %d in %v", len(w.outbox), took, test.want, test.takes)
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
		w.gather(2)
		if took := time.Since(began); took != longVisit {
			t.Errorf("waited for %v, want %v", took, longVisit)
		}
		w.gather(2)
		if took := time.Since(began); took != longVisit {
			t.Errorf("waited again, until %v", took)
		}
	})
}
