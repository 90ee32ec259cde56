package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a webhook.
const (
	WebhookActive   machine.State = "active"
	WebhookPaused   machine.State = "paused"
	WebhookDisabled machine.State = "disabled"
	WebhookDeleted  machine.State = "deleted"
)

// The events of a webhook. Four are those of the server that delivers: with WebhookDisable it gives a
// receiver up, with WebhookGap it has to leave events out, with WebhookEncrypt it encrypts the secrets
// with its first key, and with WebhookBlock it says that nothing is sent, since it cannot decrypt them.
const (
	WebhookCreate  machine.Event = "create"
	WebhookPause   machine.Event = "pause"
	WebhookResume  machine.Event = "resume"
	WebhookRotate  machine.Event = "rotate"
	WebhookUpdate  machine.Event = "update"
	WebhookDisable machine.Event = "disable"
	WebhookGap     machine.Event = "gap"
	WebhookEncrypt machine.Event = "encrypt"
	WebhookBlock   machine.Event = "block"
	WebhookDelete  machine.Event = "delete"
)

// Webhook sends events to a URL.
var Webhook = &machine.Machine{
	Name:    "webhook",
	Doc:     "sends events to a URL",
	Create:  WebhookCreate,
	Initial: WebhookActive,
	States:  []machine.State{WebhookActive, WebhookPaused, WebhookDisabled, WebhookDeleted},
	Ends:    []machine.State{WebhookDeleted},
	Table: machine.Table{
		WebhookActive: {
			WebhookPause:   WebhookPaused,
			WebhookRotate:  WebhookActive,
			WebhookUpdate:  WebhookActive,
			WebhookDisable: WebhookDisabled,
			WebhookGap:     WebhookActive,
			WebhookEncrypt: WebhookActive,
			WebhookBlock:   WebhookActive,
			WebhookDelete:  WebhookDeleted,
		},
		WebhookPaused: {
			WebhookResume:  WebhookActive,
			WebhookRotate:  WebhookPaused,
			WebhookUpdate:  WebhookPaused,
			WebhookEncrypt: WebhookPaused,
			WebhookDelete:  WebhookDeleted,
		},
		WebhookDisabled: {
			WebhookResume:  WebhookActive,
			WebhookRotate:  WebhookDisabled,
			WebhookUpdate:  WebhookDisabled,
			WebhookEncrypt: WebhookDisabled,
			WebhookDelete:  WebhookDeleted,
		},
	},
}
