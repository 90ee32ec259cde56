package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// The maximum number of records whose trails are in memory at once. A schedule's trail grows
// with every firing.
const (
	trailPage    = 100
	schedulePage = 1
)

// Trail reads the audit entries of one entity, by sequence.
func (db *DB) Trail(ctx context.Context, k store.EntityKey, after int64, limit int) ([]audit.Entry, error) {
	id, err := db.publicID(ctx, k)
	if err != nil {
		return nil, err
	}
	page := &store.TrailPage{After: after, Limit: limit}
	sql, args := trailRows(k, after, limit)
	err = db.query(ctx, "read a trail", sql, func(c *cursor) {
		switch {
		case k.Ord == 0 && page.Full():
		case longLived(k.Kind):
			if e := c.entry(); c.err == nil {
				page.Add(e)
			}
		default:
			c.entries(func(ord pawl.Ord, e audit.Entry) {
				if ord == k.Ord {
					page.Add(e)
				}
			})
		}
	}, args...)
	return page.Entries(id), err
}

// trailRows returns the query for the rows that may have entries of a page of a trail,
// including the row of the entry before it.
func trailRows(k store.EntityKey, after int64, limit int) (sql string, args []any) {
	rows := limit
	if limit > 0 {
		rows++
	}
	switch {
	case longLived(k.Kind):
		sql = fmt.Sprintf("select %s from %s_audit where %[2]s = $1 and seq >= $2 order by seq", names("", entryColumns[2:]), k.Kind)
	case k.Ord == 0:
		sql = "select " + names("", trailColumns[1:]) + ` from audit where job = $1 and ord = 0
  and seq >= coalesce((select max(seq) from audit where job = $1 and ord = 0 and seq <= $2), 0) order by seq`
	default:
		return "select " + names("", trailColumns[1:]) + " from audit where job = $1 and ord <= $2", []any{int64(k.Job), int64(k.Ord)}
	}
	return sql + limited(rows), []any{int64(k.Job), after}
}

// History reads a page of the trail of a job and of its steps in the order of time.
func (db *DB) History(ctx context.Context, job rowkey.Job, after store.HistoryPlace, limit int) ([]store.Entry, store.HistoryPlace, error) {
	page := &store.HistoryPage{Job: job, Last: after}
	sql := "select " + names("", trailColumns[1:]) + " from audit where job = $1 and (at, ord, seq) > ($2, $3, $4) order by at, ord, seq" + limited(limit)
	err := db.query(ctx, "read a history", sql, func(c *cursor) {
		if !page.Full() {
			c.entries(page.Row())
		}
	}, int64(job), after.At, int64(after.Ord), after.Seq)
	return page.Entries(), page.Last, err
}

// longLived reports whether entities of the kind have a table of their own for their trails,
// named after the kind with _audit.
func longLived(kind string) bool {
	return kind == kindWorker || kind == kindSchedule || kind == kindToken || kind == kindPause || kind == kindWebhook
}

// publicID returns the id of an entity, or none if its record is gone.
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
	}, int64(k.Job))
	return id, err
}

func public(k store.EntityKey, u pawl.ID) string {
	switch {
	case k.Kind == kindWorker:
		return u.Public(pawl.WorkerPrefix)
	case k.Kind == kindSchedule:
		return u.Public(pawl.SchedulePrefix)
	case k.Kind == kindToken:
		return u.Public(pawl.TokenPrefix)
	case k.Kind == kindPause:
		return u.Public(pawl.QueuePausePrefix)
	case k.Kind == kindWebhook:
		return u.Public(pawl.WebhookPrefix)
	case k.Ord != 0:
		return u.Step(k.Ord).Public(pawl.StepPrefix)
	}
	return u.Public(pawl.JobPrefix)
}

// A trail grows entry by entry while it is read.
type trail store.TrailOf

// read reads an entry of a long-lived entity.
func (t *trail) read(c *cursor) {
	if e := c.entry(); c.err == nil {
		t.Entries = append(t.Entries, e)
	}
}

// Trails passes every trail to f; see store.Views. It reads them in pages, each as of one
// moment and before f gets any of it, so that f may take any time.
func (db *DB) Trails(ctx context.Context, job rowkey.Job, f func(store.TrailOf) error) error {
	if job != 0 {
		return db.jobTrails(ctx, job, job, f)
	}
	if err := db.jobTrails(ctx, math.MinInt64, math.MaxInt64, f); err != nil {
		return err
	}
	if err := db.longLivedTrails(ctx, kindWorker, trailPage, f); err != nil {
		return err
	}
	if err := db.longLivedTrails(ctx, kindSchedule, schedulePage, f); err != nil {
		return err
	}
	if err := db.longLivedTrails(ctx, kindToken, trailPage, f); err != nil {
		return err
	}
	if err := db.longLivedTrails(ctx, kindPause, trailPage, f); err != nil {
		return err
	}
	return db.longLivedTrails(ctx, kindWebhook, trailPage, f)
}

// jobTrails passes on the trails of the jobs with keys in a range.
func (db *DB) jobTrails(ctx context.Context, from, to rowkey.Job, f func(store.TrailOf) error) error {
	for {
		var last rowkey.Job
		long := false
		w, err := db.walkAsOf(ctx, func(w *walk) (err error) {
			last, long, err = w.jobs(ctx, from, to)
			return err
		})
		switch {
		case err != nil:
			return err
		case long:
			err = store.Walk(ctx, &longTrail{db: db, job: from}, f)
			last = from
		default:
			err = w.handOut(f)
		}
		if err != nil || last == to {
			return err
		}
		from = last + 1
	}
}

// longLivedTrails passes on the trails of all entities of a kind that lives long.
func (db *DB) longLivedTrails(ctx context.Context, kind string, page int, f func(store.TrailOf) error) error {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	for {
		var last int64
		w, err := db.walkAsOf(ctx, func(w *walk) (err error) {
			if last, err = w.upTo(ctx, kind, from, to, page); err == nil {
				err = w.longLived(ctx, kind, from, last)
			}
			return err
		})
		if err == nil {
			err = w.handOut(f)
		}
		if err != nil || last == to {
			return err
		}
		from = last + 1
	}
}

// walkAsOf reads trails in a transaction, as of one moment.
func (db *DB) walkAsOf(ctx context.Context, read func(*walk) error) (*walk, error) {
	w := &walk{db: db, trails: map[store.EntityKey]*trail{}}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db.lookups, opts, func(tx pgx.Tx) error {
		// Before the snapshot is taken: otherwise a partition with rows in it could be
		// dropped.
		if _, err := tx.Exec(ctx, "lock table only audit in access share mode"); err != nil {
			return queryError("read trails", err)
		}
		w.tx = tx
		if err := w.pending(ctx); err != nil {
			return err
		}
		return read(w)
	})
	return w, err
}

// A walk reads trails within one snapshot.
type walk struct {
	db     *DB
	tx     pgx.Tx
	trails map[store.EntityKey]*trail

	from, to []int64 // ranges of keys of removed jobs whose trails are still to be dropped
}

func (w *walk) pending(ctx context.Context) error {
	return w.query(ctx, "select day, pending from anchor where pending <> 0", func(c *cursor) {
		w.from, w.to = append(w.from, pawl.KeyAt(pawl.Time(c.num()))), append(w.to, c.num())
	})
}

// kept adds a condition that excludes the rows of removed jobs from a table.
func (w *walk) kept(table, which string, args []any) (string, []any) {
	if len(w.from) == 0 {
		return which, args
	}
	n := len(args)
	return fmt.Sprintf(`%[1]s and (not exists (select 1 from unnest($%[3]d::bigint[], $%[4]d::bigint[]) u(a, b) where %[2]s.job between a and b)
  or exists (select 1 from job where id = %[2]s.job))`, which, table, n+1, n+2), append(args, w.from, w.to)
}

// upTo returns the key at which a table has reached a number of records, counted from a key,
// or to.
func (w *walk) upTo(ctx context.Context, table string, from, to int64, page int) (last int64, err error) {
	err = w.tx.QueryRow(ctx, "select coalesce((select id from "+table+" where id between $1 and $2 order by id offset $3 limit 1), $2)",
		from, to, page-1).Scan(&last)
	return last, queryError("read trails", err)
}

// jobs reads the trails of jobs, from a key on, and returns the last key that it has read. If
// the first job alone is longer than a page, it reports that instead.
func (w *walk) jobs(ctx context.Context, from, to rowkey.Job) (last rowkey.Job, long bool, err error) {
	end, err := w.upTo(ctx, kindJob, int64(from), int64(to), trailPage)
	if err != nil {
		return 0, false, err
	}
	last = rowkey.Job(end)
	var job rowkey.Job
	more, err := w.rows(ctx, "job between $1 and $2", []any{int64(from), end}, func(key rowkey.Job, _ store.TrailRow, ord pawl.Ord, e audit.Entry) {
		job = key
		t := w.of(jobKey(job, ord))
		t.Entries = append(t.Entries, e)
	})
	if err != nil {
		return 0, false, err
	}
	if more { // the last job may be incomplete
		if job == from {
			return 0, true, nil
		}
		last = job - 1
		maps.DeleteFunc(w.trails, func(k store.EntityKey, _ *trail) bool { return k.Job == job })
	}
	return last, false, w.jobRecords(ctx, from, last)
}

// rows passes the entries of a page of rows to f, each with its job and the place of its row.
// It reports whether there may be more rows.
func (w *walk) rows(ctx context.Context, which string, args []any, f func(job rowkey.Job, at store.TrailRow, ord pawl.Ord, e audit.Entry)) (more bool, err error) {
	which, args = w.kept("audit", which, args)
	sql := fmt.Sprintf("select %s from audit where %s order by job, ord, seq limit %d", names("", trailColumns), which, store.TrailPageRows)
	n, bytes := 0, 0
	err = w.query(ctx, sql, func(c *cursor) {
		if n++; bytes > store.TrailPageBytes {
			return
		}
		job, at, first := rowkey.Job(c.num()), store.TrailRow{}, true
		c.entries(func(ord pawl.Ord, e audit.Entry) {
			bytes += store.TrailBytes(&e)
			if first {
				at, first = store.TrailRow{Ord: ord, Seq: e.Sequence}, false
			}
			f(job, at, ord, e)
		})
	}, args...)
	return n == store.TrailPageRows || bytes > store.TrailPageBytes, err
}

// jobRecords reads the records of jobs and of their steps.
func (w *walk) jobRecords(ctx context.Context, from, to rowkey.Job) error {
	ids := map[rowkey.Job]pawl.ID{}
	err := w.query(ctx, "select id, uuid, tree, "+names("", recordColumns)+" from job where id between $1 and $2", func(c *cursor) {
		k := jobKey(rowkey.Job(c.num()), 0)
		var id pawl.ID
		c.fixed(id[:])
		ids[k.Job] = id
		w.counted(k, c)
		w.record(k, c)
	}, int64(from), int64(to))
	if err != nil {
		return err
	}
	which, args := w.kept("step", "job between $1 and $2", []any{int64(from), int64(to)})
	err = w.query(ctx, "select job, ord, tree, folded, "+names("", recordColumns)+" from step where "+which, func(c *cursor) {
		k := jobKey(rowkey.Job(c.num()), pawl.Ord(c.num()))
		w.counted(k, c)
		w.of(k).Folded = c.num()
		w.record(k, c)
	}, args...)
	for k, t := range w.trails {
		t.name(k, ids[k.Job])
	}
	return err
}

// longLived reads the trails of entities of a kind that lives long, with keys in a range.
func (w *walk) longLived(ctx context.Context, kind string, from, to int64) error {
	err := w.query(ctx, fmt.Sprintf("select id, uuid, %s from %s where id between $1 and $2", names("", recordColumns), kind), func(c *cursor) {
		k := store.EntityOf(kind, c.num())
		var id pawl.ID
		c.fixed(id[:])
		w.of(k).name(k, id)
		w.record(k, c)
	}, from, to)
	if err != nil {
		return err
	}
	sql := "select %[2]s, %[1]s from %[2]s_audit where %[2]s between $1 and $2 order by %[2]s, seq"
	return w.query(ctx, fmt.Sprintf(sql, names("", entryColumns[2:]), kind), func(c *cursor) {
		w.of(store.EntityOf(kind, c.num())).read(c)
	}, from, to)
}

func jobKey(job rowkey.Job, ord pawl.Ord) store.EntityKey {
	return store.StepEntity(pawl.StepKey{Job: job, Ord: ord})
}

// of returns the trail of an entity.
func (w *walk) of(k store.EntityKey) *trail {
	t := w.trails[k]
	if t == nil {
		t = &trail{EntityKey: k}
		w.trails[k] = t
	}
	return t
}

// name sets the entity of the trail. The id is empty if the record is gone.
func (t *trail) name(k store.EntityKey, id pawl.ID) {
	t.EntityKey = k
	if id != (pawl.ID{}) {
		t.ID = public(k, id)
	}
}

// counted reads the tree of a job or a step.
func (w *walk) counted(k store.EntityKey, c *cursor) {
	tree, err := store.DecodeTree(c.next())
	if err != nil {
		c.fail("%w", err)
	}
	w.of(k).Tree = store.TreeOf(tree)
}

func (w *walk) record(k store.EntityKey, c *cursor) {
	t := w.of(k)
	readColumns(c, store.RecordColumns, &t.Record)
}

// list returns what was read, by key.
func (w *walk) list() []store.TrailOf {
	list := make([]store.TrailOf, 0, len(w.trails))
	for _, t := range w.trails {
		list = append(list, store.TrailOf(*t))
	}
	slices.SortFunc(list, func(a, b store.TrailOf) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Ord, b.Ord)) })
	return list
}

func (w *walk) handOut(f func(store.TrailOf) error) error {
	for _, t := range w.list() {
		t.Complete()
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) query(ctx context.Context, sql string, row func(*cursor), args ...any) error {
	return w.db.queryOn(ctx, w.tx, "read trails", sql, row, args...)
}
