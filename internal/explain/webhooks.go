package explain

import (
	"context"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// WebhookPage lists webhooks, newest first. It looks at no more than maxRows of them, so that a
// page may be short, or empty, though there are more. next is the Before of the next page,
// empty after the last one.
func (r *Reader) WebhookPage(ctx context.Context, q pawl.WebhookQuery) (webhooks []pawl.WebhookView, next string, err error) {
	most, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	var before rowkey.Webhook
	if q.Before != "" {
		id, err := pawl.ParseID(pawl.WebhookPrefix, q.Before)
		if err != nil {
			return nil, "", err
		}
		before = id.WebhookKey()
	}
	webhooks = []pawl.WebhookView{}
	for looked := 0; ; {
		page, err := r.store.Webhooks(ctx, before, maxPage)
		if err != nil || len(page) == 0 {
			return webhooks, "", err
		}
		for _, w := range page {
			if (q.Ended || !lifecycle.Webhook.Ended(w.State)) && (q.Workspace == "" || q.Workspace == w.Workspace) {
				if len(webhooks) == most {
					return webhooks, webhooks[most-1].ID, nil
				}
				v, err := r.webhookView(ctx, w)
				if err != nil {
					return nil, "", err
				}
				webhooks = append(webhooks, v)
			}
			if looked++; looked == maxRows {
				return webhooks, w.ID.Public(pawl.WebhookPrefix), nil
			}
			before = w.Key()
		}
	}
}

// Webhook returns a webhook.
func (r *Reader) Webhook(ctx context.Context, id pawl.ID) (*pawl.WebhookView, error) {
	w, err := store.FindWebhook(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	v, err := r.webhookView(ctx, w)
	return &v, err
}

// WebhookHistory calls f with every move of a webhook, oldest first. It ends with the first
// error of f.
func (r *Reader) WebhookHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if _, err := store.FindWebhook(ctx, r.store, id); err != nil {
		return err
	}
	return r.moves(ctx, store.WebhookEntity(id.WebhookKey()), f)
}

// WebhookHistoryPage is WorkerHistoryPage for a webhook.
func (r *Reader) WebhookHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if _, err := store.FindWebhook(ctx, r.store, id); err != nil {
		return nil, "", err
	}
	return r.movesPage(ctx, store.WebhookEntity(id.WebhookKey()), q)
}

// Deliveries lists the last deliveries of a webhook, newest first. next is the Before of the
// next page, empty after the last one.
func (r *Reader) Deliveries(ctx context.Context, id pawl.ID, q pawl.DeliveryQuery) (list []pawl.Delivery, next string, err error) {
	most, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	before := int64(0)
	if q.Before != "" {
		if before, err = strconv.ParseInt(q.Before, 10, 64); err != nil || before < 1 {
			return nil, "", pawl.Errorf(pawl.Invalid, "delivery %q: want the id of one", q.Before)
		}
	}
	if _, err := store.FindWebhook(ctx, r.store, id); err != nil {
		return nil, "", err
	}
	found, err := r.store.Deliveries(ctx, id.WebhookKey(), before, most+1)
	if err != nil {
		return nil, "", err
	}
	list = make([]pawl.Delivery, 0, min(most, len(found)))
	for i := range found {
		if i == most {
			return list, list[most-1].ID, nil
		}
		list = append(list, found[i].View())
	}
	return list, "", nil
}

func (r *Reader) webhookView(ctx context.Context, w *pawl.Webhook) (pawl.WebhookView, error) {
	p, err := r.store.WebhookPlace(ctx, w.Key())
	return pawl.WebhookView{ID: w.ID.Public(pawl.WebhookPrefix), Name: w.Name, Status: w.State, Workspace: w.Workspace, URL: w.URL, Job: w.Job,
		Machines: append([]string{}, w.Machines...), Events: append([]machine.Event{}, w.Events...), CreatedAt: pawl.Timestamp(w.CreatedAt), UpdatedAt: pawl.Timestamp(w.UpdatedAt), Version: w.Version(),
		FailingSince: pawl.Timestamp(p.FailingSince), Failures: p.Failures, Error: p.Error, GapAt: pawl.Timestamp(p.GapAt), Gap: p.Gap}, err
}
