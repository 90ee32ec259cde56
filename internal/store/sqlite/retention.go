package sqlite

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A job of at most retainRows rows is removed in one transaction. For a larger job, that
// transaction removes the record, with the anchor that counts it, and notes the job in the
// table removal. The rest of the job is then no longer visible, and the next steps of any
// process remove it.

// Bounds of one step of retention.
const (
	retainCandidates = 50
	retainRows       = 500
)

// A removal is how entities of a kind are removed.
type removal struct {
	kind   string
	find   statement   // entities that may be removed, by key
	check  statement   // one of them, checked again
	parts  statement   // the heads of its parts; 0 if it has none
	remove []statement // the record last
	survey statement
}

var removals = []removal{
	{lifecycle.Job.Name, selectOldJobs, selectOldJob, selectHeads, []statement{removeJob}, countOldJobs},
	{lifecycle.Worker.Name, selectOldWorkers, selectOldWorker, 0, []statement{removeWorkerTrail, removeTurn, removeWorker}, countOldWorkers},
	{lifecycle.Schedule.Name, selectOldSchedules, selectOldSchedule, 0, []statement{removeScheduleTrail, removeSchedule}, countOldSchedules},
	{lifecycle.Token.Name, selectOldTokens, selectOldToken, 0, []statement{removeTokenTrail, removeToken}, countOldTokens},
	{lifecycle.QueuePause.Name, selectOldPauses, selectOldPause, 0, []statement{removePauseTrail, removePause}, countOldPauses},
	{lifecycle.Webhook.Name, selectOldWebhooks, selectOldWebhook, 0, []statement{removeDeliveries, removeWebhookPlace, removeWebhookTrail, removeWebhook}, countOldWebhooks},
}

// leftovers remove the rest of a job whose record is removed.
var leftovers = []statement{removeTrails, removeSignals, removeRefusals, removeSteps}

// Retain does one step of retention; see store.Retention. It finds candidates outside of the
// write transaction, and checks them again in the transaction that removes them.
func (db *DB) Retain(ctx context.Context, p *store.Policy, from store.Place) (store.Removed, error) {
	from = from.Settled()
	for i := range removals {
		if removals[i].kind == from.Kind {
			return db.retain(ctx, &removals[i], p, from)
		}
	}
	return store.Removed{}, pawl.Errorf(pawl.Invalid, "kind %q: want job, worker, schedule, token, webhook or queue_pause", from.Kind)
}

func (db *DB) retain(ctx context.Context, m *removal, p *store.Policy, from store.Place) (store.Removed, error) {
	if m.kind == lifecycle.Job.Name {
		if begun, err := db.goOn(ctx); begun || err != nil {
			return store.Removed{Kind: m.kind, Next: from}, err
		}
	}
	list, err := db.candidates(ctx, m, p, from)
	if err != nil {
		return store.Removed{}, err
	}
	if len(list) == 0 {
		return store.Past(m.kind), db.removeBeside(ctx, m.kind, from.Key, keysBefore(p.Before))
	}
	return db.remove(ctx, m, p, from, list)
}

// goOn removes part of the rest of a job, and reports whether there was one.
func (db *DB) goOn(ctx context.Context) (begun bool, err error) {
	var job rowkey.Job
	err = db.read(ctx, "look for what was removed in part", func(c *conn) (err error) {
		job, err = c.removing(0, math.MaxInt64)
		return err
	})
	if err != nil || job == 0 {
		return false, err
	}
	err = db.writer.transact(ctx, func(c *conn) error {
		if again, err := c.removing(job, job); err != nil || again == 0 { // another process has done it
			return err
		}
		n, err := c.clear(job, retainRows)
		if err != nil || n == retainRows {
			return err
		}
		return c.run(removeRemoval, func(b *row) { b.int(int64(job)) })
	})
	return true, translate("remove what has ended", err)
}

// removing returns the first job, with a key in a range, whose record retention has removed,
// but not yet the rest; 0 if there is none.
func (c *conn) removing(from, to rowkey.Job) (job rowkey.Job, err error) {
	err = c.each(selectRemoval, func(b *row) { b.ints(int64(from), int64(to)) }, func(cols *columns) error {
		job = rowkey.Job(cols.int())
		return cols.finish()
	})
	return job, err
}

// clear removes at most limit rows of a job whose record is removed, and returns how many.
func (c *conn) clear(job rowkey.Job, limit int) (n int, err error) {
	for _, s := range leftovers {
		if n == limit {
			break
		}
		if err := c.run(s, func(b *row) { b.ints(int64(job), int64(limit-n)) }); err != nil {
			return n, err
		}
		n += c.Changes()
	}
	return n, nil
}

// remove removes those candidates that may still be removed.
func (db *DB) remove(ctx context.Context, m *removal, p *store.Policy, from store.Place, list []old) (r store.Removed, err error) {
	if m.kind == lifecycle.Worker.Name {
		db.removeHolds(list)
	}
	err = db.writer.transact(ctx, func(c *conn) error {
		u := &unit{c: c, m: m, policy: p, now: db.now(), left: retainRows, done: store.Removed{Kind: m.kind, Next: from}}
		err := u.run(list)
		r = u.done
		return err
	})
	if err != nil {
		return r, translate("remove what has ended", err)
	}
	return r, db.removeBeside(ctx, m.kind, from.Key, r.Next.Key)
}

// An old is an entity of the removal's kind that may be removed, with the ends of its trails,
// its own first. They grow no more: an addition to its own trail makes it too recent for
// removal.
type old struct {
	key    int64
	trails []audit.Stored
}

// rows returns the approximate number of its rows: entries of a trail may share one.
func (k *old) rows() (n int64) {
	for _, t := range k.trails {
		n += 1 + t.Seq
	}
	return n
}

// candidates returns the next entities that may be removed, all of one day: as many as one
// transaction removes.
func (db *DB) candidates(ctx context.Context, m *removal, p *store.Policy, from store.Place) ([]old, error) {
	var list []old
	err := db.read(ctx, "look for what has ended", func(c *conn) error {
		list = nil
		err := c.each(m.find, func(b *row) { b.ints(p.Before, keysBefore(p.Before), from.Key, retainCandidates) }, func(cols *columns) error {
			if k := cols.int(); len(list) == 0 || store.Day(k) == store.Day(list[0].key) {
				list = append(list, old{key: k})
			}
			return nil
		})
		left := int64(retainRows)
		for i := 0; i < len(list) && err == nil; i++ {
			if list[i].trails, err = c.trailsOf(m, p, list[i].key); i > 0 && list[i].rows() > left {
				list = list[:i]
				break
			}
			left -= list[i].rows()
		}
		return err
	})
	return list, err
}

// trailsOf reads the ends of the trails of an entity, or returns none if it has to stay.
func (c *conn) trailsOf(m *removal, p *store.Policy, key int64) (trails []audit.Stored, err error) {
	own, _, _, err := c.check(m, p, key)
	if err != nil || own.Seq == 0 {
		return nil, err
	}
	trails = append(trails, own)
	if m.parts == 0 {
		return trails, nil
	}
	err = c.each(m.parts, func(b *row) { b.int(key) }, func(cols *columns) error {
		trails = append(trails, cols.stored())
		return cols.finish()
	})
	return trails, err
}

// check reads the end of an entity's trail, and when it was created and ended; Seq is 0 if it
// has to stay.
func (c *conn) check(m *removal, p *store.Policy, key int64) (own audit.Stored, created, ended int64, err error) {
	err = c.each(m.check, func(b *row) { b.ints(p.Before, key) }, func(cols *columns) error {
		created, ended = cols.int(), cols.int()
		own = cols.stored()
		return cols.finish()
	})
	return own, created, ended, err
}

func (c *columns) stored() (t audit.Stored) {
	t.Seq = c.int()
	c.fixed(t.Head[:])
	return t
}

// keysBefore returns a key such that all lower keys were created before a time.
func keysBefore(at int64) int64 { return pawl.KeyAt(pawl.Time(at)) + 1<<32 }

// removeHolds removes the lock files, which hold the beats, of workers that were killed. A
// living process keeps its own.
func (db *DB) removeHolds(workers []old) {
	for i := range workers {
		if free, err := db.holds.hold(workerName(rowkey.Worker(workers[i].key)), nil); err == nil {
			free() // removes the file
		}
	}
}

// removeBeside removes the logs of jobs, with keys in a range, that no longer exist. The logs
// are in a file of their own and are therefore removed after their jobs; if a process dies in
// between, the next one finds the rest.
func (db *DB) removeBeside(ctx context.Context, kind string, after, to int64) error {
	if kind != lifecycle.Job.Name {
		return nil
	}
	for after < to {
		jobs, err := db.logs.jobs(ctx, rowkey.Job(after), rowkey.Job(to))
		if err != nil || len(jobs) == 0 {
			return err
		}
		after = int64(jobs[len(jobs)-1])
		if jobs, err = db.gone(ctx, jobs); err != nil {
			return err
		}
		if err := db.logs.remove(ctx, jobs); err != nil {
			return err
		}
	}
	return nil
}

// gone returns those of the jobs that do not exist.
func (db *DB) gone(ctx context.Context, jobs []rowkey.Job) (gone []rowkey.Job, err error) {
	err = db.read(ctx, "look for what was removed", func(c *conn) error {
		gone = nil
		for _, job := range jobs {
			there := false
			if err := c.each(selectJobSeq, func(b *row) { b.int(int64(job)) }, func(*columns) error { there = true; return nil }); err != nil {
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

// A unit is one transaction of a removal.
type unit struct {
	c      *conn
	m      *removal
	policy *store.Policy
	now    int64
	left   int // rows that it may still remove
	done   store.Removed

	anchor audit.Anchor
	prev   audit.Hash
}

func (u *unit) run(list []old) error {
	for i := range list {
		k := &list[i]
		own, created, ended, err := u.c.check(u.m, u.policy, k.key)
		if err != nil {
			return err
		}
		if len(k.trails) > 0 && own == k.trails[0] {
			if u.done.Count > 0 && k.rows() > int64(u.left) {
				break
			}
			if err := u.remove(k, created, ended); err != nil {
				return err
			}
		}
		u.done.Next.Key = k.key
	}
	if u.done.Count == 0 {
		return nil
	}
	u.anchor.Seal(u.prev)
	return u.c.run(replaceAnchor, func(b *row) { b.anchor(&u.anchor) })
}

func (u *unit) remove(k *old, created, ended int64) error {
	if u.done.Count == 0 {
		newest, err := u.c.newestAnchors(u.m.kind)
		if err != nil {
			return err
		}
		u.anchor, u.prev = store.NextAnchor(newest, u.m.kind, k.key, u.now, u.policy, false)
	}
	entries := u.anchor.Entries
	sealed, err := u.sealed(k.key)
	if err != nil {
		return err
	}
	u.anchor.Add(k.key, created, ended, sealed, k.trails...)
	u.done.Count++
	u.done.Steps += int64(len(k.trails) - 1)
	u.done.Entries += u.anchor.Entries - entries
	for _, s := range u.m.remove {
		if err := u.c.run(s, func(b *row) { b.int(k.key) }); err != nil {
			return err
		}
	}
	if u.m.kind != lifecycle.Job.Name {
		u.left -= int(k.rows())
		return nil
	}
	return u.clear(rowkey.Job(k.key))
}

// clear removes the parts of a job, and notes the job if some are left.
func (u *unit) clear(job rowkey.Job) error {
	limit := max(u.left, 0)
	n, err := u.c.clear(job, limit)
	u.left -= n + 1
	if err != nil || n < limit {
		return err
	}
	return u.c.run(insertRemoval, func(b *row) { b.int(int64(job)) })
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

// Anchors returns what was removed; see store.Retention.
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
func (db *DB) Prospects(ctx context.Context, before int64) ([]pawl.Prospect, error) {
	var list []pawl.Prospect
	for i := range removals {
		o := pawl.Prospect{Kind: removals[i].kind}
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
