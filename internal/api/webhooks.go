package api

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) webhookOperations() []operation {
	const tag, one = "webhooks", "/api/webhooks/{id}"
	secret := []Slug{SlugConflict, SlugSecretShown, SlugKeyReused, SlugRequestInProgress, SlugNotFound}
	return []operation{
		{id: "create-webhook", method: post, path: "/api/webhooks", role: Admin, repeat: once, good: []int{201}, errors: secret, tag: tag,
			summary: "Create a webhook", detail: "Makes a webhook, which sends the events from now on to a URL. The response is the only place that has its secret. A token of some workspaces has to name one of them, and no URL of the loopback interface.", add: does(s, s.createWebhook)},
		{id: "list-webhooks", method: get, path: "/api/webhooks", role: Admin, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List webhooks, newest first", detail: "Lists webhooks, with how they fare. Nobody can read their secrets.", add: does(s, s.listWebhooks)},
		{id: "get-webhook", method: get, path: one, role: Admin, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a webhook", detail: "Reads a webhook: what it sends where, and whether its receiver takes it.", add: does(s, s.getWebhook)},
		{id: "replace-webhook", method: put, path: one, role: Admin, repeat: replayed, errors: append([]Slug{SlugPreconditionFailed}, verbErrors...), tag: tag,
			summary: "Change what a webhook sends where", detail: "Changes the URL and the selection of a webhook, whatever its state. What is left out has its default. What it has not sent yet goes to the new URL, if the new selection has it.", add: does(s, s.replaceWebhook)},
		{id: "pause-webhook", method: post, path: one + "/pause", role: Admin, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Pause a webhook", detail: "Sends nothing until the webhook is resumed. What happens meanwhile is sent then, if that is within three days.", add: does(s, s.webhookVerb(lifecycle.WebhookPause))},
		{id: "resume-webhook", method: post, path: one + "/resume", role: Admin, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resume a webhook", detail: "Goes on with a webhook that was paused, or was disabled because its receiver failed.", add: does(s, s.webhookVerb(lifecycle.WebhookResume))},
		{id: "delete-webhook", method: post, path: one + "/delete", role: Admin, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Delete a webhook", detail: "Ends a webhook for good. Its name is free then.", add: does(s, s.webhookVerb(lifecycle.WebhookDelete))},
		{id: "rotate-webhook", method: post, path: one + "/rotate", role: Admin, repeat: once, errors: append(secret, SlugInvalidTransition), tag: tag,
			summary: "Give a webhook another secret", detail: "Makes another secret, which the response has. For 24 hours messages are signed with the former one, too.", add: does(s, s.rotateWebhook)},
		{id: "test-webhook", method: post, path: one + "/test", role: Admin, repeat: settles, errors: []Slug{SlugConflict, SlugNotFound}, tag: tag,
			summary: "Send a test message", detail: "Sends a message of the type test, once, whatever the state of the webhook. The response says what the receiver did.", add: does(s, s.testWebhook)},
		{id: "list-deliveries", method: get, path: one + "/deliveries", role: Admin, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List the last deliveries of a webhook, newest first", detail: "Lists attempts to send a message: the last 100 at least.", add: does(s, s.listDeliveries)},
		{id: "redeliver", method: post, path: one + "/deliveries/{delivery}/redeliver", role: Admin, repeat: settles, errors: []Slug{SlugConflict, SlugNotFound}, tag: tag,
			summary: "Send a message again", detail: "Sends the message of an earlier delivery again, once, with the same message id. The response says what the receiver did.", add: does(s, s.redeliver)},
		{id: "list-webhook-history", method: get, path: one + "/history", role: Admin, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a webhook", detail: "Lists the moves of a webhook, oldest first: who made and paused it, when it was disabled, and when events were missing.", add: does(s, s.listWebhookHistory)},
	}
}

// A WebhookPath names a webhook.
type WebhookPath struct {
	ID string `path:"id" doc:"The id of a webhook." example:"wh_019ac1f0a3c47d5e8f00112233445566"`
}

func (p *WebhookPath) webhook() (pawl.ID, error) {
	return parseID(pawl.WebhookPrefix, p.ID, "webhook")
}

// A Target is what a webhook sends where.
type Target struct {
	URL      string          `json:"url" maxLength:"2048" doc:"Where it sends. https, or http to the loopback interface." example:"https://example.com/pawl"`
	Job      string          `json:"job_id,omitempty" maxLength:"64" doc:"Only of this job and its steps."`
	Machines []string        `json:"machines,omitempty" maxItems:"5" enum:"job,step,worker,schedule,queue_pause" doc:"Only of these machines. Default: of all."`
	Events   []machine.Event `json:"events,omitempty" maxItems:"100" doc:"Only these events of the machines. Default: all."`
}

type createdWebhook struct {
	Status   int
	Location string `header:"Location" doc:"The path of the webhook."`
	Body     pawl.NewWebhook
}

func (s *Service) createWebhook(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		Name      string `json:"name" maxLength:"128" doc:"Its name: letters, 0-9, . _ and -, no sign first. One webhook of the workspace has it." example:"alerts"`
		Workspace string `json:"workspace_id,omitempty" maxLength:"128" doc:"Only events of this workspace. Default: of all."`
		Target
	}
}) (*createdWebhook, error) {
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	w, err := s.client(ctx, "").Webhooks.Create(ctx, pawl.WebhookPlan{Name: b.Name, Workspace: b.Workspace, WebhookTarget: pawl.WebhookTarget(b.Target)}, c)
	if err != nil {
		return nil, err
	}
	return &createdWebhook{http.StatusCreated, "/api/webhooks/" + w.ID, w}, nil
}

func (s *Service) listWebhooks(ctx context.Context, in *struct {
	OfWorkspace
	Window
	Ended bool `query:"ended" doc:"Those that were deleted, too."`
}) (*body[page[pawl.WebhookView]], error) {
	return placedPage(in.Window, []any{"webhooks", in.Workspace, in.Ended}, func(after string, limit int) ([]pawl.WebhookView, string, error) {
		return s.Engine.WebhookPage(ctx, pawl.WebhookQuery{Workspace: in.Workspace, Ended: in.Ended, Before: after, Limit: limit})
	})
}

func (s *Service) getWebhook(ctx context.Context, in *struct{ WebhookPath }) (*versioned[pawl.WebhookView], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	v, err := s.Engine.Webhook(ctx, id)
	if err != nil {
		return nil, err
	}
	return &versioned[pawl.WebhookView]{quoted(v.Version), *v}, nil
}

func (s *Service) replaceWebhook(ctx context.Context, in *struct {
	WebhookPath
	Key
	IfMatch
	Body struct {
		Note
		Target
	}
}) (*receipt, error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err == nil {
		c.Version, err = in.version()
	}
	if err != nil {
		return nil, err
	}
	return receiptOf(s.client(ctx, "").Webhooks.Replace(ctx, id, pawl.WebhookTarget(in.Body.Target), c))
}

// A WebhookCommand is a command about a webhook.
type WebhookCommand struct {
	WebhookPath
	Command
}

func (s *Service) webhookVerb(event machine.Event) func(context.Context, *WebhookCommand) (*receipt, error) {
	return func(ctx context.Context, in *WebhookCommand) (*receipt, error) {
		id, err := in.webhook()
		if err != nil {
			return nil, err
		}
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		return receiptOf(s.client(ctx, "").Webhooks.Move(ctx, id, event, c))
	}
}

func (s *Service) rotateWebhook(ctx context.Context, in *WebhookCommand) (*body[pawl.NewWebhook], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	w, err := s.client(ctx, "").Webhooks.Rotate(ctx, id, c)
	if err != nil {
		return nil, err
	}
	return &body[pawl.NewWebhook]{w}, nil
}

func (s *Service) testWebhook(ctx context.Context, in *struct{ WebhookPath }) (*body[pawl.Delivery], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	return sent(s.Engine.TestWebhook(ctx, id))
}

func sent(d *pawl.Delivery, err error) (*body[pawl.Delivery], error) {
	if err != nil {
		return nil, err
	}
	return &body[pawl.Delivery]{*d}, nil
}

func (s *Service) redeliver(ctx context.Context, in *struct {
	WebhookPath
	Delivery string `path:"delivery" doc:"The id of a delivery." example:"17"`
}) (*body[pawl.Delivery], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	return sent(s.Engine.Redeliver(ctx, id, in.Delivery))
}

func (s *Service) listDeliveries(ctx context.Context, in *struct {
	WebhookPath
	Window
}) (*body[page[pawl.Delivery]], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"deliveries", in.ID}, func(after string, limit int) ([]pawl.Delivery, string, error) {
		return s.Engine.Deliveries(ctx, id, pawl.DeliveryQuery{Before: after, Limit: limit})
	})
}

func (s *Service) listWebhookHistory(ctx context.Context, in *struct {
	WebhookPath
	Window
}) (*body[page[pawl.Transition]], error) {
	id, err := in.webhook()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"webhook", in.ID}, func(after string, limit int) ([]pawl.Transition, string, error) {
		return s.Engine.WebhookHistoryPage(ctx, id, pawl.HistoryQuery{After: after, Limit: limit})
	})
}
