package sqlite

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

func (l *longTrail) Records(ctx context.Context) (trails []store.TrailOf, err error) {
	err = l.db.read(ctx, "read trails", func(c *conn) (err error) {
		l.id, trails, err = l.db.recordsOfJob(c, l.job)
		return err
	})
	return trails, err
}

func (l *longTrail) Without(ord pawl.Ord) store.TrailOf {
	return trailNamed(pawl.StepKey{Job: l.job, Ord: ord}, l.id)
}

func (l *longTrail) Rows(ctx context.Context, after store.TrailRow, f func(pawl.Ord, audit.Entry)) (last store.TrailRow, more bool, err error) {
	err = l.db.read(ctx, "read trails", func(c *conn) (err error) {
		last, more, err = l.db.trailRows(c, l.job, after, f)
		return err
	})
	return last, more, err
}

func (l *longTrail) Seqs(ctx context.Context, ords []pawl.Ord) (map[pawl.Ord]int64, error) {
	now := make(map[pawl.Ord]int64, len(ords))
	err := l.db.read(ctx, "read trails", func(c *conn) error {
		for _, ord := range ords {
			s, bind := selectStepSeq, func(b *row) { b.ints(int64(l.job), int64(ord)) }
			if ord == 0 {
				s, bind = selectJobSeq, func(b *row) { b.int(int64(l.job)) }
			}
			err := c.each(s, bind, func(cols *columns) error {
				now[ord] = cols.int()
				return cols.finish()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return now, err
}
