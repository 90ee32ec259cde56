package sqlite

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// sweepLimit is how many expired idempotency keys a transaction that adds keys
// removes at most.
const sweepLimit = 64

// write writes the changes. Rows are written in the order of their keys, so that neighbours in
// the file are written together.
func write(c *conn, f *store.Facts, ch *store.Changes) error {
	for _, part := range []func(*conn, *store.Facts, *store.Changes) error{
		writeDefinitions, writeVersions, writeQuotas, writeSchedules, writeTokens, writePauses, writeWebhooks, writeWorkers, writeJobs, writeSteps, writeSignals,
		writeEntries, writeRefusals, writeTurns, writeAnswers, writeReservations,
	} {
		if err := part(c, f, ch); err != nil {
			return err
		}
	}
	return nil
}

func writeDefinitions(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, d := range ch.Definitions {
		err := c.run(insertDefinition, func(r *row) {
			r.int(int64(d.Key))
			r.blob(d.Hash[:])
			r.text(d.Name)
			r.blob(d.Source)
			r.int(d.CreatedAt)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeWorkers(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, w := range ch.NewWorkers {
		if err := c.run(insertWorker, func(r *row) { writeColumns(r, workerTable.insert, w) }); err != nil {
			return inserted(err, lifecycle.Worker.Name, w.Key())
		}
	}
	for _, u := range ch.Workers {
		err := update(c, updateWorker, workerTable, workerTable.change, u)
		if err := c.updated(err, lifecycle.Worker.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

func writeJobs(c *conn, _ *store.Facts, ch *store.Changes) error {
	jobs := sorted(ch.NewJobs, func(a, b *pawl.Job) int { return cmp.Compare(a.Key(), b.Key()) })
	n, err := insertAll(c, jobBulks, jobs, func(r *row, j *pawl.Job) { writeColumns(r, jobTable.insert, j) })
	if err != nil {
		return inserted(err, lifecycle.Job.Name, jobs[n].Key())
	}
	for _, u := range sorted(ch.Jobs, func(a, b store.Update[*pawl.Job]) int { return cmp.Compare(a.Record.Key(), b.Record.Key()) }) {
		s, columns := c.cache.jobUpdate(u.Record)
		err := update(c, s, jobTable, columns, u)
		if err := c.updated(err, lifecycle.Job.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

func writeSteps(c *conn, _ *store.Facts, ch *store.Changes) error {
	steps := sorted(ch.NewSteps, func(a, b *pawl.Step) int { return compareKeys(a.StepKey, b.StepKey) })
	n, err := insertAll(c, stepBulks, steps, func(r *row, s *pawl.Step) { writeColumns(r, stepTable.insert, s) })
	if err != nil {
		return inserted(err, lifecycle.Step.Name, steps[n].StepKey)
	}
	for _, u := range sorted(ch.Steps, func(a, b store.Update[*pawl.Step]) int { return compareKeys(a.Record.StepKey, b.Record.StepKey) }) {
		s, columns := c.cache.stepUpdate(u.Record)
		err := update(c, s, stepTable, columns, u)
		if err := c.updated(err, lifecycle.Step.Name, u.Record.StepKey, u.Was); err != nil {
			return err
		}
	}
	return nil
}

func writeEntries(c *conn, f *store.Facts, ch *store.Changes) error {
	entries := make([]*store.Entry, 0, len(ch.Entries))
	for i := range ch.Entries {
		e := &ch.Entries[i]
		book := bookOf(e.Kind)
		if book == mainBook {
			entries = append(entries, e)
			continue
		}
		err := c.run(book.insert, func(r *row) {
			r.int(int64(e.Job))
			r.entry(&e.Entry)
		})
		if err != nil {
			return inserted(err, entryOf, e.EntityKey)
		}
	}
	rows := store.Pack(entries)
	if n, err := insertAll(c, auditBulks, rows, bindEntries); err != nil {
		return inserted(err, entryOf, rows[n].EntityKey)
	}
	return feed(c, f.Now, store.FeedRowsOf(rows, ch.Entries))
}

const entryOf = "audit entry of"

func bindEntries(r *row, p store.Packed) {
	r.ints(int64(p.Job), int64(p.Ord))
	r.bare(&p.Entry.Entry)
	r.body(p.More)
	r.seals(&p.Entry.Entry)
}

// insertAll inserts the records, many at once. It returns how many were written before an
// error; the cause is the record after them, or one of the few that follow it.
func insertAll[E any](c *conn, bulks []bulk, records []E, bind func(*row, E)) (written int, err error) {
	for _, b := range bulks {
		for ; len(records)-written >= b.rows; written += b.rows {
			err := c.run(b.statement, func(r *row) {
				for _, e := range records[written : written+b.rows] {
					bind(r, e)
				}
			})
			if err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func writeRefusals(c *conn, _ *store.Facts, ch *store.Changes) error {
	for i := range ch.Refusals {
		f := &ch.Refusals[i]
		err := c.run(insertRefusal, func(r *row) {
			r.ints(int64(f.Job), int64(f.Ord), f.At, int64(f.Claim))
			r.text(string(f.Event))
			r.text(f.Actor)
			r.text(f.Why)
			r.body(f.Data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeAnswers stores the answers to keys that were new, and removes a few keys
// that have expired.
func writeAnswers(c *conn, f *store.Facts, ch *store.Changes) error {
	for k, a := range ch.Answers {
		if known := f.Keys[k]; known == nil || !known.New {
			return fmt.Errorf("idempotency key %q of workspace %q was not asked for, or is taken: %w", k.Key, k.Workspace, store.ErrStale)
		}
		err := c.run(insertAnswer, func(r *row) {
			r.text(k.Workspace)
			r.text(k.Key)
			r.text(a.Endpoint)
			r.blob(a.RequestHash[:])
			r.ints(int64(a.Status), f.Now, a.ExpiresAt)
			r.blob(a.Body)
		})
		if err != nil {
			return err
		}
	}
	if len(ch.Answers) == 0 {
		return nil
	}
	return c.run(sweepAnswers, func(r *row) { r.ints(f.Now, sweepLimit) })
}

// inserted returns the error of an insertion: ErrStale if the row exists.
func inserted(err error, kind string, key any) error {
	if exists(err) {
		return fmt.Errorf("%s %v exists: %w", kind, key, store.ErrStale)
	}
	return fmt.Errorf("insert %s %v: %w", kind, key, err)
}

// updated returns the error of an update: ErrStale if it changed no row.
func (c *conn) updated(err error, kind string, key any, was int64) error {
	if err != nil {
		return fmt.Errorf("update %s %v: %w", kind, key, err)
	}
	if c.Changes() == 0 {
		return fmt.Errorf("%s %v is not at version %d: %w", kind, key, was, store.ErrStale)
	}
	return nil
}

// sorted returns the elements in order, without changing list.
func sorted[E any](list []E, order func(a, b E) int) []E {
	if slices.IsSortedFunc(list, order) {
		return list
	}
	list = slices.Clone(list)
	slices.SortFunc(list, order)
	return list
}

func compareKeys(a, b pawl.StepKey) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Ord, b.Ord))
}
