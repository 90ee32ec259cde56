package sqlite

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// JobKeys finds the keys of jobs; see store.Views.
func (db *DB) JobKeys(ctx context.Context, f store.JobFilter, rows int) (keys []rowkey.Job, next rowkey.Job, err error) {
	text, bind := jobKeysQuery(f, rows)
	var has func(*columns) bool
	if len(f.Metadata) > 0 {
		has = func(c *columns) bool { return store.HasMetadata(c.body(), f.Metadata) }
	}
	err = db.read(ctx, "look for jobs", func(c *conn) error {
		keys, next, err = scan(c, text, bind, (*columns).jobKey, has, f.Limit, rows)
		return err
	})
	return keys, next, err
}

// jobKeysQuery returns the query for the jobs that are looked at, each with whether the
// filter selects it, which is certain once its metadata was looked at.
func jobKeysQuery(f store.JobFilter, rows int) (text string, bind func(*row)) {
	var record, key where
	record.records(f)
	record.metadata(f)
	key.keys(f)
	columns := record.String()
	if len(f.Metadata) > 0 {
		columns += ", metadata"
	}
	if openOnly(f) && f.Parent == 0 && f.Continues == 0 {
		key.add(jobsOpen)
		key.add("(" + anyOf(lifecycle.Job, f.States) + ")")
		text = "SELECT job.id, " + columns + " FROM (SELECT id FROM job INDEXED BY job_open WHERE " + key.String() +
			" ORDER BY id DESC LIMIT ?) k CROSS JOIN job ON job.id = k.id"
	} else {
		text = "SELECT id, " + columns + " FROM job WHERE " + key.String() + " ORDER BY id DESC LIMIT ?"
	}
	return text, binding(append(append(record.values, key.values...), int64(rows)))
}

// StepOrds finds the places of steps; see store.Views.
func (db *DB) StepOrds(ctx context.Context, f store.StepFilter, rows int) (ords []pawl.Ord, next pawl.Ord, err error) {
	text, bind := stepOrdsQuery(f, rows)
	err = db.read(ctx, "look for steps", func(c *conn) error {
		ords, next, err = scan(c, text, bind, (*columns).stepOrd, nil, f.Limit, rows)
		return err
	})
	return ords, next, err
}

// stepOrdsQuery returns the query for the steps that are looked at, each with whether the
// filter selects it.
func stepOrdsQuery(f store.StepFilter, rows int) (text string, bind func(*row)) {
	selected := "TRUE"
	if len(f.States) > 0 {
		selected = anyOf(lifecycle.Step, f.States)
	}
	text = "SELECT ord, " + selected + " FROM step WHERE job = ?1 AND ord > ?2 AND ord <= ?3 AND " + jobThere + " ORDER BY ord LIMIT ?4"
	return text, binding([]any{int64(f.Job), int64(f.After), int64(cmp.Or(f.Through, math.MaxInt64)), int64(rows)})
}

// Waits finds the keys of steps that wait; see store.Views.
func (db *DB) Waits(ctx context.Context, f store.WaitFilter, rows int) (keys []pawl.StepKey, next pawl.StepKey, err error) {
	text, bind := waitsQuery(f, rows)
	err = db.read(ctx, "look for steps that wait", func(c *conn) error {
		keys, next, err = scan(c, text, bind, (*columns).stepKey, nil, f.Limit, rows)
		return err
	})
	return keys, next, err
}

// waitsQuery returns the query for the steps that are looked at, each with whether the filter
// selects it.
func waitsQuery(f store.WaitFilter, rows int) (text string, bind func(*row)) {
	selected, values := "s.total = 0 AND s.input LIKE ?", []any{f.Begins()}
	if f.Workspace != "" {
		selected += " AND (SELECT workspace FROM job WHERE id = k.job) = ?"
		values = append(values, f.Workspace)
	}
	text = "SELECT k.job, k.ord, " + selected + " FROM (SELECT job, ord FROM step INDEXED BY step_flight WHERE " + inFlight +
		" AND state = 'in_progress' AND place = 0 AND (job, ord) > (?, ?) ORDER BY job, ord LIMIT ?) k" +
		" CROSS JOIN step s ON s.job = k.job AND s.ord = k.ord ORDER BY k.job, k.ord"
	return text, binding(append(values, int64(f.After.Job), int64(f.After.Ord), int64(rows)))
}

// StepsAt reads steps with their bodies; see store.Views.
func (db *DB) StepsAt(ctx context.Context, keys []pawl.StepKey) (steps []*pawl.Step, err error) {
	err = db.read(ctx, "read steps", func(c *conn) error {
		steps = nil
		page := page[pawl.Step]{of: stepTable.bodies, at: len(stepTable.read), limit: len(keys)}
		for _, k := range keys {
			err := c.each(selectStepBodies, func(b *row) { b.ints(int64(k.Job), int64(k.Ord)) }, func(cols *columns) error {
				if s := stepTable.readWhole(cols); decoded(db.log, cols, lifecycle.Step.Name, s.StepKey) {
					steps = append(steps, s)
				}
				return page.add(cols)
			})
			if err != nil {
				return page.end(err)
			}
		}
		return nil
	})
	return steps, err
}

func (c *columns) jobKey() rowkey.Job { return rowkey.Job(c.int()) }

func (c *columns) stepOrd() pawl.Ord { return pawl.Ord(c.int()) }

func (c *columns) stepKey() pawl.StepKey { return pawl.StepKey{Job: c.jobKey(), Ord: c.stepOrd()} }

// scan reads keys, each with whether it is selected, until a limit of these is reached. also,
// if not nil, looks at the columns behind that, and may reject the key. next is the last key if
// scan stopped at the limit, or has seen as many rows as it may.
func scan[K any](c *conn, text string, bind func(*row), key func(*columns) K, also func(*columns) bool, limit, rows int) (keys []K, next K, err error) {
	seen := 0
	err = c.transient(text, bind, func(cols *columns) error {
		k, selected := key(cols), cols.bool()
		if seen++; seen == rows {
			next = k
		}
		if !selected || also != nil && !also(cols) {
			return nil
		}
		if keys = append(keys, k); len(keys) == limit {
			next = k
			return errPageFull
		}
		return nil
	})
	return keys, next, err
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
