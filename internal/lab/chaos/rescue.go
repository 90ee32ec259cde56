package main

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var unfinished = []machine.State{lifecycle.JobPending, lifecycle.JobRunning}

// A hand is a step in the hands of a worker, as it was at a place of its trail.
type hand struct {
	step pawl.StepKey
	seq  int64
}

// held returns the steps in progress by the process that holds them.
func (cl *cluster) held(ctx context.Context) (map[int][]hand, error) {
	workers, err := cl.store.Workers(ctx, store.WorkerFilter{Living: true})
	if err != nil {
		return nil, err
	}
	pids := map[rowkey.Worker]int{}
	for _, w := range workers {
		pids[w.Key()] = w.PID
	}
	jobs, err := cl.store.Jobs(ctx, store.JobFilter{States: unfinished})
	if err != nil {
		return nil, err
	}
	held := map[int][]hand{}
	for _, j := range jobs {
		steps, err := cl.store.Steps(ctx, j.Key(), 0, 0)
		if err != nil {
			return nil, err
		}
		for _, s := range steps {
			if pid, ok := pids[s.Worker]; ok && s.State == lifecycle.StepInProgress {
				held[pid] = append(held[pid], hand{s.StepKey, s.Seq})
			}
		}
	}
	return held, nil
}

// A wound is what a victim held, and when it was hit.
type wound struct {
	hand
	at time.Time
	by fault
}

// healed returns how long it took until the step was claimed again, or ended.
func (cl *cluster) healed(ctx context.Context, w wound) (time.Duration, bool, error) {
	trail, err := cl.store.Trail(ctx, store.StepEntity(w.step), w.seq, 0)
	if err != nil {
		return 0, false, err
	}
	for i := range trail {
		e := &trail[i]
		if e.Event == lifecycle.StepClaim || over(e.To) {
			return cl.since(w.at, e.At), true, nil
		}
	}
	return 0, false, nil
}

// since returns how long after a moment the clock of the database showed a time. Of
// several moments the last counts.
func (cl *cluster) since(begun time.Time, shown int64) (took time.Duration) {
	for _, at := range cl.database.clock().moments(shown) {
		took = max(took, pawl.Time(at).Sub(begun))
	}
	return took
}

// A pulse is the whole system at a moment, to see it move on.
type pulse struct {
	at    time.Time
	shown int64 // by the clock of the database
	jobs  int   // not finished
}

func (cl *cluster) pulse(ctx context.Context) (pulse, error) {
	p := pulse{at: time.Now(), shown: pawl.Micros(cl.database.clock().now())}
	jobs, err := cl.store.Jobs(ctx, store.JobFilter{States: unfinished})
	p.jobs = len(jobs)
	return p, err
}

// moved reports whether anything has moved since, or there was nothing to move.
func (cl *cluster) moved(ctx context.Context, p pulse) (bool, error) {
	still, err := cl.store.Jobs(ctx, store.JobFilter{States: unfinished, Still: p.shown})
	return err == nil && (p.jobs == 0 || len(still) < p.jobs), err
}

// over reports whether a step in the state is not going to run again by itself.
func over(s machine.State) bool { return lifecycle.Step.Ended(s) || s == lifecycle.StepPermanentError }
