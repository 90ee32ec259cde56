package store

import (
	"context"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
)

// Deliveries keeps how far webhooks have come, and what they have sent last. It is no part of
// their records, and in no trail.
type Deliveries interface {
	// WebhookPlace reads the place of a webhook. One that was never saved is the zero value.
	WebhookPlace(ctx context.Context, key rowkey.Webhook) (WebhookPlace, error)
	// SaveWebhook adds deliveries, without their IDs, and saves the place, unless it is nil.
	// Place.Version is that of the place that was read or saved before, and rises by one. If
	// another process has saved one meanwhile, the error is ErrStale, and nothing is saved. It
	// forgets all deliveries but the last KeptDeliveries and those since Token has moved.
	SaveWebhook(ctx context.Context, key rowkey.Webhook, place *WebhookPlace, list []Delivery) error
	// Deliveries reads deliveries of a webhook, newest first: those with an ID below before (0
	// is no bound), at most limit, the one with the ID before-1 being the first.
	Deliveries(ctx context.Context, key rowkey.Webhook, before int64, limit int) ([]Delivery, error)
	// Delivered reads the messages that were delivered while the place had moved so often.
	Delivered(ctx context.Context, key rowkey.Webhook, moved int64) ([]string, error)
}

// KeptDeliveries is how many deliveries of a webhook are kept.
const KeptDeliveries = 100

// A WebhookPlace is how far a webhook has come.
type WebhookPlace struct {
	Version      int64
	Token        string // of the feed: all before it was delivered; empty: the webhook's Begin
	Moved        int64  // how often Token has moved
	FailingSince int64  // since when every attempt has failed; 0: the last one has not
	Failures     int    // so many
	Error        string // of the last one
	GapAt        int64  // when events were left out
	Gap          string // why
}

// Blocked reports whether nothing is sent to the webhook since its secrets cannot be decrypted, as Error
// says.
func (p *WebhookPlace) Blocked() bool { return p.FailingSince != 0 && p.Failures == 0 }

// A Delivery is an attempt to deliver a message.
type Delivery struct {
	ID        int64
	Moved     int64 // of the place; -1: somebody asked for the delivery
	Message   string
	Type      string
	Attempt   int
	At        int64
	Duration  time.Duration // in microseconds when it is stored
	Status    int
	Delivered bool
	Error     string
	Body      []byte
}

// Rows of the feed are kept for webhooks that are behind, for so long, and not while there are
// more of them.
const (
	WebhookMemory  = 72 * time.Hour
	WebhookBacklog = 5_000_000
)

// FeedKept returns for how long rows of the feed are kept, of which there are so many, given the
// places of the webhooks that are not deleted.
func FeedKept(now, rows int64, places []string) time.Duration {
	kept := FeedMemory
	if rows > WebhookBacklog {
		return kept
	}
	for _, p := range places {
		if t, err := ParseFeedToken(p); err == nil {
			kept = max(kept, time.Duration(now-t.At)*time.Microsecond+time.Minute)
		}
	}
	return min(kept, WebhookMemory)
}

// View returns the delivery as users see it.
func (d *Delivery) View() pawl.Delivery {
	return pawl.Delivery{ID: strconv.FormatInt(d.ID, 10), Message: d.Message, Type: d.Type, Attempt: d.Attempt, At: pawl.Timestamp(d.At),
		Duration: d.Duration.Milliseconds(), Status: d.Status, Delivered: d.Delivered, Error: d.Error}
}
