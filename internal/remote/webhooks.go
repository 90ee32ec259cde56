package remote

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

func webhookPath(id pawl.ID) string { return at("/api/webhooks/%s", id.Public(pawl.WebhookPrefix)) }

// CreateWebhook makes a webhook.
func (e *Engine) CreateWebhook(ctx context.Context, p pawl.WebhookPlan, c pawl.Change) (w pawl.NewWebhook, err error) {
	_, err = e.do(ctx, command("create-webhook", "/api/webhooks", c, struct {
		note
		Name      string `json:"name"`
		Workspace string `json:"workspace_id,omitempty"`
		target
	}{note{c.Reason}, p.Name, p.Workspace, target(p.WebhookTarget)}), &w)
	return w, err
}

type target struct {
	URL      string          `json:"url"`
	Job      string          `json:"job_id,omitempty"`
	Machines []string        `json:"machines,omitempty"`
	Events   []machine.Event `json:"events,omitempty"`
}

// ReplaceWebhook changes what a webhook sends where.
func (e *Engine) ReplaceWebhook(ctx context.Context, id pawl.ID, t pawl.WebhookTarget, c pawl.Change) (pawl.Receipt, error) {
	put := command("replace-webhook", webhookPath(id), c, struct {
		note
		target
	}{note{c.Reason}, target(t)})
	put.method = http.MethodPut
	return e.receipt(ctx, put)
}

// RotateWebhook gives a webhook another secret.
func (e *Engine) RotateWebhook(ctx context.Context, id pawl.ID, c pawl.Change) (w pawl.NewWebhook, err error) {
	_, err = e.do(ctx, command("rotate-webhook", webhookPath(id)+"/rotate", c, note{c.Reason}), &w)
	return w, err
}

// MoveWebhook pauses, resumes or deletes a webhook.
func (e *Engine) MoveWebhook(ctx context.Context, id pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	switch event {
	case "pause", "resume", "delete":
		return e.receipt(ctx, command(string(event)+"-webhook", webhookPath(id)+"/"+string(event), c, note{c.Reason}))
	}
	return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "event %q: want pause, resume or delete", event)
}

// Webhook returns a webhook.
func (e *Engine) Webhook(ctx context.Context, id pawl.ID) (*pawl.WebhookView, error) {
	return read[pawl.WebhookView](ctx, e, "get-webhook", webhookPath(id))
}

// WebhookPage is a page of the webhooks.
func (e *Engine) WebhookPage(ctx context.Context, q pawl.WebhookQuery) ([]pawl.WebhookView, string, error) {
	c := call{operation: "list-webhooks", path: "/api/webhooks", query: values()}
	if q.Workspace != "" {
		c.query.Set("workspace_id", q.Workspace)
	}
	if q.Ended {
		c.query.Set("ended", "true")
	}
	return onePage[pawl.WebhookView](ctx, e, c, q.Before, q.Limit)
}

func webhookHistory(id pawl.ID) call {
	return call{operation: "list-webhook-history", path: webhookPath(id) + "/history"}
}

// WebhookHistory calls f with every move of a webhook.
func (e *Engine) WebhookHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return e.moves(ctx, webhookHistory(id), f)
}

// WebhookHistoryPage is a page of WebhookHistory.
func (e *Engine) WebhookHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, webhookHistory(id), q.After, q.Limit)
}

// TestWebhook sends a message without an event.
func (e *Engine) TestWebhook(ctx context.Context, id pawl.ID) (*pawl.Delivery, error) {
	return e.sent(ctx, "test-webhook", webhookPath(id)+"/test")
}

// Redeliver sends a message again.
func (e *Engine) Redeliver(ctx context.Context, id pawl.ID, delivery string) (*pawl.Delivery, error) {
	return e.sent(ctx, "redeliver", webhookPath(id)+at("/deliveries/%s/redeliver", delivery))
}

func (e *Engine) sent(ctx context.Context, operation, path string) (*pawl.Delivery, error) {
	var d pawl.Delivery
	_, err := e.do(ctx, &call{operation: operation, method: "POST", path: path, once: true}, &d)
	return &d, err
}

// Deliveries is a page of the last deliveries of a webhook.
func (e *Engine) Deliveries(ctx context.Context, id pawl.ID, q pawl.DeliveryQuery) ([]pawl.Delivery, string, error) {
	return onePage[pawl.Delivery](ctx, e, call{operation: "list-deliveries", path: webhookPath(id) + "/deliveries"}, q.Before, q.Limit)
}
