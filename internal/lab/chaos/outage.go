package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The kinds of outages. Each affects the database alone: no process is harmed, and all use the
// default timings. No step may therefore be taken from its worker, and nothing may be done
// twice.
const (
	killedOutage  kind = "database killed"  // signal 9, and started again
	stoppedOutage kind = "database stopped" // SIGSTOP: connections are accepted but get no reply
	cutOffOutage  kind = "database cut off" // connections are closed, and no new one gets through
)

var outages = []kind{killedOutage, stoppedOutage, cutOffOutage}

// An outage may be shorter or longer than the silence.
const (
	minOutage = 5 * time.Second
	maxOutage = 15 * time.Second
)

// lasting is a job whose step is under way before an outage, and until each worker that
// is not heard after it would have been judged. An outage has several.
var lasting = shape{"lasting", lifecycle.JobCompleted, ``, `
steps: [{id: one, run: 'LINE; sleep 26'}]
`}

const lastingJobs = 4

// drawOutages draws a run of outages, one a round, as many of each kind as the others if
// there are enough.
func drawOutages(seed uint64, rounds, jobs int) []round {
	r := rand.New(rand.NewPCG(seed, 0))
	names := drawJobs(r, jobs)
	var kinds []int
	for len(kinds) < rounds {
		kinds = append(kinds, r.Perm(len(outages))...)
	}
	plan := make([]round, rounds)
	for i := range plan {
		for range lastingJobs {
			plan[i].Jobs = append(plan[i].Jobs, lasting.name)
		}
		plan[i].Jobs = append(plan[i].Jobs, names[i*jobs/rounds:(i+1)*jobs/rounds]...)
		plan[i].Faults = []fault{{Kind: outages[kinds[i]], After: between(r, time.Second, 2*time.Second), For: between(r, minOutage, maxOutage)}}
	}
	return plan
}

// outage makes the database unreachable for a while, for all processes.
func (r *run) outage(ctx context.Context, f fault) error {
	db := r.database.(*postgresDatabase)
	held, at := r.everybody(ctx), time.Now()
	switch f.Kind {
	case killedOutage:
		if err := db.crash(ctx, f.For); err != nil {
			return err
		}
		r.report.away(time.Since(at))
	case stoppedOutage:
		db.cluster.Pause()
		sleep.For(ctx, f.For)
		db.cluster.Resume()
	case cutOffOutage:
		r.weather(weather{down: true})
		sleep.For(ctx, f.For)
		r.weather(weather{})
	}
	r.hurt(f, at, held)
	return nil
}

// weather is that between every process and the database.
func (r *run) weather(w weather) {
	for _, m := range r.members {
		m.proxy.set(w)
	}
}

// endure waits until the steps held when the round's outage began have moved on, and checks
// that the outage harmed no worker.
func (r *run) endure(ctx context.Context) error {
	late, cancel := context.WithTimeout(ctx, r.config.patience)
	defer cancel()
	for _, w := range r.wounds {
		err := r.until(late, func() (bool, error) {
			_, ok, err := r.healed(late, w)
			return ok, err
		})
		if err != nil {
			return fmt.Errorf("step %s has not ended %s after %s began: %w", w.step, time.Since(w.at).Round(time.Millisecond), w.by, errStuck)
		}
	}
	if err := r.unharmed(ctx); err != nil {
		return err
	}
	r.report.Endured += len(r.wounds)
	return nil
}

// unharmed checks that no worker was taken for dead so far, no step was taken from its
// worker, and nothing was done twice.
func (r *run) unharmed(ctx context.Context) error {
	var errs []error
	err := r.store.Trails(ctx, 0, func(t store.TrailOf) error {
		errs = append(errs, harmOf(t))
		return nil
	})
	if err != nil {
		return err
	}
	effects, err := readEffects(filepath.Join(r.dir, "effects"))
	return errors.Join(append(errs, err, doubled(effects))...)
}

// engineActor is the actor that declares a worker dead. A worker that ends by itself records
// that itself.
const engineActor = "engine"

// harmOf searches a trail for events that a healthy worker and its steps do not have.
func harmOf(t store.TrailOf) error {
	for _, e := range t.Entries {
		dead := e.Event == lifecycle.WorkerTerminate && e.Actor == engineActor
		if dead || e.Event == lifecycle.StepLost || e.Event == lifecycle.StepInterrupt {
			return fmt.Errorf("%s %s was harmed by an outage of the database alone: entry %d, %s at %s: %s", t.Kind, t.StepKey, e.Sequence, e.Event, pawl.Time(e.At).Format(time.RFC3339Nano), e.Reason)
		}
	}
	return nil
}
