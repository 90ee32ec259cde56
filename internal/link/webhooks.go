package link

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// Webhooks makes webhooks, moves them, and reads them.
type Webhooks interface {
	CreateWebhook(ctx context.Context, p pawl.WebhookPlan, c pawl.Change) (pawl.NewWebhook, error)
	// ReplaceWebhook changes what a webhook sends where; Change.Version restricts it to a version.
	ReplaceWebhook(ctx context.Context, id pawl.ID, target pawl.WebhookTarget, c pawl.Change) (pawl.Receipt, error)
	RotateWebhook(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.NewWebhook, error)
	// MoveWebhook pauses, resumes or deletes a webhook.
	MoveWebhook(ctx context.Context, id pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error)

	Webhook(ctx context.Context, id pawl.ID) (*pawl.WebhookView, error)
	// WebhookPage lists webhooks, newest first. A page may be short though there are more. next
	// is the Before of the next page, empty after the last one.
	WebhookPage(ctx context.Context, q pawl.WebhookQuery) (webhooks []pawl.WebhookView, next string, err error)
	WebhookHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	WebhookHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)

	// TestWebhook sends a message without an event, once, and Redeliver a message that was sent
	// before. That the receiver does not take it is no error.
	TestWebhook(ctx context.Context, id pawl.ID) (*pawl.Delivery, error)
	Redeliver(ctx context.Context, id pawl.ID, delivery string) (*pawl.Delivery, error)
	// Deliveries lists the last attempts, newest first.
	Deliveries(ctx context.Context, id pawl.ID, q pawl.DeliveryQuery) (list []pawl.Delivery, next string, err error)
}

// WebhookSecretShown returns the ErrSecretShown of the webhook with that id. It is of kind
// Conflict.
func WebhookSecretShown(id string) error {
	return secretShown("this request has made the secret of webhook "+id+" before; it was shown then and is not shown again",
		"make another one with: pawl webhook rotate "+id)
}
