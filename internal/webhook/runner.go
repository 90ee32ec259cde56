package webhook

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// holdName is the name that the process holds that delivers.
const holdName = "webhooks"

// A Source is a database as far as a Runner uses it.
type Source interface {
	store.Deliveries
	Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error)
	Hold(ctx context.Context, name string, note []byte) (release func(), err error)
}

// A Runner delivers the events of all active webhooks of a database, while no other process
// does.
type Runner struct {
	Config
	Source Source
	Events *feed.Hub
	Sender *Sender
	Log    *slog.Logger

	// Move moves a webhook of a version, or of any if that is 0, by WebhookDisable or WebhookGap,
	// and returns the version that it has then, at least 1. An error of kind Conflict says that the
	// table has no such move from its state, or that it has another version.
	Move func(ctx context.Context, id pawl.ID, version int64, event machine.Event, reason string) (int64, error)

	// Round is called at the end of each look for webhooks.
	Round func(error)

	// Jitter returns a number in [0,1).
	Jitter func() float64

	wake  chan struct{}
	stats stats
	mu    sync.Mutex
	lines map[rowkey.Webhook]*line
}

// NewRunner returns a runner with the defaults of the configuration. Its other fields are still
// to be set.
func NewRunner(c Config) *Runner {
	return &Runner{Config: c.withDefaults(), wake: make(chan struct{}, 1), lines: map[rowkey.Webhook]*line{}}
}

// Look returns the interval between looks for webhooks of the process that delivers: a hint
// announces what is new.
func (r *Runner) Look() time.Duration { return 3 * r.Poll }

// Wake makes the runner look for webhooks that are new or have changed.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// errLost is the end of a line whose webhook another process delivers.
var errLost = errors.New("another process delivers the webhooks")

// Run delivers until ctx ends, whenever no other process does.
func (r *Runner) Run(ctx context.Context) {
	defer r.Sender.Close()
	for ctx.Err() == nil {
		release, err := r.Source.Hold(ctx, holdName, []byte(`{}`))
		var held *store.HeldError
		switch {
		case err == nil:
			r.serve(ctx)
			release()
			r.Round(nil)
		case errors.As(err, &held):
			r.Round(nil)
		default:
			r.Round(err)
		}
		r.rest(ctx, r.Poll)
	}
}

// rest waits until the next look is due.
func (r *Runner) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.wake:
	case <-ctx.Done():
	}
}

// serve runs a line for each active webhook until ctx ends, or another process delivers.
func (r *Runner) serve(ctx context.Context) {
	ctx, lose := context.WithCancelCause(ctx)
	var lines sync.WaitGroup
	defer func() {
		lose(nil)
		lines.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		clear(r.lines)
	}()
	for ctx.Err() == nil {
		active, err := r.active(ctx)
		if err == nil {
			r.adjust(ctx, active, &lines, lose)
		}
		if ctx.Err() == nil {
			r.Round(err)
		}
		r.rest(ctx, r.Look())
	}
}

// active returns the active webhooks.
func (r *Runner) active(ctx context.Context) (map[rowkey.Webhook]*pawl.Webhook, error) {
	const page = 100
	active := map[rowkey.Webhook]*pawl.Webhook{}
	for before := rowkey.Webhook(0); ; {
		list, err := r.Source.Webhooks(ctx, before, page)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			if before = w.Key(); w.State == lifecycle.WebhookActive {
				active[before] = w
			}
		}
		if len(list) == 0 {
			return active, nil
		}
	}
}

// adjust begins and ends lines so that each active webhook has one, with its present secret, URL and
// filter.
func (r *Runner) adjust(ctx context.Context, active map[rowkey.Webhook]*pawl.Webhook, lines *sync.WaitGroup, lose func(error)) {
	ended := map[rowkey.Webhook]*line{}
	for key, l := range r.lines {
		if w := active[key]; w == nil || w.Secret != l.w.Secret || !reflect.DeepEqual(w.WebhookTarget, l.w.WebhookTarget) || l.over() {
			l.end()
			ended[key] = l
		}
	}
	for key, l := range ended {
		<-l.done
		r.mu.Lock()
		delete(r.lines, key)
		r.mu.Unlock()
	}
	for key, w := range active {
		if r.lines[key] != nil {
			continue
		}
		own, end := context.WithCancel(ctx)
		l := &line{r: r, w: w, filter: w.Filter(), end: end, done: make(chan struct{})}
		r.mu.Lock()
		r.lines[key] = l
		r.mu.Unlock()
		lines.Go(func() {
			defer r.Wake() // a webhook that was changed when it was to be disabled needs another line
			defer close(l.done)
			defer end()
			if err := l.run(own); errors.Is(err, store.ErrStale) {
				r.Log.Info("another process delivers the webhooks now", "webhook", w.Name)
				lose(errLost)
			}
		})
	}
}

// stats count attempts.
type stats struct{ delivered, failed atomic.Int64 }

// Stats are the figures of a runner.
type Stats struct {
	Delivered, Failed int64         // attempts
	Active            int           // webhooks that this process delivers
	Failing           int           // of them, those whose last attempt has failed
	Lag               time.Duration // the age of the oldest event that waits for its delivery; 0: none waits
}

// Stats returns the figures of the runner.
func (r *Runner) Stats() Stats {
	s := Stats{Delivered: r.stats.delivered.Load(), Failed: r.stats.failed.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Active = len(r.lines)
	for _, l := range r.lines {
		if l.failing.Load() {
			s.Failing++
		}
		if at := l.waits.Load(); at != 0 {
			s.Lag = max(s.Lag, time.Since(time.UnixMicro(at)))
		}
	}
	return s
}
