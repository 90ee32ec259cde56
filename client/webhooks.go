package client

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// Webhooks sends events to URLs.
type Webhooks struct{ base }

// Create makes a webhook for what is committed from now on. The result is the only place that
// has its secret. If an earlier request with the same id made the webhook, and if a webhook of
// the workspace has the name, the error is of kind Conflict.
func (w *Webhooks) Create(ctx context.Context, p pawl.WebhookPlan, c pawl.Change) (pawl.NewWebhook, error) {
	return w.engine.CreateWebhook(ctx, p, w.by(c))
}

// Replace changes what a webhook sends where, whatever its state. What it has not sent yet it sends
// there, if the new filter selects it; a message that is under way may arrive at both places.
// Change.Version restricts it to a version, which WebhookView has: if the webhook has changed since,
// the error is of kind Conflict.
func (w *Webhooks) Replace(ctx context.Context, id pawl.ID, target pawl.WebhookTarget, c pawl.Change) (pawl.Receipt, error) {
	return w.engine.ReplaceWebhook(ctx, id, target, w.by(c))
}

// Rotate gives a webhook another secret, which the result has. For 24 hours what is sent is
// signed with the former one, too.
func (w *Webhooks) Rotate(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.NewWebhook, error) {
	return w.engine.RotateWebhook(ctx, id, w.by(c))
}

// Move pauses, resumes or deletes a webhook (lifecycle.WebhookPause, WebhookResume and
// WebhookDelete). What is committed during a pause is delivered afterwards, for up to three days.
func (w *Webhooks) Move(ctx context.Context, id pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	return w.engine.MoveWebhook(ctx, id, event, w.by(c))
}

// Get returns a webhook.
func (w *Webhooks) Get(ctx context.Context, id pawl.ID) (*pawl.WebhookView, error) {
	return w.engine.Webhook(ctx, id)
}

// List calls f with the webhooks of a workspace, or of all if it is empty, newest first, and
// with ended also with those that were deleted. It ends with the first error of f.
func (w *Webhooks) List(ctx context.Context, workspace string, ended bool, f func(*pawl.WebhookView) error) error {
	return eachPage(f, func(before string) ([]pawl.WebhookView, string, error) {
		return w.engine.WebhookPage(ctx, pawl.WebhookQuery{Workspace: workspace, Ended: ended, Limit: pageRows, Before: before})
	})
}

// Find returns the id that a text is: an id, or the name of a webhook that is not deleted, of a
// workspace or, if that is empty, of any. The error is of kind NotFound if there is none, and
// of kind Invalid if there are several.
func (w *Webhooks) Find(ctx context.Context, workspace, text string) (pawl.ID, error) {
	if id, err := pawl.ParseID(pawl.WebhookPrefix, text); err == nil {
		return id, nil
	}
	var found []string
	err := w.List(ctx, workspace, false, func(v *pawl.WebhookView) error {
		if v.Name == text {
			found = append(found, v.ID)
		}
		return nil
	})
	switch {
	case err != nil:
		return pawl.ID{}, err
	case len(found) == 0:
		return pawl.ID{}, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no webhook %q", text), Hint: "list the webhooks with: pawl webhook list"}
	case len(found) > 1:
		return pawl.ID{}, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("%d webhooks have the name %q, in several workspaces", len(found), text), Hint: "name the workspace, or the id"}
	}
	return pawl.ParseID(pawl.WebhookPrefix, found[0])
}

// History calls f with every move of a webhook, oldest first. It ends with the first error of f.
func (w *Webhooks) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return w.engine.WebhookHistory(ctx, id, f)
}

// Test sends a message without an event, once, whatever the state of the webhook. That the
// receiver does not take it is no error: the result says it.
func (w *Webhooks) Test(ctx context.Context, id pawl.ID) (*pawl.Delivery, error) {
	return w.engine.TestWebhook(ctx, id)
}

// Redeliver sends a message again, once: that of a delivery which Deliveries lists.
func (w *Webhooks) Redeliver(ctx context.Context, id pawl.ID, delivery string) (*pawl.Delivery, error) {
	return w.engine.Redeliver(ctx, id, delivery)
}

// Deliveries calls f with the attempts of a webhook that are kept, newest first: the last 100
// at least. It ends with the first error of f.
func (w *Webhooks) Deliveries(ctx context.Context, id pawl.ID, f func(*pawl.Delivery) error) error {
	return eachPage(f, func(before string) ([]pawl.Delivery, string, error) {
		return w.engine.Deliveries(ctx, id, pawl.DeliveryQuery{Limit: pageRows, Before: before})
	})
}
