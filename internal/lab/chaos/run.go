package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
)

// A run is one database, its processes, its jobs and its rounds.
type run struct {
	*cluster
	seed   uint64
	report *report

	crash     sync.Mutex // held while the database or its disk is away
	submitted int

	mu       sync.Mutex // guards what follows
	operated int
	jobs     []*job
	touched  map[rowkey.Job]bool // jobs that an operator touched in this round
	wounds   []wound             // of this round
}

// play runs the rounds of one seed. The folder is kept if it fails.
func play(ctx context.Context, c *config, seed uint64, rounds int) (_ *report, err error) {
	dir := filepath.Join(c.dir, fmt.Sprintf("seed-%d", seed))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	db, err := c.newDatabase(ctx, dir, seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	cl, err := newCluster(ctx, c, dir, db, c.roles(seed))
	if err != nil {
		return nil, fmt.Errorf("start the processes: %w", err)
	}
	defer cl.close()
	r := &run{cluster: cl, seed: seed, report: newReport(), touched: map[rowkey.Job]bool{}}
	plan := c.draw(seed, rounds, db)
	if err := r.rounds(ctx, plan); err != nil {
		return r.report, r.explain(ctx, err)
	}
	return r.report, nil
}

// rounds plays all rounds, lets everything end, and checks the results.
func (r *run) rounds(ctx context.Context, plan []round) (err error) {
	begun := time.Now()
	if err := r.addTimetables(ctx); err != nil {
		return err
	}
	answering, stop := context.WithCancel(ctx)
	answered := make(chan error, 1) // it is read once, at the end
	go func() { answered <- r.answer(answering) }()
	for i, p := range plan {
		if err = r.round(ctx, p); err != nil {
			err = fmt.Errorf("round %d: %w", i+1, err)
			break
		}
		r.report.Rounds++
		r.config.progress("seed %d round %d/%d: %s\n", r.seed, i+1, len(plan), describe(p))
	}
	if err == nil {
		err = r.finish(ctx)
	}
	stop()
	err = errors.Join(err, <-answered)
	if err == nil {
		err = r.check(ctx)
	}
	r.report.Took = time.Since(begun)
	return err
}

// round submits jobs, applies faults and operators' actions, and waits until all processes are
// up and everything hit has moved on.
func (r *run) round(ctx context.Context, p round) error {
	r.mu.Lock()
	r.wounds = nil
	clear(r.touched)
	r.mu.Unlock()
	if err := r.submit(ctx, p.Jobs); err != nil {
		return err
	}
	begun := time.Now()
	var all sync.WaitGroup
	errs := make([]error, len(p.Faults))
	for i, f := range p.Faults {
		all.Go(func() {
			sleep.For(ctx, f.After-time.Since(begun))
			r.report.count(f)
			if f.Kind == cancelVerb || f.Kind == pauseVerb || f.Kind == retryVerb {
				errs[i] = r.operate(ctx, f)
				return
			}
			errs[i] = r.harm(ctx, f)
		})
	}
	all.Wait()
	if err := errors.Join(append(errs, r.up(ctx))...); err != nil {
		return err
	}
	if err := r.ask(ctx, "inspect", func() error { return r.database.inspect(ctx) }); err != nil {
		return err
	}
	if r.config.outages {
		return r.endure(ctx)
	}
	var last pulse
	err := r.ask(ctx, "look", func() (err error) {
		last, err = r.pulse(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return r.recover(ctx, last)
}

// recover waits until everything that was hit in this round has moved on, and the whole system
// has since its end.
func (r *run) recover(ctx context.Context, last pulse) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.patience)
	defer cancel()
	for _, w := range r.wounds {
		err := r.until(ctx, func() (bool, error) {
			took, ok, err := r.healed(ctx, w)
			if ok && !r.touched[w.step.Job] {
				r.report.rescued(took, w.by.String())
				r.note(ctx, w, took)
			}
			return ok || r.touched[w.step.Job], err
		})
		if err != nil {
			return fmt.Errorf("step %s was not taken up again after %s, %s ago: %w", w.step, w.by, time.Since(w.at).Round(time.Millisecond), errStuck)
		}
	}
	err := r.until(ctx, func() (bool, error) { return r.moved(ctx, last) })
	if err != nil {
		return fmt.Errorf("nothing has moved for %s: %w", time.Since(last.at).Round(time.Millisecond), errStuck)
	}
	return nil
}

// slowRescue is the time above which a person would investigate (T10).
const slowRescue = 6 * time.Second

func (r *run) note(ctx context.Context, w wound, took time.Duration) {
	if took < slowRescue {
		return
	}
	if j, err := r.store.Job(ctx, w.step.Job); err == nil {
		r.config.progress("slow: %s after %s until step %d of %s (%s) moved on\n", took.Round(time.Millisecond), w.by, w.step.Ord.Node(), j.ID.Public(pawl.JobPrefix), j.Workflow)
	}
}

// errStuck is the error of a run in which something no longer moves.
var errStuck = errors.New("STUCK")

// until retries until the condition holds or ctx ends.
func (r *run) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		if !sleep.For(ctx, 25*time.Millisecond) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// finish ends the schedules, waits until every job has ended, and checks that nothing is left
// that would delay a new one.
func (r *run) finish(ctx context.Context) error {
	if err := r.endTimetables(ctx); err != nil {
		return err
	}
	if err := r.ended(ctx); err != nil {
		return err
	}
	var more []string
	for range keys {
		more = append(more, "keyed")
	}
	if err := r.submit(ctx, append(more, "narrow")); err != nil {
		return err
	}
	if err := r.ended(ctx); err != nil {
		return fmt.Errorf("a slot was not given back: %w", err)
	}
	return r.stop()
}

// ended waits until no job is unfinished.
func (r *run) ended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.patience)
	defer cancel()
	left := 0
	err := r.until(ctx, func() (bool, error) {
		jobs, err := r.store.Jobs(ctx, store.JobFilter{States: unfinished})
		left = len(jobs)
		return err == nil && left == 0, err
	})
	if err != nil {
		return fmt.Errorf("%d jobs have not ended %s after the last fault: %w", left, r.config.patience, errStuck)
	}
	return nil
}
