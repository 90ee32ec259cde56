package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// webhooks reads the webhooks that the query names by key or by name.
func (r *reading) webhooks(q *store.Query) error {
	for _, k := range q.Webhooks {
		if err := r.webhook(selectWebhook, func(b *row) { b.int(int64(k)) }); err != nil {
			return err
		}
	}
	for _, n := range q.Hooked {
		err := r.webhook(selectHooked, func(b *row) {
			b.text(n.Workspace)
			b.text(n.Name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) webhook(s statement, bind func(*row)) error {
	return r.c.each(s, bind, func(c *columns) error {
		found := webhookTable.readWhole(c)
		if k := found.Key(); r.decoded(c, lifecycle.Webhook.Name, k) && r.f.Webhooks[k] == nil {
			r.f.Webhooks[k] = found
		}
		return nil
	})
}

func writeWebhooks(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, w := range ch.NewWebhooks {
		if err := c.run(insertWebhook, func(r *row) { writeColumns(r, webhookTable.insert, w) }); err != nil {
			return inserted(err, lifecycle.Webhook.Name, w.Name)
		}
	}
	for _, u := range ch.Webhooks {
		err := update(c, updateWebhook, webhookTable, webhookTable.change, u)
		if err := c.updated(err, lifecycle.Webhook.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

// Webhook reads a webhook.
func (db *DB) Webhook(ctx context.Context, key rowkey.Webhook) (*pawl.Webhook, error) {
	list, err := db.listWebhooks(ctx, selectWebhook, func(b *row) { b.int(int64(key)) })
	if len(list) == 0 {
		return found[pawl.Webhook](nil, err, lifecycle.Webhook.Name, key)
	}
	return list[0], err
}

// Webhooks lists webhooks, newest first.
func (db *DB) Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return db.listWebhooks(ctx, selectWebhooks, func(b *row) { b.ints(int64(before), int64(limit)) })
}

func (db *DB) listWebhooks(ctx context.Context, s statement, bind func(*row)) (list []*pawl.Webhook, err error) {
	err = db.read(ctx, "read webhooks", func(c *conn) error {
		list = nil
		return c.each(s, bind, func(cols *columns) error {
			if w := webhookTable.readWhole(cols); decoded(db.log, cols, lifecycle.Webhook.Name, w.Key()) {
				list = append(list, w)
			}
			return nil
		})
	})
	return list, err
}

// WebhookPlace reads the place of a webhook; see store.Deliveries.
func (db *DB) WebhookPlace(ctx context.Context, key rowkey.Webhook) (p store.WebhookPlace, err error) {
	err = db.read(ctx, "read how far a webhook has come", func(c *conn) error {
		return c.each(selectPlace, func(b *row) { b.int(int64(key)) }, func(cols *columns) error {
			cols.int()
			p = store.WebhookPlace{Version: cols.int(), Token: cols.text(), Moved: cols.int(), FailingSince: cols.int(),
				Failures: int(cols.int()), Error: cols.text(), GapAt: cols.int(), Gap: cols.text()}
			return cols.finish()
		})
	})
	return p, err
}

// SaveWebhook saves the place of a webhook and adds deliveries; see store.Deliveries.
func (db *DB) SaveWebhook(ctx context.Context, key rowkey.Webhook, place *store.WebhookPlace, list []store.Delivery) error {
	err := db.writer.transact(ctx, func(c *conn) error {
		if err := savePlace(c, key, place); err != nil {
			return err
		}
		for i := range list {
			d := &list[i]
			err := c.run(insertDelivery, func(r *row) {
				r.ints(int64(key), d.Moved)
				r.text(d.Message)
				r.text(d.Type)
				r.ints(int64(d.Attempt), d.At, d.Duration.Microseconds(), int64(d.Status))
				r.bool(d.Delivered)
				r.text(d.Error)
				r.blob(d.Body)
			})
			if err != nil {
				return err
			}
		}
		if len(list) == 0 {
			return nil
		}
		return c.run(sweepDeliveries, func(r *row) { r.ints(int64(key), store.KeptDeliveries) })
	})
	if err != nil {
		return translate("save how far a webhook has come", err)
	}
	if place != nil {
		place.Version++
	}
	return nil
}

func savePlace(c *conn, key rowkey.Webhook, p *store.WebhookPlace) error {
	if p == nil {
		return nil
	}
	rest := func(r *row) {
		r.text(p.Token)
		r.ints(p.Moved, p.FailingSince, int64(p.Failures))
		r.text(p.Error)
		r.int(p.GapAt)
		r.text(p.Gap)
	}
	if p.Version == 0 {
		err := c.run(insertPlace, func(r *row) {
			r.ints(int64(key), 1)
			rest(r)
		})
		if err != nil {
			return inserted(err, "place of webhook", key)
		}
		return nil
	}
	err := c.run(updatePlace, func(r *row) {
		r.int(int64(key))
		rest(r)
		r.int(p.Version)
	})
	if err == nil && c.Changes() == 0 {
		err = fmt.Errorf("the place of webhook %d is not at version %d: %w", key, p.Version, store.ErrStale)
	}
	return err
}

// Deliveries reads deliveries of a webhook; see store.Deliveries.
func (db *DB) Deliveries(ctx context.Context, key rowkey.Webhook, before int64, limit int) (list []store.Delivery, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = db.read(ctx, "read deliveries", func(c *conn) error {
		list = nil
		return c.each(selectDeliveries, func(b *row) { b.ints(int64(key), before, int64(limit)) }, func(cols *columns) error {
			list = append(list, store.Delivery{ID: cols.int(), Moved: cols.int(), Message: cols.text(), Type: cols.text(), Attempt: int(cols.int()), At: cols.int(),
				Duration: time.Duration(cols.int()) * time.Microsecond, Status: int(cols.int()), Delivered: cols.bool(), Error: cols.text(), Body: cols.blob()})
			return cols.finish()
		})
	})
	return list, err
}

// Delivered reads delivered messages; see store.Deliveries.
func (db *DB) Delivered(ctx context.Context, key rowkey.Webhook, moved int64) (messages []string, err error) {
	err = db.read(ctx, "read what was delivered", func(c *conn) error {
		messages = nil
		return c.each(selectDelivered, func(b *row) { b.ints(int64(key), moved) }, func(cols *columns) error {
			messages = append(messages, cols.text())
			return cols.finish()
		})
	})
	return messages, err
}

// feedKept returns for how long rows of the feed are kept, in microseconds.
func (db *DB) feedKept(ctx context.Context, now int64) (kept int64, err error) {
	err = db.read(ctx, "ask how far webhooks have come", func(c *conn) error {
		end, first, err := c.feedEnd()
		if err != nil {
			return err
		}
		var places []string
		err = c.each(selectPlaces, nil, func(cols *columns) error {
			places = append(places, cols.text())
			return cols.finish()
		})
		kept = store.FeedKept(now, int64(end.Next-first), places).Microseconds()
		return err
	})
	return kept, err
}
