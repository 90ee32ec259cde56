package webhook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The names that processes hold. The process that holds plainName delivers the webhooks whose secrets
// are stored as they are, and that with keyName and a key those whose secrets are encrypted with it.
// The one with encryptName encrypts: during a restart one after the other, servers may differ in
// which key is the first.
const (
	plainName   = "webhooks"
	keyName     = "webhooks/"
	encryptName = "webhooks/encrypt"
)

// nameOf returns the name that the process holds that delivers a webhook.
func nameOf(w *pawl.Webhook) string {
	if key := keyring.KeyOf(w.Secret); key != "" {
		return keyName + key
	}
	return plainName
}

// A Source is a database as far as a Runner uses it.
type Source interface {
	store.Deliveries
	Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error)
	Hold(ctx context.Context, name string, note []byte) (release func(), err error)
}

// A Runner delivers the events of the active webhooks of a database whose secrets it can decrypt,
// while no other process does.
type Runner struct {
	Config
	Source Source
	Events *feed.Hub
	Sender *Sender
	Log    *slog.Logger

	// Move moves a webhook of a version, or of any if that is 0, by WebhookDisable, WebhookGap or
	// WebhookBlock, and returns the version that it has then, at least 1. An error of kind Conflict
	// says that the table has no such move from its state, or that it has another version.
	Move func(ctx context.Context, id pawl.ID, version int64, event machine.Event, reason string) (int64, error)

	// Encrypt replaces the secrets of a webhook of a version. Its errors are those of Move.
	Encrypt func(ctx context.Context, id pawl.ID, version int64, to Encrypted, reason string) error

	// Round is called at the end of each look for webhooks.
	Round func(error)

	// Jitter returns a number in [0,1).
	Jitter func() float64

	wake    chan struct{}
	stats   stats
	running sync.WaitGroup       // the lines
	held    map[string]func()    // the names that are held, and how to let go of them
	alone   map[string]time.Time // names that this process has no key for: since when no process has held them

	mu      sync.Mutex
	lines   map[rowkey.Webhook]*line
	lost    map[string]bool // names under which another process delivers
	blocked int             // active webhooks of this process that it cannot decrypt
}

// NewRunner returns a runner with the defaults of the configuration. Its other fields are still
// to be set.
func NewRunner(c Config) *Runner {
	return &Runner{Config: c.withDefaults(), wake: make(chan struct{}, 1), lines: map[rowkey.Webhook]*line{},
		held: map[string]func(){}, alone: map[string]time.Time{}, lost: map[string]bool{}}
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

// Run delivers until ctx ends, whenever no other process does.
func (r *Runner) Run(ctx context.Context) {
	defer r.Sender.Close()
	defer func() {
		r.endLines(func(*line) bool { return true })
		r.running.Wait()
		for name := range r.held {
			r.letGo(name)
		}
	}()
	for ctx.Err() == nil {
		r.Round(r.look(ctx))
		r.rest(ctx, r.interval())
	}
}

// names returns the names that this process can hold.
func (r *Runner) names() []string {
	names := []string{plainName}
	for _, key := range r.Ring.Fingerprints() {
		names = append(names, keyName+key)
	}
	if r.Ring.Given() {
		names = append(names, encryptName)
	}
	return names
}

// interval returns the time until the next look: a process that holds every name needs only hints.
func (r *Runner) interval() time.Duration {
	if len(r.held) == len(r.names()) {
		return r.Look()
	}
	return r.Poll
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

// look holds the names that are free, and begins and ends the lines of their webhooks.
func (r *Runner) look(ctx context.Context) error {
	err := r.hold(ctx)
	if len(r.held) == 0 {
		return err
	}
	all, fault := r.webhooks(ctx)
	if fault != nil {
		return errors.Join(err, fault)
	}
	if r.held[encryptName] != nil {
		changed, fault := r.encrypt(ctx, all)
		err = errors.Join(err, fault)
		if changed {
			if all, fault = r.webhooks(ctx); fault != nil {
				return errors.Join(err, fault)
			}
		}
	}
	return errors.Join(err, r.adjust(ctx, all))
}

// hold lets go of the names under which another process delivers, and takes those that are free.
func (r *Runner) hold(ctx context.Context) (err error) {
	r.mu.Lock()
	lost := slices.Collect(maps.Keys(r.lost))
	clear(r.lost)
	r.mu.Unlock()
	for _, name := range lost {
		r.endLines(func(l *line) bool { return nameOf(l.w) == name })
		r.letGo(name)
	}
	for _, name := range r.names() {
		if r.held[name] != nil || slices.Contains(lost, name) {
			continue
		}
		release, fault := r.Source.Hold(ctx, name, []byte(`{}`))
		var held *store.HeldError
		switch {
		case fault == nil:
			r.held[name] = release
		case !errors.As(fault, &held):
			err = errors.Join(err, fault)
		}
	}
	return err
}

func (r *Runner) letGo(name string) {
	if release := r.held[name]; release != nil {
		release()
		delete(r.held, name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blocked = 0 // the next look counts them
}

// webhooks returns all webhooks.
func (r *Runner) webhooks(ctx context.Context) (all []*pawl.Webhook, err error) {
	const page = 100
	for before := rowkey.Webhook(0); ; {
		list, err := r.Source.Webhooks(ctx, before, page)
		if err != nil || len(list) == 0 {
			return all, err
		}
		all, before = append(all, list...), list[len(list)-1].Key()
	}
}

// adjust begins and ends lines so that each active webhook that is this process's to deliver has one,
// with its present secrets, URL and filter. It blocks those whose secrets nobody can decrypt.
func (r *Runner) adjust(ctx context.Context, all []*pawl.Webhook) (err error) {
	active, others, blocked := map[rowkey.Webhook]*pawl.Webhook{}, []*pawl.Webhook{}, 0
	for _, w := range all {
		switch {
		case w.State != lifecycle.WebhookActive:
		case r.held[nameOf(w)] != nil:
			active[w.Key()] = w
		case r.held[plainName] != nil && !slices.Contains(r.names(), nameOf(w)):
			others = append(others, w)
		}
	}
	r.endLines(func(l *line) bool {
		w := active[l.w.Key()]
		return w == nil || l.over() || !bytes.Equal(w.Secret, l.w.Secret) || !bytes.Equal(w.Former, l.w.Former) || !reflect.DeepEqual(w.WebhookTarget, l.w.WebhookTarget)
	})
	for key, w := range active {
		if r.lines[key] != nil {
			continue
		}
		secrets, fault := SecretsOf(r.Ring, w, time.Now())
		if fault != nil {
			blocked++
			err = errors.Join(err, r.block(ctx, w, fault.Error()))
			continue
		}
		r.begin(ctx, &line{r: r, w: w, secret: secrets, filter: w.Filter()})
	}
	n, fault := r.forsaken(ctx, others)
	r.mu.Lock()
	r.blocked = blocked + n
	r.mu.Unlock()
	return errors.Join(err, fault)
}

// forsaken blocks webhooks whose secrets are encrypted with keys that this process does not have, if
// no process with such a key has been there for as long as two looks are apart. It returns how many
// those are.
func (r *Runner) forsaken(ctx context.Context, others []*pawl.Webhook) (n int, err error) {
	alone := map[string]time.Time{}
	for _, w := range others {
		name := nameOf(w)
		since, seen := alone[name]
		if !seen {
			tended, fault := r.tended(ctx, name)
			if fault != nil {
				err = errors.Join(err, fault)
				continue
			}
			if since = r.alone[name]; tended {
				since = time.Time{}
			} else if since.IsZero() {
				since = time.Now()
			}
			alone[name] = since
		}
		if since.IsZero() || time.Since(since) < r.Look() {
			continue
		}
		n++
		if _, fault := SecretsOf(r.Ring, w, time.Now()); fault != nil {
			err = errors.Join(err, r.block(ctx, w, fault.Error()))
		}
	}
	r.alone = alone
	return n, err
}

// tended reports whether another process holds a name.
func (r *Runner) tended(ctx context.Context, name string) (bool, error) {
	release, err := r.Source.Hold(ctx, name, []byte(`{}`))
	if err == nil {
		release()
		return false, nil
	}
	var held *store.HeldError
	if errors.As(err, &held) {
		return true, nil
	}
	return false, err
}

// Elsewhere reports whether another process delivers a webhook whose key this one does not have.
func (r *Runner) Elsewhere(ctx context.Context, w *pawl.Webhook) (bool, error) {
	name := nameOf(w)
	if slices.Contains(r.names(), name) {
		return false, nil
	}
	return r.tended(ctx, name)
}

// begin begins a line.
func (r *Runner) begin(ctx context.Context, l *line) {
	ctx, l.end = context.WithCancel(ctx)
	l.done = make(chan struct{})
	r.mu.Lock()
	r.lines[l.w.Key()] = l
	r.mu.Unlock()
	r.running.Go(func() {
		defer r.Wake() // a webhook that was changed when it was to be disabled needs another line
		defer close(l.done)
		defer l.end()
		if err := l.run(ctx); errors.Is(err, store.ErrStale) {
			r.Log.Info("another process delivers the webhook now", "webhook", l.w.Name)
			r.mu.Lock()
			r.lost[nameOf(l.w)] = true
			r.mu.Unlock()
		}
	})
}

// endLines ends the lines that f selects, and waits until they have ended.
func (r *Runner) endLines(f func(*line) bool) {
	ended := map[rowkey.Webhook]*line{}
	for key, l := range r.lines {
		if f(l) {
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
}

// stats count attempts.
type stats struct{ delivered, failed atomic.Int64 }

// Stats are the figures of a runner.
type Stats struct {
	Delivered, Failed int64         // attempts
	Active            int           // webhooks that this process delivers
	Failing           int           // those whose last attempt has failed, or whose secrets cannot be decrypted
	Lag               time.Duration // the age of the oldest event that waits for its delivery; 0: none waits
}

// Stats returns the figures of the runner.
func (r *Runner) Stats() Stats {
	s := Stats{Delivered: r.stats.delivered.Load(), Failed: r.stats.failed.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Active, s.Failing = len(r.lines), r.blocked
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
