package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A longTrail reads the trail of a job that is longer than a page.
type longTrail struct {
	db  *DB
	job rowkey.Job
	id  pawl.ID
}

var _ store.LongTrail = (*longTrail)(nil)

func (l *longTrail) Records(ctx context.Context) ([]store.TrailOf, error) {
	w, err := l.db.walkAsOf(ctx, func(w *walk) error {
		w.of(jobKey(l.job, 0))
		if err := w.query(ctx, "select uuid from job where id = $1", func(c *cursor) { c.fixed(l.id[:]) }, int64(l.job)); err != nil {
			return err
		}
		return w.jobRecords(ctx, l.job, l.job)
	})
	return w.list(), err
}

func (l *longTrail) Without(ord pawl.Ord) store.TrailOf {
	t := &trail{}
	t.name(jobKey(l.job, ord), l.id)
	return store.TrailOf(*t)
}

func (l *longTrail) Rows(ctx context.Context, after store.TrailRow, f func(pawl.Ord, audit.Entry)) (last store.TrailRow, more bool, err error) {
	_, err = l.db.walkAsOf(ctx, func(w *walk) error {
		place := []any{int64(l.job), int64(after.Ord), after.Seq}
		more, err = w.rows(ctx, "job = $1 and (ord, seq) > ($2, $3)", place, func(_ rowkey.Job, at store.TrailRow, ord pawl.Ord, e audit.Entry) {
			last = at
			f(ord, e)
		})
		return err
	})
	return last, more, err
}

func (l *longTrail) Seqs(ctx context.Context, ords []pawl.Ord) (map[pawl.Ord]int64, error) {
	now := make(map[pawl.Ord]int64, len(ords))
	err := l.db.query(ctx, "read trails", "select 0::bigint, seq from job where id = $1 union all select ord, seq from step where job = $1 and ord = any($2)",
		func(c *cursor) { now[pawl.Ord(c.num())] = c.num() }, int64(l.job), bigints(ords))
	return now, err
}
