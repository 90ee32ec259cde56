package access

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/machine"
)

// webhook returns an error unless the principal sees a webhook. One of all workspaces is seen
// only by who is of all.
func (e *Engine) webhook(ctx context.Context, id pawl.ID) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	workspace, err := e.of.WebhookWorkspace(ctx, id)
	if err == nil && !Of(ctx).Sees(workspace) {
		err = store.NoWebhook(id)
	}
	return err
}

// CreateWebhook refuses to who is of some workspaces a webhook of all, and one of the loopback
// interface: programs of the server's machine trust what comes from there.
func (e *Engine) CreateWebhook(ctx context.Context, p pawl.WebhookPlan, c pawl.Change) (none pawl.NewWebhook, err error) {
	if Of(ctx).Everywhere() {
		return e.of.CreateWebhook(ctx, p, c)
	}
	if p.Workspace == "" {
		return none, &pawl.Error{Kind: pawl.Refused, Message: "a webhook without a workspace is about all workspaces, and the token is for some of them", Hint: "name one with workspace_id"}
	}
	if err := in(ctx, p.Workspace); err != nil {
		return none, err
	}
	if err := e.target(ctx, &p.WebhookTarget); err != nil {
		return none, err
	}
	return e.of.CreateWebhook(ctx, p, c)
}

// target refuses to who is of some workspaces the loopback interface, and jobs of others.
func (e *Engine) target(ctx context.Context, p *pawl.WebhookTarget) error {
	if Of(ctx).Everywhere() {
		return nil
	}
	if loopback, err := webhook.CheckURL(p.URL); err == nil && loopback {
		return pawl.Errorf(pawl.Refused, "url: the loopback interface is for tokens of all workspaces")
	}
	if id, err := pawl.ParseID(pawl.JobPrefix, p.Job); err == nil {
		return e.job(ctx, id)
	}
	return nil
}

func (e *Engine) ReplaceWebhook(ctx context.Context, id pawl.ID, target pawl.WebhookTarget, c pawl.Change) (none pawl.Receipt, err error) {
	if err := e.webhook(ctx, id); err != nil {
		return none, err
	}
	return when(e.target(ctx, &target), func() (pawl.Receipt, error) { return e.of.ReplaceWebhook(ctx, id, target, c) })
}

func (e *Engine) RotateWebhook(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.NewWebhook, error) {
	return when(e.webhook(ctx, id), func() (pawl.NewWebhook, error) { return e.of.RotateWebhook(ctx, id, c) })
}

func (e *Engine) MoveWebhook(ctx context.Context, id pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	return when(e.webhook(ctx, id), func() (pawl.Receipt, error) { return e.of.MoveWebhook(ctx, id, event, c) })
}

func (e *Engine) Webhook(ctx context.Context, id pawl.ID) (*pawl.WebhookView, error) {
	return when(e.webhook(ctx, id), func() (*pawl.WebhookView, error) { return e.of.Webhook(ctx, id) })
}

func (e *Engine) WebhookPage(ctx context.Context, q pawl.WebhookQuery) ([]pawl.WebhookView, string, error) {
	workspace, sift, err := one(ctx, q.Workspace)
	if err != nil {
		return nil, "", err
	}
	q.Workspace = workspace
	webhooks, next, err := e.of.WebhookPage(ctx, q)
	if sift {
		webhooks = sifted(ctx, webhooks, func(v *pawl.WebhookView) string { return v.Workspace })
	}
	return webhooks, next, err
}

func (e *Engine) WebhookHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if err := e.webhook(ctx, id); err != nil {
		return err
	}
	return e.of.WebhookHistory(ctx, id, f)
}

func (e *Engine) WebhookHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if err := e.webhook(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.WebhookHistoryPage(ctx, id, q)
}

func (e *Engine) TestWebhook(ctx context.Context, id pawl.ID) (*pawl.Delivery, error) {
	return when(e.webhook(ctx, id), func() (*pawl.Delivery, error) { return e.of.TestWebhook(ctx, id) })
}

func (e *Engine) Redeliver(ctx context.Context, id pawl.ID, delivery string) (*pawl.Delivery, error) {
	return when(e.webhook(ctx, id), func() (*pawl.Delivery, error) { return e.of.Redeliver(ctx, id, delivery) })
}

func (e *Engine) Deliveries(ctx context.Context, id pawl.ID, q pawl.DeliveryQuery) ([]pawl.Delivery, string, error) {
	if err := e.webhook(ctx, id); err != nil {
		return nil, "", err
	}
	return e.of.Deliveries(ctx, id, q)
}
