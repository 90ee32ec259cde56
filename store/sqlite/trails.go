package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// A book is where the trails of a kind of entity are kept.
type book struct{ insert, trail statement }

var (
	mainBook     = book{insertAudit, selectTrail} // of jobs and steps
	workerBook   = book{insertWorkerAudit, selectWorkerTrail}
	scheduleBook = book{insertScheduleAudit, selectScheduleTrail}
)

func bookOf(kind string) book {
	switch kind {
	case lifecycle.Worker.Name:
		return workerBook
	case lifecycle.Schedule.Name:
		return scheduleBook
	}
	return mainBook
}

// Trail reads the audit entries of one entity, by sequence. Their From and
// Entity, which are not stored, are filled in.
func (db *DB) Trail(ctx context.Context, k store.EntityKey) ([]audit.Entry, error) {
	var entries []audit.Entry
	err := db.read(ctx, "read trail", func(c *conn) (err error) {
		entries, err = db.trailIn(c, k)
		return err
	})
	return entries, err
}

func (db *DB) trailIn(c *conn, k store.EntityKey) (entries []audit.Entry, err error) {
	id, err := c.publicID(k)
	if err != nil {
		return nil, err
	}
	if bookOf(k.Kind) != mainBook {
		return db.longTrail(c, k, id)
	}
	err = c.each(selectTrail, func(b *row) { b.ints(k.Job, int64(k.Ord)) }, func(cols *columns) error {
		cols.entries(func(ord pawl.Ord, e audit.Entry) {
			if ord == k.Ord {
				entries = append(entries, e)
			}
		})
		decoded(db.log, cols, "audit entries", k)
		return nil
	})
	store.Chain(id, entries)
	return entries, err
}

// longTrail reads the trail of a worker or a schedule.
func (db *DB) longTrail(c *conn, k store.EntityKey, id string) (entries []audit.Entry, err error) {
	err = c.each(bookOf(k.Kind).trail, func(b *row) { b.int(k.Job) }, func(cols *columns) error {
		if e := cols.entry(); decoded(db.log, cols, "audit entry", k) {
			entries = append(entries, e)
		}
		return nil
	})
	store.Chain(id, entries)
	return entries, err
}

// publicID answers the public id of an entity, empty if it is gone.
func (c *conn) publicID(k store.EntityKey) (string, error) {
	s, name := selectJobID, func(id pawl.ID) string { return nameOf(id, k.Ord) }
	switch k.Kind {
	case lifecycle.Worker.Name:
		s, name = selectWorkerID, workerID
	case lifecycle.Schedule.Name:
		s, name = selectScheduleID, scheduleID
	}
	public := ""
	err := c.each(s, func(b *row) { b.int(k.Job) }, func(cols *columns) error {
		var id pawl.ID
		cols.fixed(id[:])
		public = name(id)
		return cols.finish()
	})
	return public, err
}

func workerID(id pawl.ID) string { return id.Public(pawl.WorkerPrefix) }

func scheduleID(id pawl.ID) string { return id.Public(pawl.SchedulePrefix) }

func nameOf(id pawl.ID, ord pawl.Ord) string {
	if ord == 0 {
		return id.Public(pawl.JobPrefix)
	}
	return id.Step(ord).Public(pawl.StepPrefix)
}

// A series is the entities of one kind that have trails of their own, by key.
type series struct {
	next statement // the first key after another; NULL if there is none
	read func(c *conn, key int64) ([]store.TrailOf, error)
}

// Trails hands every trail to f; see store.Views. Each job with its steps is one
// snapshot, and so is each worker and each schedule, so that no read lasts long.
// f runs while nothing is locked, and may use the database.
func (db *DB) Trails(ctx context.Context, job int64, f func(store.TrailOf) error) error {
	jobs := series{selectNextJob, db.trailsOfJob}
	if job != 0 {
		_, err := db.trailsAfter(ctx, jobs, job-1, job, f)
		return err
	}
	for _, s := range []series{jobs, {selectNextWorker, db.trailOfWorker}, {selectNextSchedule, db.trailOfSchedule}} {
		for after := int64(-1); ; {
			k, err := db.trailsAfter(ctx, s, after, 0, f)
			if err != nil {
				return err
			}
			if k == 0 {
				break
			}
			after = k
		}
	}
	return nil
}

// trailsAfter hands over the trails of the first entity after a key, if it is
// only or only is 0. It answers its key, 0 if there is none.
func (db *DB) trailsAfter(ctx context.Context, s series, after, only int64, f func(store.TrailOf) error) (int64, error) {
	var key int64
	var trails []store.TrailOf
	err := db.read(ctx, "read trails", func(c *conn) error {
		err := c.each(s.next, func(b *row) { b.int(after) }, func(cols *columns) error {
			key = cols.int() // NULL reads as 0
			return nil
		})
		if err == nil && key != 0 && (only == 0 || key == only) {
			trails, err = s.read(c, key)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, t := range trails {
		if err := f(t); err != nil {
			return 0, err
		}
	}
	return key, nil
}

// trailsOfJob reads a job and its steps, each with its trail, by ord. It merges
// records and entries, for either may lack the other.
func (db *DB) trailsOfJob(c *conn, key int64) ([]store.TrailOf, error) {
	var id pawl.ID
	trails := []store.TrailOf{{EntityKey: entityOf(pawl.StepKey{Job: key})}}
	err := c.each(selectJob, func(b *row) { b.int(key) }, func(cols *columns) error {
		j := cols.job()
		if id = j.ID; decoded(db.log, cols, lifecycle.Job.Name, key) {
			trails[0].Record = j.Record
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	at := map[pawl.Ord]int{0: 0}
	of := func(ord pawl.Ord) *store.TrailOf {
		i, ok := at[ord]
		if !ok {
			i = len(trails)
			at[ord] = i
			trails = append(trails, store.TrailOf{EntityKey: entityOf(pawl.StepKey{Job: key, Ord: ord})})
		}
		if id != (pawl.ID{}) {
			trails[i].ID = nameOf(id, ord)
		}
		return &trails[i]
	}
	of(0)
	err = c.each(selectStepsHot, func(b *row) { b.int(key) }, func(cols *columns) error {
		if s := cols.step(); decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
			of(s.Ord).Record = s.Record
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.each(selectJobTrails, func(b *row) { b.int(key) }, func(cols *columns) error {
		cols.entries(func(ord pawl.Ord, e audit.Entry) {
			t := of(ord)
			t.Entries = append(t.Entries, e)
		})
		decoded(db.log, cols, "audit entries of job", key)
		return nil
	})
	slices.SortFunc(trails, func(a, b store.TrailOf) int { return cmp.Compare(a.Ord, b.Ord) })
	for _, t := range trails {
		store.Chain(t.ID, t.Entries)
	}
	return trails, err
}

func entityOf(k pawl.StepKey) store.EntityKey {
	kind := lifecycle.Step.Name
	if k.Ord == 0 {
		kind = lifecycle.Job.Name
	}
	return store.EntityKey{Kind: kind, StepKey: k}
}

func (db *DB) trailOfWorker(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, lifecycle.Worker.Name, selectWorker, key, func(cols *columns) (string, pawl.Record) {
		w := cols.worker()
		return workerID(w.ID), w.Record
	})
}

func (db *DB) trailOfSchedule(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, lifecycle.Schedule.Name, selectSchedule, key, func(cols *columns) (string, pawl.Record) {
		s := cols.schedule()
		return scheduleID(s.ID), s.Record
	})
}

// trailOf reads the trail of an entity that has no parts, and its record with s.
func (db *DB) trailOf(c *conn, kind string, s statement, key int64, read func(*columns) (string, pawl.Record)) ([]store.TrailOf, error) {
	t := store.TrailOf{EntityKey: store.EntityKey{Kind: kind, StepKey: pawl.StepKey{Job: key}}}
	err := c.each(s, func(b *row) { b.int(key) }, func(cols *columns) error {
		if id, record := read(cols); decoded(db.log, cols, kind, key) {
			t.ID, t.Record = id, record
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.Entries, err = db.longTrail(c, t.EntityKey, t.ID)
	return []store.TrailOf{t}, err
}
