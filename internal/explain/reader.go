package explain

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var _ link.Inspect = (*Reader)(nil)

// A Source is a store as far as it is read here. It has no method that writes.
type Source interface {
	store.Views

	// Logs reads a page of what steps have printed; see store.Logs.
	Logs(ctx context.Context, job rowkey.Job, ord pawl.Ord, after store.LogPlace, limit int) ([]pawl.Chunk, error)

	// Look returns the time of the database, among others; see store.Ledger.
	Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error)

	// WebhookPlace and Deliveries read how far a webhook has come, and what it has sent last;
	// see store.Deliveries.
	WebhookPlace(ctx context.Context, key rowkey.Webhook) (store.WebhookPlace, error)
	Deliveries(ctx context.Context, key rowkey.Webhook, before int64, limit int) ([]store.Delivery, error)

	// Observe returns what shows whether workers live; see store.Ledger.
	Observe(ctx context.Context) (*health.Report, error)
}

// Config configures a Reader. All fields but Passive are required.
type Config struct {
	Source      Source
	Definitions *definitions.Cache
	Limits      *quota.Cache

	// Silence is how long a worker may be silent before it is considered dead (J9).
	Silence time.Duration

	// Passive says that this process evaluates no jobs, so that others have to.
	Passive bool

	// Clock returns the time from which the next times of a schedule are counted.
	Clock func() time.Time
}

// A Reader reads for users what one database has. It is safe for concurrent use.
type Reader struct {
	cfg    Config
	store  Source
	defs   *definitions.Cache
	limits *quota.Cache
	look   int // rows that a page of moves looks at
}

// New returns a reader. It reads nothing yet.
func New(c Config) *Reader {
	return &Reader{cfg: c, store: c.Source, defs: c.Definitions, limits: c.Limits, look: pageLook}
}
