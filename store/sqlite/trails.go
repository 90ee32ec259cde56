package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
)

// Trail reads the audit entries of one entity, by sequence. Their From and
// Entity, which are not stored, are filled in.
func (db *DB) Trail(ctx context.Context, k store.EntityKey) ([]audit.Entry, error) {
	var entries []audit.Entry
	err := db.read(ctx, "read trail", func(c *conn) error {
		id, s := "", selectTrail
		var err error
		if k.Kind == lifecycle.Worker.Name {
			s = selectWorkerTrail
			id, err = c.workerID(k.Job)
		} else {
			id, err = c.publicID(k.StepKey)
		}
		if err != nil {
			return err
		}
		return c.each(s, func(b *row) { b.entity(k) }, func(cols *columns) error {
			entries = db.appendEntry(entries, cols, id, k)
			return nil
		})
	})
	return entries, err
}

// appendEntry reads an entry of the entity and chains it to those before.
func (db *DB) appendEntry(entries []audit.Entry, cols *columns, id string, k store.EntityKey) []audit.Entry {
	e := cols.entry()
	if !decoded(db.log, cols, "audit entry", k) {
		return entries
	}
	e.Entity = id
	if n := len(entries); n > 0 {
		e.From = entries[n-1].To
	}
	return append(entries, e)
}

// publicID answers the public id of a job or step, empty if the job is gone.
func (c *conn) publicID(k pawl.StepKey) (string, error) {
	public := ""
	err := c.each(selectEntityID, func(b *row) { b.int(k.Job) }, func(cols *columns) error {
		var id pawl.ID
		cols.fixed(id[:])
		public = nameOf(id, k.Ord)
		return cols.finish()
	})
	return public, err
}

func nameOf(id pawl.ID, ord pawl.Ord) string {
	if ord == 0 {
		return id.Public(pawl.JobPrefix)
	}
	return id.Step(ord).Public(pawl.StepPrefix)
}

func (c *conn) workerID(key int64) (string, error) {
	public := ""
	err := c.each(selectWorker, func(b *row) { b.int(key) }, func(cols *columns) error {
		public = cols.worker().ID.Public(pawl.WorkerPrefix)
		return nil
	})
	return public, err
}

// Trails hands every trail to f; see store.Views. Each job with its steps is one
// snapshot, and so is each worker, so that no read lasts long. f runs while
// nothing is locked, and may use the database.
func (db *DB) Trails(ctx context.Context, job int64, f func(store.TrailOf) error) error {
	if job != 0 {
		_, err := db.jobTrails(ctx, selectNextJob, job-1, job, f)
		return err
	}
	for _, next := range []statement{selectNextJob, selectNextWorker} {
		for after := int64(-1); ; {
			k, err := db.jobTrails(ctx, next, after, 0, f)
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

// jobTrails hands over the trails of the first job or worker after a key, if it
// is only or only is 0. It answers its key, 0 if there is none.
func (db *DB) jobTrails(ctx context.Context, next statement, after, only int64, f func(store.TrailOf) error) (int64, error) {
	var key int64
	var trails []store.TrailOf
	err := db.read(ctx, "read trails", func(c *conn) error {
		err := c.each(next, func(b *row) { b.int(after) }, func(cols *columns) error {
			key = cols.int() // NULL reads as 0
			return nil
		})
		if err != nil || key == 0 || only != 0 && key != only {
			return err
		}
		if next == selectNextWorker {
			trails, err = db.trailsOfWorker(c, key)
		} else {
			trails, err = db.trailsOfJob(c, key)
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
		t := of(pawl.Ord(cols.int()))
		t.Entries = db.appendEntry(t.Entries, cols, t.ID, t.EntityKey)
		return nil
	})
	return trails, err
}

func entityOf(k pawl.StepKey) store.EntityKey {
	kind := lifecycle.Step.Name
	if k.Ord == 0 {
		kind = lifecycle.Job.Name
	}
	return store.EntityKey{Kind: kind, StepKey: k}
}

func (db *DB) trailsOfWorker(c *conn, key int64) ([]store.TrailOf, error) {
	t := store.TrailOf{EntityKey: store.EntityKey{Kind: lifecycle.Worker.Name, StepKey: pawl.StepKey{Job: key}}}
	err := c.each(selectWorker, func(b *row) { b.int(key) }, func(cols *columns) error {
		if w := cols.worker(); decoded(db.log, cols, lifecycle.Worker.Name, key) {
			t.ID, t.Record = w.ID.Public(pawl.WorkerPrefix), w.Record
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = c.each(selectWorkerTrail, func(b *row) { b.int(key) }, func(cols *columns) error {
		t.Entries = db.appendEntry(t.Entries, cols, t.ID, t.EntityKey)
		return nil
	})
	return []store.TrailOf{t}, err
}
