package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var (
	readWebhooks = &statement{"read_webhooks", `with k as (
  select unnest($1::bigint[]) as id
  union
  select s.id from (select unnest($2::text[]) as workspace, unnest($3::text[]) as name) u cross join lateral
    (select id from webhook t where t.workspace = u.workspace and t.name = u.name and t.state <> 'deleted' offset 0) s
)
select ` + names("w", webhookTable.whole) + ` from (select id from k order by id) k cross join lateral
  (select * from webhook where webhook.id = k.id for update) w`}
	newWebhooks = &statement{"new_webhooks", insert("webhook", webhookTable.fresh, "")}
	setWebhooks = &statement{"set_webhooks", update(webhookTable)}
)

func (r *reading) queueWebhooks(p *pipe) {
	if len(r.q.Webhooks)+len(r.q.Hooked) == 0 {
		return
	}
	workspaces, names := make([]string, len(r.q.Hooked)), make([]string, len(r.q.Hooked))
	for i, n := range r.q.Hooked {
		workspaces[i], names[i] = n.Workspace, n.Name
	}
	p.add(readWebhooks, r.webhook, nums(r.q.Webhooks), texts(workspaces), texts(names))
}

// webhook reads a row. It omits a webhook that was found by its name and deleted while this
// transaction waited for its lock.
func (r *reading) webhook(c *cursor) {
	w := webhookTable.readWhole(c)
	if c.err != nil || w.State == lifecycle.WebhookDeleted && !slices.Contains(r.q.Webhooks, w.Key()) {
		return
	}
	r.Webhooks[w.Key()] = w
}

func (w *writing) webhooks(ch *store.Changes) {
	made, err := webhookTable.rowsOf(ch.NewWebhooks)
	w.check(err)
	w.insert(newWebhooks, made)
	change(w, setWebhooks, webhookTable, ch.Webhooks)
}

// Webhook reads a webhook.
func (db *DB) Webhook(ctx context.Context, key rowkey.Webhook) (*pawl.Webhook, error) {
	list, err := db.webhooks(ctx, "select "+names("", webhookTable.whole)+" from webhook where id = $1", int64(key))
	if len(list) == 0 {
		return nil, missing(err, true)
	}
	return list[0], err
}

// Webhooks lists webhooks, newest first.
func (db *DB) Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return db.webhooks(ctx, "select "+names("", webhookTable.whole)+" from webhook where id < $1 order by id desc limit $2", int64(before), limit)
}

func (db *DB) webhooks(ctx context.Context, sql string, args ...any) (list []*pawl.Webhook, err error) {
	err = db.query(ctx, "read webhooks", sql, func(c *cursor) {
		if w := webhookTable.readWhole(c); c.err == nil {
			list = append(list, w)
		}
	}, args...)
	return list, err
}

// WebhookPlace reads the place of a webhook; see store.Deliveries.
func (db *DB) WebhookPlace(ctx context.Context, key rowkey.Webhook) (p store.WebhookPlace, err error) {
	err = db.query(ctx, "read how far a webhook has come", "select version, token, moved, failing_since, failures, error, gap_at, gap from webhook_place where webhook = $1", func(c *cursor) {
		p = store.WebhookPlace{Version: c.num(), Token: c.text(), Moved: c.num(), FailingSince: c.num(), Failures: c.int(), Error: c.text(), GapAt: c.num(), Gap: c.text()}
	}, int64(key))
	return p, err
}

// A place that was never saved is inserted, and else one of the version before is changed. The
// row count says whether it was.
const (
	insertPlace = "insert into webhook_place (webhook, version, token, moved, failing_since, failures, error, gap_at, gap)" +
		" select $1, $2::bigint + 1, $3, $4, $5, $6, $7, $8, $9 on conflict do nothing"
	updatePlace = "update webhook_place set version = version + 1, token = $3, moved = $4, failing_since = $5, failures = $6, error = $7, gap_at = $8, gap = $9" +
		" where webhook = $1 and version = $2"
	insertDelivery = "insert into webhook_delivery (webhook, moved, message, type, attempt, at, duration, status, delivered, error, body)" +
		" values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
	sweepDeliveries = "delete from webhook_delivery where webhook = $1 and moved <> coalesce((select moved from webhook_place where webhook = $1), 0)" +
		" and id <= (select id from webhook_delivery where webhook = $1 order by id desc limit 1 offset $2)"
)

// SaveWebhook saves the place of a webhook and adds deliveries; see store.Deliveries.
func (db *DB) SaveWebhook(ctx context.Context, key rowkey.Webhook, place *store.WebhookPlace, list []store.Delivery) error {
	batch := &pgx.Batch{}
	if p := place; p != nil {
		sql := updatePlace
		if p.Version == 0 {
			sql = insertPlace
		}
		batch.Queue(sql, int64(key), p.Version, storable(p.Token), p.Moved, p.FailingSince, p.Failures, storable(p.Error), p.GapAt, storable(p.Gap))
	}
	for i := range list {
		d := &list[i]
		batch.Queue(insertDelivery, int64(key), d.Moved, storable(d.Message), d.Type, d.Attempt, d.At, d.Duration.Microseconds(), d.Status, d.Delivered, storable(d.Error), d.Body)
	}
	if len(list) > 0 {
		batch.Queue(sweepDeliveries, int64(key), store.KeptDeliveries)
	}
	err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		results := tx.SendBatch(ctx, batch)
		for i := range batch.Len() {
			done, err := results.Exec()
			if err == nil && i == 0 && place != nil && done.RowsAffected() == 0 {
				err = store.ErrStale
			}
			if err != nil {
				_ = results.Close()
				return err
			}
		}
		return results.Close()
	})
	if err != nil {
		return queryError("save how far a webhook has come", err)
	}
	if place != nil {
		place.Version++
	}
	return nil
}

// Deliveries reads deliveries of a webhook; see store.Deliveries.
func (db *DB) Deliveries(ctx context.Context, key rowkey.Webhook, before int64, limit int) (list []store.Delivery, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	err = db.query(ctx, "read deliveries", "select id, moved, message, type, attempt, at, duration, status, delivered, error, body"+
		" from webhook_delivery where webhook = $1 and id < $2 order by id desc limit $3", func(c *cursor) {
		list = append(list, store.Delivery{ID: c.num(), Moved: c.num(), Message: c.text(), Type: c.text(), Attempt: c.int(), At: c.num(),
			Duration: time.Duration(c.num()) * time.Microsecond, Status: c.int(), Delivered: c.flag(), Error: c.text(), Body: c.blob()})
	}, int64(key), before, limit)
	return list, err
}

// Delivered reads delivered messages; see store.Deliveries.
func (db *DB) Delivered(ctx context.Context, key rowkey.Webhook, moved int64) (messages []string, err error) {
	err = db.query(ctx, "read what was delivered", "select message from webhook_delivery where webhook = $1 and moved = $2 and delivered", func(c *cursor) {
		messages = append(messages, c.text())
	}, int64(key), moved)
	return messages, err
}

// feedKept returns for how long rows of the feed are kept. Their number is what the last vacuum
// has estimated.
func (db *DB) feedKept(ctx context.Context) (time.Duration, error) {
	var places []string
	var now, rows int64
	err := db.query(ctx, "ask how far webhooks have come", "select "+clock+", (select reltuples::bigint from pg_class where oid = 'feed'::regclass), null::text union all"+
		" select 0, 0, coalesce(nullif(p.token, ''), w.begin) from webhook w left join webhook_place p on p.webhook = w.id where w.state <> 'deleted'", func(c *cursor) {
		at, n := c.num(), c.num()
		if at != 0 {
			now, rows = at, n
			return
		}
		places = append(places, c.text())
	})
	return store.FeedKept(now, rows, places), err
}
