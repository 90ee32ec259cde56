package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Bounds of one step of retention. A job is removed whole, so that one of more
// rows is a step of its own.
const (
	retainCandidates = 50
	retainRows       = 500
)

// A removal is how entities of a kind are removed.
type removal struct {
	kind   string
	find   statement // those that may go, by key
	check  statement // one of them, again
	parts  statement // the heads of what goes with it; 0 if there is nothing
	clear  []statement
	survey statement
}

var removals = []removal{
	{lifecycle.Job.Name, selectOldJobs, selectOldJob, selectHeads, []statement{removeTrails, removeSteps, removeSignals, removeRefusals, removeJob}, countOldJobs},
	{lifecycle.Worker.Name, selectOldWorkers, selectOldWorker, 0, []statement{removeWorkerTrail, removeWorker}, countOldWorkers},
	{lifecycle.Schedule.Name, selectOldSchedules, selectOldSchedule, 0, []statement{removeScheduleTrail, removeSchedule}, countOldSchedules},
}

// Retain goes one step of retention; see store.Retention. Candidates are found
// beside the writer, and looked at again in the transaction that removes them.
func (db *DB) Retain(ctx context.Context, p *store.Policy, from store.Place) (store.Removed, error) {
	from = from.Settled()
	for i := range removals {
		if removals[i].kind == from.Kind {
			return db.retain(ctx, &removals[i], p, from)
		}
	}
	return store.Removed{}, pawl.Errorf(pawl.Invalid, "kind %q: want job, worker or schedule", from.Kind)
}

func (db *DB) retain(ctx context.Context, m *removal, p *store.Policy, from store.Place) (store.Removed, error) {
	keys, err := db.candidates(ctx, m, p, from)
	if err != nil {
		return store.Removed{}, err
	}
	if len(keys) == 0 {
		return store.Past(m.kind), db.removeBeside(ctx, m.kind, from.Key, keysBefore(p.Before))
	}
	return db.remove(ctx, m, p, from, keys)
}

// remove removes those of the candidates that may still go.
func (db *DB) remove(ctx context.Context, m *removal, p *store.Policy, from store.Place, keys []int64) (r store.Removed, err error) {
	if m.kind == lifecycle.Worker.Name {
		db.removeHolds(keys)
	}
	err = db.writer.transact(ctx, func(c *conn) error {
		u := &unit{c: c, m: m, policy: p, now: db.now(), done: store.Removed{Kind: m.kind, Next: from}}
		err := u.run(keys)
		r = u.done
		return err
	})
	if err != nil {
		return r, translate("remove what has ended", err)
	}
	return r, db.removeBeside(ctx, m.kind, from.Key, r.Next.Key)
}

// candidates answers the next entities that may go, all of one day.
func (db *DB) candidates(ctx context.Context, m *removal, p *store.Policy, from store.Place) ([]int64, error) {
	var keys []int64
	err := db.read(ctx, "look for what has ended", func(c *conn) error {
		keys = nil
		return c.each(m.find, func(b *row) { b.ints(p.Before, keysBefore(p.Before), from.Key, retainCandidates) }, func(cols *columns) error {
			if k := cols.int(); len(keys) == 0 || store.Day(k) == store.Day(keys[0]) {
				keys = append(keys, k)
			}
			return nil
		})
	})
	return keys, err
}

// keysBefore answers the key below which everything was created before a time.
func keysBefore(at int64) int64 { return pawl.KeyAt(pawl.Time(at)) + 1<<32 }

// removeHolds removes the lock files, which hold the beats, of workers that were
// killed. A process that lives keeps its own.
func (db *DB) removeHolds(workers []int64) {
	for _, key := range workers {
		if free, err := db.holds.hold(workerName(key), nil); err == nil {
			free() // which removes the file
		}
	}
}

// removeBeside removes logs of jobs with keys after one and up to another that are no
// longer there. The logs are in a file of their own: so they go after their jobs, and
// what a process has left that died in between is found by the next one.
func (db *DB) removeBeside(ctx context.Context, kind string, after, to int64) error {
	if kind != lifecycle.Job.Name {
		return nil
	}
	for after < to {
		jobs, err := db.logs.jobs(ctx, after, to)
		if err != nil || len(jobs) == 0 {
			return err
		}
		after = jobs[len(jobs)-1]
		if jobs, err = db.gone(ctx, jobs); err != nil {
			return err
		}
		if err := db.logs.remove(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// gone returns those of the jobs that are not there.
func (db *DB) gone(ctx context.Context, jobs []int64) (gone []int64, err error) {
	err = db.read(ctx, "look for what was removed", func(c *conn) error {
		gone = nil
		for _, job := range jobs {
			there := false
			if err := c.each(selectJobSeq, func(b *row) { b.int(job) }, func(*columns) error { there = true; return nil }); err != nil {
				return err
			}
			if !there {
				gone = append(gone, job)
			}
		}
		return nil
	})
	return gone, err
}

// A unit is what one transaction removes.
type unit struct {
	c      *conn
	m      *removal
	policy *store.Policy
	now    int64
	rows   int64
	done   store.Removed

	anchor audit.Anchor
	prev   audit.Hash
}

func (u *unit) run(keys []int64) error {
	for _, key := range keys {
		trails, created, ended, err := u.look(key)
		if err != nil {
			return err
		}
		if len(trails) > 0 {
			n := int64(len(trails))
			for _, t := range trails {
				n += t.Seq
			}
			if u.rows > 0 && u.rows+n > retainRows {
				break
			}
			u.rows += n
			if err := u.remove(key, created, ended, trails); err != nil {
				return err
			}
		}
		u.done.Next.Key = key
	}
	if u.done.Count == 0 {
		return nil
	}
	u.anchor.Seal(u.prev)
	return u.c.run(replaceAnchor, func(b *row) { b.anchor(&u.anchor) })
}

// look answers the ends of the entity's trails, none if it has to stay.
func (u *unit) look(key int64) (trails []audit.Stored, created, ended int64, err error) {
	head := func(cols *columns) error {
		t := audit.Stored{Seq: cols.int()}
		cols.fixed(t.Head[:])
		trails = append(trails, t)
		return cols.finish()
	}
	err = u.c.each(u.m.check, func(b *row) { b.ints(u.policy.Before, key) }, func(cols *columns) error {
		created, ended = cols.int(), cols.int()
		return head(cols)
	})
	if err == nil && len(trails) > 0 && u.m.parts != 0 {
		err = u.c.each(u.m.parts, func(b *row) { b.int(key) }, head)
	}
	return trails, created, ended, err
}

func (u *unit) remove(key, created, ended int64, trails []audit.Stored) error {
	if u.done.Count == 0 {
		newest, err := u.c.newestAnchors(u.m.kind)
		if err != nil {
			return err
		}
		u.anchor, u.prev = store.NextAnchor(newest, u.m.kind, key, u.now, u.policy, false)
	}
	entries := u.anchor.Entries
	sealed, err := u.sealed(key)
	if err != nil {
		return err
	}
	u.anchor.Add(key, created, ended, sealed, trails...)
	u.done.Count++
	u.done.Steps += int64(len(trails) - 1)
	u.done.Entries += u.anchor.Entries - entries
	for _, s := range u.m.clear {
		if err := u.c.run(s, func(b *row) { b.int(key) }); err != nil {
			return err
		}
	}
	return nil
}

// sealed reports whether a job seals its steps.
func (u *unit) sealed(key int64) (sealed bool, err error) {
	if u.m.kind != lifecycle.Job.Name {
		return false, nil
	}
	err = u.c.each(selectSealed, func(b *row) { b.int(key) }, func(cols *columns) error {
		sealed = cols.bool()
		return cols.finish()
	})
	return sealed, err
}

func (c *conn) newestAnchors(kind string) (newest []audit.Anchor, err error) {
	err = c.each(selectNewestAnchors, func(b *row) { b.text(kind) }, func(cols *columns) error {
		newest = append(newest, cols.anchor())
		return cols.finish()
	})
	return newest, err
}

// Anchors answers what was removed; see store.Retention.
func (db *DB) Anchors(ctx context.Context) ([]audit.Anchor, error) {
	var anchors []audit.Anchor
	err := db.read(ctx, "read anchors", func(c *conn) error {
		anchors = nil
		return c.each(selectAnchors, nil, func(cols *columns) error {
			anchors = append(anchors, cols.anchor())
			return cols.finish()
		})
	})
	return anchors, err
}

// Prospects says what would be removed; see store.Retention.
func (db *DB) Prospects(ctx context.Context, before int64) ([]store.Prospect, error) {
	var list []store.Prospect
	for i := range removals {
		o := store.Prospect{Kind: removals[i].kind}
		err := db.read(ctx, "count what has ended", func(c *conn) error {
			return c.each(removals[i].survey, func(b *row) { b.ints(before, keysBefore(before)) }, func(cols *columns) error {
				o.Goes, o.Open, o.Needed = cols.int(), cols.int(), cols.int()
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

func (r *row) anchor(a *audit.Anchor) {
	r.text(a.Kind)
	r.ints(a.Sequence, a.Day, a.Count, a.Entries, a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded, a.Last)
	r.blob(a.Digest[:])
	r.int(a.At)
	r.text(a.Actor)
	r.text(a.Reason)
	r.blob(a.Hash[:])
	r.int(a.Sealed)
}

func (c *columns) anchor() audit.Anchor {
	a := audit.Anchor{Kind: c.text(), Sequence: c.int(), Day: c.int(), Count: c.int(), Entries: c.int()}
	a.FirstCreated, a.LastCreated, a.FirstEnded, a.LastEnded, a.Last = c.int(), c.int(), c.int(), c.int(), c.int()
	c.fixed(a.Digest[:])
	a.At, a.Actor, a.Reason = c.int(), c.text(), c.text()
	c.fixed(a.Hash[:])
	a.Sealed = c.int()
	return a
}
