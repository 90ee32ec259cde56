package pawl

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// A Webhook sends events to a URL.
type Webhook struct {
	Record
	ID        ID
	Name      string // of one webhook of its workspace that is not deleted
	Workspace string // whose events it sends; empty: of all
	WebhookTarget
	Begin string // the place in the feed at which it was made

	Secret      []byte // signs what is sent; as it is stored, encrypted or not
	Former      []byte // signs it, too, until FormerUntil
	FormerUntil int64
}

// Key returns the key of the webhook.
func (w *Webhook) Key() rowkey.Webhook { return w.ID.WebhookKey() }

// Version returns the number that rises with each move of the webhook.
func (w *Webhook) Version() int64 { return w.Seq }

// Filter returns what selects the events of the webhook.
func (w *Webhook) Filter() EventFilter {
	return EventFilter{Workspace: w.Workspace, Job: w.Job, Machines: w.Machines, Events: w.Events}
}

// WebhookMachines are the names of the machines whose moves webhooks send: those of tokens and of
// webhooks are for admins alone, and leave the server by no webhook.
var WebhookMachines = slices.DeleteFunc(slices.Clone(AuditMachines), OfAdmins)

// WebhookPrefix is the prefix of the public ids of webhooks.
const WebhookPrefix = "wh_"

// A WebhookName names a webhook that is not deleted.
type WebhookName struct {
	Workspace string // empty: it is one for the events of all workspaces
	Name      string
}

// A WebhookPlan is a requested webhook.
type WebhookPlan struct {
	Name      string // letters, 0-9, . _ and -, no sign first, at most 128
	Workspace string // empty: the events of all workspaces
	WebhookTarget
}

// A WebhookTarget is what a webhook sends where: the part of it that can be changed.
type WebhookTarget struct {
	URL      string          // https; http to the loopback interface only
	Job      string          // id of a job: only it and its steps
	Machines []string        // only of these; none: of all WebhookMachines
	Events   []machine.Event // only these; none: all
}

// A NewWebhook is a webhook that was made, or has a new secret, and that secret, which is shown
// this once.
type NewWebhook struct {
	Receipt
	Secret string `json:"secret,omitempty"`
}

// A WebhookView is a webhook as JSON shows it.
type WebhookView struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Status    machine.State   `json:"status"`
	Workspace string          `json:"workspace_id,omitempty"` // none: all
	URL       string          `json:"url"`
	Job       string          `json:"job_id,omitempty"`
	Machines  []string        `json:"machines"` // none: all
	Events    []machine.Event `json:"events"`   // none: all
	CreatedAt Timestamp       `json:"created_at"`
	UpdatedAt Timestamp       `json:"updated_at"`
	Version   int64           `json:"version"` // rises with each move of the webhook, by itself too

	FailingSince Timestamp `json:"failing_since"` // null: the last attempt was not a failure
	Failures     int       `json:"failures"`      // in a row
	Error        string    `json:"error,omitempty"`
	GapAt        Timestamp `json:"gap_at"` // when it last left events out; null: never
	Gap          string    `json:"gap,omitempty"`
}

// A WebhookQuery selects webhooks, newest first.
type WebhookQuery struct {
	Workspace string // empty: of all workspaces
	Ended     bool   // those that were deleted, too
	Before    string // only older than the webhook with this id
	Limit     int    // 1 to 1000; 0: 50
}

// A Delivery is an attempt to send an event to the URL of a webhook.
type Delivery struct {
	ID        string    `json:"id"`
	Message   string    `json:"message_id"` // the same for each attempt to send an event
	Type      string    `json:"type"`       // MACHINE.EVENT, gap or test
	Attempt   int       `json:"attempt"`    // from 1; 0: somebody asked for it
	At        Timestamp `json:"at"`
	Duration  int64     `json:"duration_ms"`
	Status    int       `json:"status"` // of the response; 0: there was none
	Delivered bool      `json:"delivered"`
	Error     string    `json:"error,omitempty"`
}

// A DeliveryQuery selects deliveries, newest first.
type DeliveryQuery struct {
	Before string // only older than the delivery with this id
	Limit  int    // 1 to 1000; 0: 50
}
