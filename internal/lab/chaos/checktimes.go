package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A wait is how long the first step of a shape waits at least, or its job (ord 0).
type wait struct {
	ord   pawl.Ord
	least time.Duration
}

var waits = map[string]wait{
	"sleeper": {pawl.MakeOrd(1, 0), 700 * time.Millisecond},
	"unheard": {pawl.MakeOrd(1, 0), 700 * time.Millisecond},
	"overdue": {0, 1500 * time.Millisecond},
}

// checkTimes checks that no trail has a time that the clock of the database never
// showed, that none goes back, and that nothing was early.
func (r *run) checkTimes(o *outcome) error {
	var errs []error
	for key, trail := range o.trails {
		if err := r.checkTrail(trail); err != nil {
			errs = append(errs, fmt.Errorf("trail of %s: %w", key, err))
		}
	}
	if r.config.kind == "sqlite" {
		errs = append(errs, r.checkWaits(o))
	}
	return errors.Join(errs...)
}

// checkWaits checks that nothing was early, to the microsecond. (On PostgreSQL a
// process tells the time from an answer of the database, which may be late. What
// schedules do is held against its clock alone.)
func (r *run) checkWaits(o *outcome) error {
	var errs []error
	setBack := r.database.clock().setBack()
	for _, j := range r.jobs {
		w, ok := waits[j.shape.name]
		if !ok || j.canceled || j.retried || j.at.Before(setBack) { // times of a trail stand still until they are reached again
			continue
		}
		if took := waited(o.trails[pawl.StepKey{Job: j.id.JobKey(), Ord: w.ord}]); took < w.least {
			errs = append(errs, fmt.Errorf("job %s (%s) waited for %s, want %s at least", j.id.Public(pawl.JobPrefix), j.shape.name, took, w.least))
		}
	}
	return errors.Join(errs...)
}

// waited returns how long something was in progress.
func waited(trail []audit.Entry) time.Duration {
	i := slices.IndexFunc(trail, func(e audit.Entry) bool { return e.To == lifecycle.StepInProgress || e.To == lifecycle.JobRunning })
	if i < 0 {
		return 0
	}
	return time.Duration(trail[len(trail)-1].At-trail[i].At) * time.Microsecond
}

func (r *run) checkTrail(trail []audit.Entry) error {
	last := int64(0)
	for _, e := range trail {
		switch {
		case len(r.database.clock().moments(e.At)) == 0:
			return fmt.Errorf("entry %d (%s) is of %s, which no clock of the database showed", e.Sequence, e.Event, pawl.Time(e.At))
		case e.At < last:
			return fmt.Errorf("entry %d (%s) is %d µs before the one before", e.Sequence, e.Event, last-e.At)
		}
		last = e.At
	}
	return nil
}

// spans returns when spans by the clock of the database were. Those are left out
// of which a clock that was set back cannot tell.
func (r *run) spans(shown ...span) (all []span) {
	for _, s := range shown {
		from, to := r.database.clock().moments(s.from), r.database.clock().moments(s.to)
		if len(from) == 1 && len(to) == 1 {
			all = append(all, span{from[0], to[0]})
		}
	}
	return all
}
