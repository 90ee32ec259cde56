package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/store"
)

// trailPage is how many jobs' trails are in memory at once.
const trailPage = 100

// Trail reads the audit entries of one entity, by sequence.
func (db *DB) Trail(ctx context.Context, k store.EntityKey) ([]audit.Entry, error) {
	id, err := db.publicID(ctx, k)
	if err != nil {
		return nil, err
	}
	t := trail{ID: id}
	if longLived(k.Kind) {
		sql := fmt.Sprintf("select %s from %s_audit where %[2]s = $1 order by seq", names("", entryColumns[2:]), k.Kind)
		err = db.query(ctx, "read a trail", sql, t.read, k.Job)
	} else {
		sql := "select " + names("", trailColumns[1:]) + " from audit where job = $1 and ord <= $2"
		err = db.query(ctx, "read a trail", sql, func(c *cursor) {
			c.entries(func(ord pawl.Ord, e audit.Entry) {
				if ord == k.Ord {
					t.Entries = append(t.Entries, e)
				}
			})
		}, k.Job, int64(k.Ord))
	}
	store.Chain(id, t.Entries)
	return t.Entries, err
}

// longLived reports whether entities of the kind have a table of their own for
// their trails: that of the kind's name with _audit.
func longLived(kind string) bool { return kind == kindWorker || kind == kindSchedule }

// publicID answers the id of an entity, or none if its record is gone.
func (db *DB) publicID(ctx context.Context, k store.EntityKey) (string, error) {
	sql := "select uuid from job where id = $1"
	if longLived(k.Kind) {
		sql = "select uuid from " + k.Kind + " where id = $1"
	}
	var id string
	err := db.query(ctx, "read an id", sql, func(c *cursor) {
		var u pawl.ID
		c.fixed(u[:])
		id = public(k, u)
	}, k.Job)
	return id, err
}

func public(k store.EntityKey, u pawl.ID) string {
	switch {
	case k.Kind == kindWorker:
		return u.Public(pawl.WorkerPrefix)
	case k.Kind == kindSchedule:
		return u.Public(pawl.SchedulePrefix)
	case k.Ord != 0:
		return u.Step(k.Ord).Public(pawl.StepPrefix)
	}
	return u.Public(pawl.JobPrefix)
}

// A trail grows entry by entry.
type trail store.TrailOf

// read reads an entry of a long-lived entity.
func (t *trail) read(c *cursor) {
	if e := c.entry(); c.err == nil {
		t.Entries = append(t.Entries, e)
	}
}

// Trails hands every trail to f, as of one moment; see store.Views. It keeps a
// transaction open until it is done.
func (db *DB) Trails(ctx context.Context, job int64, f func(store.TrailOf) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, db.pool, opts, func(tx pgx.Tx) error {
		// Before the snapshot is taken: no partition goes that has rows in it.
		if _, err := tx.Exec(ctx, "lock table only audit in access share mode"); err != nil {
			return queryError("read trails", err)
		}
		w := &walk{db: db, tx: tx}
		if err := w.pending(ctx); err != nil {
			return err
		}
		if job != 0 {
			return w.jobs(ctx, job, job, f)
		}
		if err := w.pages(ctx, kindJob, func(from, to int64) error { return w.jobs(ctx, from, to, f) }); err != nil {
			return err
		}
		for _, kind := range []string{kindWorker, kindSchedule} {
			if err := w.pages(ctx, kind, func(from, to int64) error { return w.longLived(ctx, kind, from, to, f) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// A walk goes through the trails within one snapshot.
type walk struct {
	db     *DB
	tx     pgx.Tx
	trails map[store.EntityKey]*trail

	from, to []int64 // ranges of keys in which jobs were removed whose trails are still to be dropped
}

func (w *walk) pending(ctx context.Context) error {
	return w.query(ctx, "select day, pending from anchor where pending <> 0", func(c *cursor) {
		w.from, w.to = append(w.from, pawl.KeyAt(pawl.Time(c.num()))), append(w.to, c.num())
	})
}

// kept leaves entries out whose job was removed.
const kept = ` and (not exists (select 1 from unnest($3::bigint[], $4::bigint[]) u(a, b) where audit.job between a and b)
  or exists (select 1 from job where id = audit.job))`

// pages calls f with ranges of keys, in order, that hold all there are, and a
// bounded number of records each.
func (w *walk) pages(ctx context.Context, table string, f func(from, to int64) error) error {
	from := int64(math.MinInt64)
	for {
		var to int64
		err := w.tx.QueryRow(ctx, "select coalesce((select id from "+table+" where id >= $1 order by id offset $2 limit 1), $3)",
			from, trailPage-1, int64(math.MaxInt64)).Scan(&to)
		if err != nil {
			return queryError("read trails", err)
		}
		if err := f(from, to); err != nil || to == math.MaxInt64 {
			return err
		}
		from = to + 1
	}
}

// jobs hands out the trails of the jobs with keys from one to the other.
func (w *walk) jobs(ctx context.Context, from, to int64, f func(store.TrailOf) error) error {
	w.trails = map[store.EntityKey]*trail{}
	ids := map[int64]pawl.ID{}
	err := w.query(ctx, "select id, uuid, created_at, "+names("", recordColumns)+" from job where id between $1 and $2", func(c *cursor) {
		k := jobKey(c.num(), 0)
		var id pawl.ID
		c.fixed(id[:])
		ids[k.Job] = id
		w.record(k, id, c)
	}, from, to)
	if err != nil {
		return err
	}
	err = w.query(ctx, "select job, ord, created_at, "+names("", recordColumns)+" from step where job between $1 and $2", func(c *cursor) {
		k := jobKey(c.num(), pawl.Ord(c.num()))
		w.record(k, ids[k.Job], c)
	}, from, to)
	if err != nil {
		return err
	}
	which, args := "job between $1 and $2", []any{from, to}
	if len(w.from) > 0 {
		which, args = which+kept, append(args, w.from, w.to)
	}
	err = w.query(ctx, "select "+names("", trailColumns)+" from audit where "+which, func(c *cursor) {
		job := c.num()
		c.entries(func(ord pawl.Ord, e audit.Entry) {
			t := w.of(jobKey(job, ord), ids[job])
			t.Entries = append(t.Entries, e)
		})
	}, args...)
	if err != nil {
		return err
	}
	return w.handOut(f)
}

// longLived hands out the trails of the workers or schedules with keys from one
// to the other.
func (w *walk) longLived(ctx context.Context, kind string, from, to int64, f func(store.TrailOf) error) error {
	w.trails = map[store.EntityKey]*trail{}
	err := w.query(ctx, fmt.Sprintf("select id, uuid, created_at, %s from %s where id between $1 and $2", names("", recordColumns), kind), func(c *cursor) {
		k := longKey(kind, c.num())
		var id pawl.ID
		c.fixed(id[:])
		w.record(k, id, c)
	}, from, to)
	if err != nil {
		return err
	}
	sql := "select %[2]s, %[1]s from %[2]s_audit where %[2]s between $1 and $2 order by %[2]s, seq"
	err = w.query(ctx, fmt.Sprintf(sql, names("", entryColumns[2:]), kind), func(c *cursor) {
		w.of(longKey(kind, c.num()), pawl.ID{}).read(c)
	}, from, to)
	if err != nil {
		return err
	}
	return w.handOut(f)
}

func jobKey(job int64, ord pawl.Ord) store.EntityKey {
	k := store.EntityKey{Kind: kindJob, StepKey: pawl.StepKey{Job: job, Ord: ord}}
	if ord != 0 {
		k.Kind = kindStep
	}
	return k
}

func longKey(kind string, key int64) store.EntityKey {
	return store.EntityKey{Kind: kind, StepKey: pawl.StepKey{Job: key}}
}

// of answers the trail of an entity. Its id is empty if the record is gone.
func (w *walk) of(k store.EntityKey, id pawl.ID) *trail {
	t := w.trails[k]
	if t == nil {
		t = &trail{EntityKey: k}
		if id != (pawl.ID{}) {
			t.ID = public(k, id)
		}
		w.trails[k] = t
	}
	return t
}

func (w *walk) record(k store.EntityKey, id pawl.ID, c *cursor) {
	t := w.of(k, id)
	t.Record.CreatedAt = c.num()
	c.record(&t.Record)
}

func (w *walk) handOut(f func(store.TrailOf) error) error {
	list := make([]*trail, 0, len(w.trails))
	for _, t := range w.trails {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *trail) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Ord, b.Ord)) })
	for _, t := range list {
		store.Chain(t.ID, t.Entries)
		if err := f(store.TrailOf(*t)); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) query(ctx context.Context, sql string, row func(*cursor), args ...any) error {
	return w.db.queryOn(ctx, w.tx, "read trails", sql, row, args...)
}
