package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A book is the table of the trails of a kind of entity.
type book struct{ insert, trail statement }

var (
	mainBook     = book{insertAudit, selectJobTrail} // of jobs and steps
	workerBook   = book{insertWorkerAudit, selectWorkerTrail}
	scheduleBook = book{insertScheduleAudit, selectScheduleTrail}
	tokenBook    = book{insertTokenAudit, selectTokenTrail}
	pauseBook    = book{insertPauseAudit, selectPauseTrail}
	webhookBook  = book{insertWebhookAudit, selectWebhookTrail}
)

func bookOf(kind string) book {
	switch kind {
	case lifecycle.Worker.Name:
		return workerBook
	case lifecycle.Schedule.Name:
		return scheduleBook
	case lifecycle.Token.Name:
		return tokenBook
	case lifecycle.QueuePause.Name:
		return pauseBook
	case lifecycle.Webhook.Name:
		return webhookBook
	}
	return mainBook
}

// Trail reads the audit entries of one entity, by sequence. Their From and
// Entity, which are not stored, are filled in.
func (db *DB) Trail(ctx context.Context, k store.EntityKey, after int64, limit int) ([]audit.Entry, error) {
	var entries []audit.Entry
	err := db.read(ctx, "read trail", func(c *conn) error {
		id, err := c.publicID(k)
		if err != nil {
			return err
		}
		page := &store.TrailPage{After: after, Limit: limit}
		err = db.trailIn(c, k, page)
		entries = page.Entries(id)
		return err
	})
	return entries, err
}

// trailIn reads the rows that may have entries of a page, including the row of the entry
// before it.
func (db *DB) trailIn(c *conn, k store.EntityKey, p *store.TrailPage) error {
	s, bind := bookOf(k.Kind).trail, func(b *row) { b.ints(int64(k.Job), p.After, rowsFor(p.Limit)) }
	if k.Ord != 0 {
		s, bind = selectStepTrail, func(b *row) { b.ints(int64(k.Job), int64(k.Ord)) }
	}
	packed := bookOf(k.Kind) == mainBook
	err := c.each(s, bind, func(cols *columns) error {
		if packed {
			cols.entries(func(ord pawl.Ord, e audit.Entry) {
				if ord == k.Ord {
					p.Add(e)
				}
			})
			decoded(db.log, cols, "audit entries", k)
		} else if e := cols.entry(); decoded(db.log, cols, "audit entry", k) {
			p.Add(e)
		}
		if k.Ord == 0 && p.Full() {
			return errPageFull
		}
		return nil
	})
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// History reads a page of the trail of a job and of its steps in the order of time.
func (db *DB) History(ctx context.Context, job rowkey.Job, after store.HistoryPlace, limit int) ([]store.Entry, store.HistoryPlace, error) {
	page := &store.HistoryPage{Job: job, Last: after}
	err := db.read(ctx, "read a history", func(c *conn) error {
		return c.each(selectHistory, func(b *row) { b.ints(int64(job), after.At, int64(after.Ord), after.Seq, int64(limit)) }, func(cols *columns) error {
			cols.entries(page.Row())
			decoded(db.log, cols, "audit entries of job", job)
			if page.Full() {
				return errPageFull
			}
			return nil
		})
	})
	if errors.Is(err, errPageFull) {
		err = nil
	}
	return page.Entries(), page.Last, err
}

// rowsFor returns how many rows hold this many entries and the one before them.
func rowsFor(limit int) int64 {
	if limit == 0 {
		return bound(limit)
	}
	return int64(limit) + 1
}

// publicID returns the public id of an entity, or an empty one if the entity is gone.
func (c *conn) publicID(k store.EntityKey) (string, error) {
	s, name := selectJobID, func(id pawl.ID) string { return nameOf(id, k.Ord) }
	switch k.Kind {
	case lifecycle.Worker.Name:
		s, name = selectWorkerID, workerID
	case lifecycle.Schedule.Name:
		s, name = selectScheduleID, scheduleID
	case lifecycle.Token.Name:
		s, name = selectTokenID, tokenID
	case lifecycle.QueuePause.Name:
		s, name = selectPauseID, pauseID
	case lifecycle.Webhook.Name:
		s, name = selectWebhookID, webhookID
	}
	public := ""
	err := c.each(s, func(b *row) { b.int(int64(k.Job)) }, func(cols *columns) error {
		var id pawl.ID
		cols.fixed(id[:])
		public = name(id)
		return cols.finish()
	})
	return public, err
}

func workerID(id pawl.ID) string { return id.Public(pawl.WorkerPrefix) }

func scheduleID(id pawl.ID) string { return id.Public(pawl.SchedulePrefix) }

func tokenID(id pawl.ID) string   { return id.Public(pawl.TokenPrefix) }
func webhookID(id pawl.ID) string { return id.Public(pawl.WebhookPrefix) }

func pauseID(id pawl.ID) string { return id.Public(pawl.QueuePausePrefix) }

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

// errLong is returned for a job whose trail is longer than a page.
var errLong = errors.New("a long trail")

// Trails passes every trail to f; see store.Views. Each job with its steps is one snapshot,
// and so is each worker, schedule, token, webhook and pause of a queue, so no read lasts long, except for a job that is
// longer than a page. Nothing is locked while f runs, and f may use the database.
func (db *DB) Trails(ctx context.Context, job rowkey.Job, f func(store.TrailOf) error) error {
	jobs := series{selectNextJob, db.trailsOfJob}
	if job != 0 {
		_, err := db.trailsAfter(ctx, jobs, int64(job)-1, int64(job), f)
		return err
	}
	for _, s := range []series{jobs, {selectNextWorker, db.trailOfWorker}, {selectNextSchedule, db.trailOfSchedule}, {selectNextToken, db.trailOfToken}, {selectNextPause, db.trailOfPause}, {selectNextWebhook, db.trailOfWebhook}} {
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

// trailsAfter passes on the trails of the first entity after a key, or of the entity only, if
// only is not 0. It returns the entity's key, or 0 if there is none.
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
	if errors.Is(err, errLong) {
		return key, store.Walk(ctx, &longTrail{db: db, job: rowkey.Job(key)}, f)
	}
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

// trailsOfJob reads a job and its steps, each with its trail, by ord. It merges records and
// entries, since either may lack the other.
func (db *DB) trailsOfJob(c *conn, key int64) ([]store.TrailOf, error) {
	job := rowkey.Job(key)
	entries := map[pawl.Ord][]audit.Entry{}
	_, more, err := db.trailRows(c, job, store.TrailRow{Ord: -1}, func(ord pawl.Ord, e audit.Entry) { entries[ord] = append(entries[ord], e) })
	if more {
		return nil, errLong
	}
	if err != nil {
		return nil, err
	}
	id, trails, err := db.recordsOfJob(c, job)
	for i := range trails {
		trails[i].Entries = entries[trails[i].Ord]
		delete(entries, trails[i].Ord)
	}
	for ord, rest := range entries {
		t := trailNamed(pawl.StepKey{Job: job, Ord: ord}, id)
		t.Entries = rest
		trails = append(trails, t)
	}
	slices.SortFunc(trails, func(a, b store.TrailOf) int { return cmp.Compare(a.Ord, b.Ord) })
	for _, t := range trails {
		t.Complete()
	}
	return slices.DeleteFunc(trails, func(t store.TrailOf) bool { return t.Record.Seq == 0 && len(t.Entries) == 0 }), err
}

// recordsOfJob reads a job and its steps, by ord, without their entries, and the id of the
// job, which is empty if the job is gone. It ignores the rest of a job that retention is
// removing.
func (db *DB) recordsOfJob(c *conn, key rowkey.Job) (id pawl.ID, trails []store.TrailOf, err error) {
	var job pawl.Job
	err = c.each(selectJob, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
		j := jobTable.readPlain(cols)
		if id = j.ID; decoded(db.log, cols, lifecycle.Job.Name, key) {
			job = *j
		}
		return nil
	})
	if err != nil {
		return id, nil, err
	}
	trails = []store.TrailOf{trailNamed(pawl.StepKey{Job: key}, id)}
	trails[0].Of(&job.Record, job.Tree, 0)
	if removing, err := c.removing(key, key); err != nil || removing != 0 {
		return id, trails, err
	}
	err = c.each(selectStepsHot, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
		if s := stepTable.readPlain(cols); decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
			t := trailNamed(s.StepKey, id)
			t.Of(&s.Record, s.Tree, s.Folded)
			trails = append(trails, t)
		}
		return nil
	})
	return id, trails, err
}

// trailRows passes the entries of a page of rows of a job to f, by the place of the row. It
// returns the last place, and whether there may be more. A job that retention is removing has
// no rows.
func (db *DB) trailRows(c *conn, job rowkey.Job, after store.TrailRow, f func(pawl.Ord, audit.Entry)) (last store.TrailRow, more bool, err error) {
	last = after
	if removing, err := c.removing(job, job); err != nil || removing != 0 {
		return last, false, err
	}
	n, bytes := 0, 0
	err = c.each(selectTrailPage, func(b *row) { b.ints(int64(job), int64(after.Ord), after.Seq, store.TrailPageRows) }, func(cols *columns) error {
		if bytes > store.TrailPageBytes {
			return errLong
		}
		n++
		first := true
		cols.entries(func(ord pawl.Ord, e audit.Entry) {
			bytes += store.TrailBytes(&e)
			if first {
				last, first = store.TrailRow{Ord: ord, Seq: e.Sequence}, false
			}
			f(ord, e)
		})
		decoded(db.log, cols, "audit entries of job", job)
		return nil
	})
	if errors.Is(err, errLong) {
		return last, true, nil
	}
	return last, n == store.TrailPageRows, err
}

// trailNamed returns the trail of a job or a step. Its id is empty if the job's is.
func trailNamed(k pawl.StepKey, job pawl.ID) store.TrailOf {
	t := store.TrailOf{EntityKey: store.StepEntity(k)}
	if job != (pawl.ID{}) {
		t.ID = nameOf(job, k.Ord)
	}
	return t
}

func (db *DB) trailOfWorker(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, store.WorkerEntity(rowkey.Worker(key)), selectWorker, func(cols *columns) (string, pawl.Record) {
		w := workerTable.readWhole(cols)
		return workerID(w.ID), w.Record
	})
}

func (db *DB) trailOfSchedule(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, store.ScheduleEntity(rowkey.Schedule(key)), selectSchedule, func(cols *columns) (string, pawl.Record) {
		s := scheduleTable.readWhole(cols)
		return scheduleID(s.ID), s.Record
	})
}

func (db *DB) trailOfToken(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, store.TokenEntity(rowkey.Token(key)), selectToken, func(cols *columns) (string, pawl.Record) {
		t := tokenTable.readWhole(cols)
		return tokenID(t.ID), t.Record
	})
}

func (db *DB) trailOfPause(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, store.PauseEntity(rowkey.QueuePause(key)), selectPause, func(cols *columns) (string, pawl.Record) {
		p := pauseTable.readWhole(cols)
		return pauseID(p.ID), p.Record
	})
}

func (db *DB) trailOfWebhook(c *conn, key int64) ([]store.TrailOf, error) {
	return db.trailOf(c, store.WebhookEntity(rowkey.Webhook(key)), selectWebhook, func(cols *columns) (string, pawl.Record) {
		w := webhookTable.readWhole(cols)
		return webhookID(w.ID), w.Record
	})
}

// trailOf reads the trail of an entity without parts, and its record with s.
func (db *DB) trailOf(c *conn, k store.EntityKey, s statement, read func(*columns) (string, pawl.Record)) ([]store.TrailOf, error) {
	t := store.TrailOf{EntityKey: k}
	err := c.each(s, func(b *row) { b.int(int64(k.Job)) }, func(cols *columns) error {
		if id, record := read(cols); decoded(db.log, cols, k.Kind, k.Job) {
			t.ID, t.Record = id, record
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	page := &store.TrailPage{}
	err = db.trailIn(c, k, page)
	t.Entries = page.Entries(t.ID)
	return []store.TrailOf{t}, err
}
