package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// feed writes a row of the feed, unless it names nothing. There is one writer, so the positions
// of rows are in the order of their commits.
func feed(c *conn, at int64, rows store.FeedRows) error {
	if rows == nil {
		return nil
	}
	return c.run(insertFeed, func(r *row) {
		r.int(at)
		r.blob(rows)
	})
}

// Since reads the feed; see store.Feed. A token has the position behind the last row that was
// seen, and the time of that row: a copy of the file that went on by itself has another.
func (db *DB) Since(ctx context.Context, after store.FeedToken, limit int) (batch *store.FeedBatch, err error) {
	err = db.read(ctx, "read the feed", func(c *conn) error {
		batch, err = db.since(c, after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return batch, nil
}

func (db *DB) since(c *conn, after store.FeedToken, limit int) (*store.FeedBatch, error) {
	now, first, err := c.feedEnd()
	if err != nil {
		return nil, err
	}
	if after.Epoch == 0 {
		return &store.FeedBatch{Token: now, All: true}, nil
	}
	reason, err := c.feedGap(&after, &now, first)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return nil, &store.GapError{Reason: reason, Now: now}
	}
	b := &store.FeedBatch{Token: after, All: true}
	n := 0
	err = c.each(selectFeed, func(r *row) { r.ints(int64(after.Next), int64(limit)) }, func(cols *columns) error {
		pos, at, rows := cols.int(), cols.int(), store.FeedRows(cols.blob())
		b.Token.Next, b.Token.At = uint64(pos)+1, at
		n++
		b.All = n < limit
		return db.fed(c, uint64(pos), rows, &b.Events)
	})
	slices.SortStableFunc(b.Events, func(a, b store.Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Commit, b.Commit)) })
	return b, err
}

// feedEnd returns the place of now, and the position of the first row.
func (c *conn) feedEnd() (now store.FeedToken, first uint64, err error) {
	err = c.each(selectFeedEpoch, nil, func(cols *columns) error {
		now.Epoch = max(uint64(cols.int()), 1)
		return nil
	})
	if err != nil {
		return now, 0, err
	}
	err = c.each(selectFeedEnds, nil, func(cols *columns) error {
		first, now.Next = uint64(cols.int()), uint64(cols.int())+1
		return nil
	})
	if err != nil {
		return now, 0, err
	}
	now.At, _, err = c.feedAt(now.Next - 1)
	return now, first, err
}

// feedAt returns the time of a row, and whether it is there.
func (c *conn) feedAt(pos uint64) (at int64, there bool, err error) {
	err = c.each(selectFeedAt, func(r *row) { r.int(int64(pos)) }, func(cols *columns) error {
		at, there = cols.int(), true
		return nil
	})
	return at, there, err
}

// feedGap returns why the feed does not go on from a token, or "".
func (c *conn) feedGap(after, now *store.FeedToken, first uint64) (string, error) {
	last := after.Next - 1
	switch {
	case after.Epoch != now.Epoch, after.Next == 0, after.Next > now.Next, len(after.Open) > 0:
		return store.GapOther, nil
	case last == 0 && first <= 1: // the feed was empty, and is whole
		return "", nil
	}
	at, there, err := c.feedAt(last)
	switch {
	case err != nil:
		return "", err
	case !there:
		return store.GapOld, nil
	case at != after.At:
		return store.GapOther, nil
	}
	return "", nil
}

// fed reads the entries that a row of the feed names.
func (db *DB) fed(c *conn, commit uint64, rows store.FeedRows, events *[]store.Event) error {
	var failed error
	err := rows.Each(func(k store.EntityKey, seq int64) {
		if failed == nil {
			failed = db.fedRow(c, k, seq, func(e store.Event) {
				e.Commit = commit
				*events = append(*events, e)
			})
		}
	})
	if err != nil && db.faults.New("feed "+err.Error()) {
		db.log.Error("row of the feed left out", "position", commit, "error", err)
	}
	return failed
}

// fedRow passes on the entries of a row of a trail.
func (db *DB) fedRow(c *conn, k store.EntityKey, seq int64, f func(store.Event)) error {
	s, named := selectFed, nameOf
	if long := longNamed[k.Kind]; long.public != nil {
		s, named = long.fed, func(id pawl.ID, _ pawl.Ord) string { return long.public(id) }
	}
	ofJob := s == selectFed
	bind := func(r *row) {
		if r.int(int64(k.Job)); ofJob {
			r.int(int64(k.Ord))
		}
		r.int(seq)
	}
	return c.each(s, bind, func(cols *columns) error {
		var id pawl.ID
		cols.fixed(id[:])
		of := store.Event{Workspace: cols.text(), Name: cols.text()}
		pass := func(ord pawl.Ord, entry audit.Entry) {
			e := of
			e.Entry = store.Entry{EntityKey: k, Entry: entry}
			e.Entity = named(id, ord)
			if ofJob {
				e.EntityKey = store.StepEntity(pawl.StepKey{Job: k.Job, Ord: ord})
			}
			f(e)
		}
		if ofJob {
			of.Job, of.Definition = id, rowkey.Definition(cols.int())
			cols.entries(pass)
			decoded(db.log, cols, "audit entries", k)
		} else if entry := cols.entry(); decoded(db.log, cols, "audit entry", k) {
			pass(0, entry)
		}
		return nil
	})
}

// forgetFeed deletes rows of the feed of which no token that is still good needs anything.
func (db *DB) forgetFeed(ctx context.Context, now int64) error {
	const batch = 10_000
	kept, err := db.feedKept(ctx, now)
	if err != nil {
		return translate("ask how far webhooks have come", err)
	}
	for {
		n := 0
		err := db.writer.transact(ctx, func(c *conn) error {
			err := c.run(sweepFeed, func(b *row) { b.ints(now-kept, now+kept, batch) })
			n = c.Changes()
			return err
		})
		if err != nil || n < batch {
			return translate("forget what was committed long ago", err)
		}
	}
}
