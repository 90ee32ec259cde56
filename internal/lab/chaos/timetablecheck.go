package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A table is what became of a timetable.
type table struct {
	timetable
	key   rowkey.Schedule
	trail []audit.Entry
	jobs  map[string]*pawl.Job // that it made, by their public ids
	clock *host

	at      int64     // when the entry was written that is looked at,
	told    bool      // if the clock can tell
	last    int64     // the newest time that was dealt with
	waiting int64     // the time that waits
	job     *pawl.Job // of the newest time that made one
	fired   int
	passed  int
	late    time.Duration // how late a job was made, at most
}

// tables reads what became of the schedules.
func (r *run) tables(ctx context.Context) (tables []*table, err error) {
	all, err := r.store.Schedules(ctx, pawl.ScheduleName{Workspace: pawl.DefaultWorkspace}, pawl.ScheduleName{}, 0)
	if err != nil {
		return nil, err
	}
	for _, t := range timetables {
		for _, s := range all {
			if s.Name == t.name {
				tables = append(tables, &table{timetable: t, key: s.Key(), jobs: map[string]*pawl.Job{}, clock: r.database.clock()})
			}
		}
	}
	if len(tables) < len(timetables) {
		return nil, fmt.Errorf("%d schedules were added, and %d are there", len(timetables), len(tables))
	}
	for _, t := range tables {
		if t.trail, err = r.store.Trail(ctx, store.ScheduleEntity(t.key), 0, 0); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// checkTimetables checks that every time was dealt with once, as its schedule
// wants it, and that each job that was made ended as it should.
func (r *run) checkTimetables(o *outcome) error {
	var errs []error
	for _, t := range o.tables {
		for _, record := range o.records {
			if record.Schedule != t.key {
				continue
			}
			t.jobs[record.ID.Public(pawl.JobPrefix)] = record
			if err := r.checkJob(o, &job{shape: shapeOf(t.shape), canceled: t.overlap == schedule.CancelOld}, record); err != nil {
				errs = append(errs, fmt.Errorf("job %s of schedule %s: %w", record.ID.Public(pawl.JobPrefix), t.name, err))
			}
		}
		if err := t.check(); err != nil {
			errs = append(errs, fmt.Errorf("schedule %s: %w", t.name, err))
		}
		r.report.timetable(t)
	}
	return errors.Join(errs...)
}

// check goes through the trail: what each entry does to the times has to follow
// from those before it.
func (t *table) check() error {
	before := int64(0)
	for _, e := range t.trail {
		t.at, t.told = t.clock.moment(e.At, before)
		before = e.At
		var note struct {
			Due time.Time
			Job string
		}
		if len(e.Metadata) > 0 {
			if err := json.Unmarshal(e.Metadata, &note); err != nil {
				return err
			}
		}
		if err := t.entry(&e, note.Due.UnixMicro(), note.Job); err != nil {
			return fmt.Errorf("entry %d, %s %s at %s: %w", e.Sequence, e.Event, note.Due.Format(time.RFC3339), pawl.Time(e.At).Format(time.RFC3339Nano), err)
		}
	}
	if len(t.jobs) != t.fired {
		return fmt.Errorf("%d jobs are there, and %d times have made one", len(t.jobs), t.fired)
	}
	return nil
}

func (t *table) entry(e *audit.Entry, due int64, id string) error {
	switch e.Event {
	case lifecycle.ScheduleCreate:
		t.last = e.At
		return nil
	case lifecycle.SchedulePause:
		if behind := time.Duration(e.At-t.next()) * time.Microsecond; behind > schedule.Grace {
			return fmt.Errorf("nothing was done for %s before it", behind)
		}
		return nil
	}
	waited := due == t.waiting
	if waited {
		t.waiting = 0
	}
	switch {
	case e.At < due:
		return errors.New("this was early")
	case waited && e.Event == lifecycle.ScheduleFire:
	case e.Event == lifecycle.ScheduleSkip && due%t.every.Microseconds() == 0 && due >= t.next():
	case due != t.next():
		return fmt.Errorf("the next time was %s", pawl.Time(t.next()).Format(time.RFC3339))
	}
	t.last = max(t.last, due)
	switch e.Event {
	case lifecycle.ScheduleFire:
		return t.fire(e, due, id, waited)
	case lifecycle.ScheduleQueue:
		if t.waiting != 0 {
			return errors.New("another time waits")
		}
		t.waiting = due
		return t.mayPass(e, t.overlap == schedule.Queue)
	case lifecycle.ScheduleSkip:
		t.passed++
		if strings.Contains(e.Reason, "missed") {
			return t.mayMiss(e, due)
		}
		return t.mayPass(e, t.overlap == schedule.Skip || t.waiting != 0)
	}
	return errors.New("a schedule that nobody touched does not do this")
}

// next is the time after the last one that was dealt with.
func (t *table) next() int64 {
	every := t.every.Microseconds()
	return (t.last/every + 1) * every
}

// fire holds a job that was made against the time it is of, and the job before it.
func (t *table) fire(e *audit.Entry, due int64, id string, waited bool) error {
	old := t.job
	t.fired++
	t.job = t.jobs[id]
	switch want := "due " + pawl.Time(due).Format(time.RFC3339); {
	case t.job == nil:
		return fmt.Errorf("its job %q is not there, or not of this schedule", id)
	case !strings.HasSuffix(t.job.Description, want):
		return fmt.Errorf("its job says %q, want %s", t.job.Description, want)
	case old == t.job:
		return errors.New("its job was made before")
	case old != nil && t.overlap != schedule.CancelOld && t.ran(old):
		return errors.New("the job before it ran")
	case old != nil && t.overlap == schedule.CancelOld && t.ran(old) && old.State != lifecycle.JobCanceled:
		return fmt.Errorf("the job before it ran, and came to be %s", old.State)
	case !waited && t.missed(e.At, due):
		return errors.New("this was missed, and its time is over")
	}
	if at := t.clock.moments(due); !waited && t.told && len(at) == 1 {
		t.late = max(t.late, time.Duration(t.at-at[0])*time.Microsecond)
	}
	return nil
}

// missed reports whether a time was too old to count.
func (t *table) missed(at, due int64) bool {
	newest := due+t.every.Microseconds() > at
	return at-due > t.catchUp.Microseconds() && !(newest && at-due < schedule.Grace.Microseconds())
}

func (t *table) mayMiss(e *audit.Entry, due int64) error {
	if !t.missed(e.At, due) {
		return errors.New("this was in time to be made up for")
	}
	return nil
}

// mayPass checks that a time that another job was in the way of was so, and might be.
func (t *table) mayPass(e *audit.Entry, policy bool) error {
	switch {
	case !policy:
		return fmt.Errorf("a schedule of overlap %s does not let this pass: %s", t.overlap, e.Reason)
	case t.job == nil || t.ended(t.job):
		return fmt.Errorf("nothing was in the way: %s", e.Reason)
	}
	return nil
}

// ran reports whether a job had not ended when the entry was written, if the clock can
// tell.
func (t *table) ran(j *pawl.Job) bool {
	end := t.clock.moments(j.CompletedAt)
	return t.told && len(end) == 1 && t.at < end[0]
}

// ended reports whether a job had ended when the entry was written, if the clock can
// tell.
func (t *table) ended(j *pawl.Job) bool {
	end := t.clock.moments(j.CompletedAt)
	return t.told && len(end) == 1 && end[0] < t.at
}
