package sqlite

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// JobKeys finds the keys of jobs; see store.Views.
func (db *DB) JobKeys(ctx context.Context, f store.JobFilter, rows int) (keys []rowkey.Job, next rowkey.Job, err error) {
	text, bind := jobKeysQuery(f, rows)
	err = db.read(ctx, "look for jobs", func(c *conn) error {
		keys, next = nil, 0
		seen := 0
		return c.transient(text, bind, func(cols *columns) error {
			key, wanted := rowkey.Job(cols.int()), cols.bool()
			if seen++; seen == rows {
				next = key
			}
			if !wanted {
				return nil
			}
			if keys = append(keys, key); len(keys) == f.Limit {
				next = key
				return errPageFull
			}
			return nil
		})
	})
	return keys, next, err
}

// jobKeysQuery returns the query for the jobs that are looked at, each with whether the
// filter selects it.
func jobKeysQuery(f store.JobFilter, rows int) (text string, bind func(*row)) {
	var record, key where
	record.records(f)
	key.keys(f)
	if openOnly(f) && f.Parent == 0 && f.Continues == 0 {
		key.add(jobsOpen)
		key.add("(" + anyOf(f.States) + ")")
		text = "SELECT job.id, " + record.String() + " FROM (SELECT id FROM job INDEXED BY job_open WHERE " + key.String() +
			" ORDER BY id DESC LIMIT ?) k CROSS JOIN job ON job.id = k.id"
	} else {
		text = "SELECT id, " + record.String() + " FROM job WHERE " + key.String() + " ORDER BY id DESC LIMIT ?"
	}
	return text, binding(append(append(record.values, key.values...), int64(rows)))
}

// transient passes the rows of a query that is prepared for this once to f, until f returns
// an error; errPageFull is none.
func (c *conn) transient(text string, bind func(*row), f func(*columns) error) error {
	s, _, err := c.PrepareTransient(text)
	if err != nil {
		return err
	}
	defer s.Finalize()
	p := newPrepared(s)
	p.bind(bind)
	if err := p.rows(f); err != nil && !errors.Is(err, errPageFull) {
		return err
	}
	return nil
}
