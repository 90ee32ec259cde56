package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const (
	saveEvery  = time.Second      // at most so late what was delivered is saved
	placeEvery = 30 * time.Second // and a place behind which nothing was delivered
	again      = time.Second      // after which what the database has refused is tried again
)

// A line delivers the events of one webhook. Only its goroutine uses it, but for what is atomic.
type line struct {
	r      *Runner
	w      *pawl.Webhook
	secret Secrets // its
	filter pawl.EventFilter
	end    context.CancelFunc
	done   chan struct{}

	raised int64 // the version of the webhook, if the line itself has moved it; 0: that of w

	place   store.WebhookPlace
	sent    map[string]int64 // by entity, the last of its moves delivered since the place has moved
	pending []store.Delivery // not saved yet
	moved   bool             // the place is not saved yet
	saved   time.Time

	failing atomic.Bool
	waits   atomic.Int64 // the time of the event that is being delivered; 0: none
}

// version returns the version of the webhook that has the URL and the secret that the line uses.
func (l *line) version() int64 { return cmp.Or(l.raised, l.w.Version()) }

// over reports whether the line has ended.
func (l *line) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

var (
	errBehind   = errors.New("the reader was overtaken")
	errDisabled = errors.New("the webhook is disabled, or was changed")
)

// run delivers until ctx ends, or the webhook is disabled or was changed. The error is store.ErrStale if
// another process delivers the webhook.
func (l *line) run(ctx context.Context) error {
	defer l.saveLast(ctx)
	if err := l.begin(ctx); err != nil {
		return err
	}
	for {
		err := l.follow(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errDisabled), errors.Is(err, store.ErrStale):
			return err
		case errors.Is(err, errBehind): // the feed still has what the ring has lost
			continue
		}
		l.r.Log.Warn("a webhook does not go on; it is tried again", "webhook", l.w.Name, "error", err)
		sleep.For(ctx, again)
	}
}

// begin reads how far the webhook has come.
func (l *line) begin(ctx context.Context) error {
	key := l.w.Key()
	return l.insist(ctx, func() error {
		place, err := l.r.Source.WebhookPlace(ctx, key)
		if err != nil {
			return err
		}
		messages, err := l.r.Source.Delivered(ctx, key, place.Moved)
		if err != nil {
			return err
		}
		l.place, l.saved, l.sent = place, time.Now(), map[string]int64{}
		l.place.Token = cmp.Or(place.Token, l.w.Begin)
		if place.Blocked() { // not any more
			l.place.FailingSince, l.place.Error = 0, ""
			l.moved, l.saved = true, time.Time{}
		}
		l.failing.Store(place.Failures > 0)
		for _, m := range messages {
			l.note(m)
		}
		return nil
	})
}

// note notes that a message was delivered.
func (l *line) note(message string) {
	if i := strings.LastIndexByte(message, '_'); i >= 0 {
		n, _ := strconv.ParseInt(message[i+1:], 10, 64) // it has one, if it is about an event
		l.sent[message[:i]] = max(l.sent[message[:i]], n)
	}
}

// insist does something until it succeeds, ctx ends, or another process delivers.
func (l *line) insist(ctx context.Context, do func() error) error {
	for failed := false; ; failed = true {
		err := do()
		if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrStale) {
			return err
		}
		if !failed {
			l.r.Log.Warn("a webhook waits for the database", "webhook", l.w.Name, "error", err)
		}
		sleep.For(ctx, again)
	}
}

// follow delivers what the feed has behind the place.
func (l *line) follow(ctx context.Context) error {
	stream, err := l.r.Events.Open(ctx, l.place.Token)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		wait, cancel := context.WithTimeout(ctx, saveEvery)
		b, err := stream.Next(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			err = l.pass(ctx, b)
		case ctx.Err() == nil && quiet:
			l.advance(stream.Token())
			err = nil
		}
		if err == nil {
			err = l.saveSometimes(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// pass delivers a batch.
func (l *line) pass(ctx context.Context, b *feed.Batch) error {
	if b.Notice == pawl.EventGap {
		if b.Gap == store.GapBehind {
			return errBehind
		}
		if err := l.gap(ctx, b.Gap); err != nil {
			return err
		}
	}
	for _, e := range b.Select(&l.filter) {
		// What is before a move that was delivered was delivered, too, or not selected then.
		if e.Sequence <= l.sent[e.Entity] {
			continue
		}
		if err := l.deliver(ctx, messageOf(e), int64(e.At)); err != nil {
			return err
		}
	}
	l.advance(b.Token)
	return nil
}

// gap records that events are missing, and tells the receiver.
func (l *line) gap(ctx context.Context, reason string) error {
	l.r.Log.Warn("events of a webhook are missing", "webhook", l.w.Name, "reason", reason)
	version, err := l.move(ctx, 0, lifecycle.WebhookGap, "events are missing: "+reason)
	if err != nil {
		return err
	}
	if version == l.version()+1 { // nobody else has changed it since it was read
		l.raised = version
	}
	now := time.Now()
	l.place.GapAt, l.place.Gap = now.UnixMicro(), reason
	return l.deliver(ctx, gapOf(l.w, l.place.Moved, reason, now), now.UnixMicro())
}

// move moves the webhook, unless its state has no such move any more, or it has another version; 0 is
// any. It returns the version that it has then; 0: it was not moved.
func (l *line) move(ctx context.Context, version int64, event machine.Event, reason string) (now int64, err error) {
	err = l.insist(ctx, func() error {
		now, err = l.r.Move(ctx, l.w.ID, version, event, reason)
		if err != nil && pawl.KindOf(err) == pawl.Conflict {
			return nil
		}
		return err
	})
	return now, err
}

// advance sets the place behind what was delivered; without a token it stays.
func (l *line) advance(token string) {
	if token != "" && token != l.place.Token {
		l.place.Token, l.moved = token, true
		l.place.Moved++
		clear(l.sent)
	}
}

// deliver sends a message until the receiver has taken it, or is given up.
func (l *line) deliver(ctx context.Context, m Message, at int64) error {
	l.waits.Store(at)
	defer l.waits.Store(0)
	for attempt := 1; ; attempt++ {
		result := l.send(ctx, m)
		if ctx.Err() != nil && !result.Delivered {
			return ctx.Err()
		}
		d := result.delivery(m)
		d.Attempt, d.Moved = attempt, l.place.Moved
		l.pending = append(l.pending, d)
		l.failing.Store(!result.Delivered)
		if result.Delivered {
			l.r.stats.delivered.Add(1)
			l.note(m.ID)
			l.place.FailingSince, l.place.Failures, l.place.Error = 0, 0, ""
			return l.saveSometimes(ctx)
		}
		l.r.stats.failed.Add(1)
		if err := l.failed(ctx, &result); err != nil {
			return err
		}
		if !sleep.For(ctx, l.r.backoff(l.place.Failures)) {
			return ctx.Err()
		}
	}
}

// linger is how long a message that is under way may take when its line ends.
const linger = time.Second

// send sends a message. If ctx ends meanwhile, as when the webhook is paused, the receiver still has
// linger to take it: otherwise it might take it, and get it again.
func (l *line) send(ctx context.Context, m Message) Result {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(linger, cancel) })
	defer stop()
	return l.r.Sender.Send(within, l.w, &l.secret, m)
}

// failed counts a failed attempt, and gives a receiver up that says so or has failed for long.
func (l *line) failed(ctx context.Context, result *Result) error {
	p := &l.place
	now := result.At.UnixMicro()
	p.FailingSince, p.Failures, p.Error = cmp.Or(p.FailingSince, now), p.Failures+1, result.Error
	if err := l.save(ctx); err != nil {
		return err
	}
	why := ""
	switch since := max(p.FailingSince, l.w.UpdatedAt); {
	case result.Status == http.StatusGone:
		why = result.Error
	case now-since >= l.r.GiveUp.Microseconds():
		why = fmt.Sprintf("every attempt has failed for %s; the last one: %s", l.r.GiveUp, result.Error)
	default:
		return nil
	}
	version, err := l.move(ctx, l.version(), lifecycle.WebhookDisable, why)
	if err != nil {
		return err
	}
	if version != 0 {
		l.r.Log.Warn("a webhook is disabled", "webhook", l.w.Name, "reason", why)
	}
	return errDisabled
}

// backoff returns how long to wait after so many failures in a row: from half of the time to
// all of it.
func (r *Runner) backoff(failures int) time.Duration {
	most := float64(r.First) * math.Pow(2, float64(failures-1))
	return time.Duration(min(most, float64(r.Most)) * (0.5 + r.Jitter()/2))
}

// saveSometimes saves what is due to be saved.
func (l *line) saveSometimes(ctx context.Context) error {
	since := time.Since(l.saved)
	if len(l.pending) > 0 && since >= saveEvery || l.moved && since >= placeEvery {
		return l.save(ctx)
	}
	return nil
}

// save saves the place with what was delivered.
func (l *line) save(ctx context.Context) error {
	err := l.insist(ctx, func() error { return l.r.Source.SaveWebhook(ctx, l.w.Key(), &l.place, l.pending) })
	if err == nil {
		l.pending, l.moved, l.saved = nil, false, time.Now()
	}
	return err
}

// saveLast saves what is left when the line ends.
func (l *line) saveLast(ctx context.Context) {
	if len(l.pending) == 0 && !l.moved {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := l.r.Source.SaveWebhook(ctx, l.w.Key(), &l.place, l.pending); err != nil && !errors.Is(err, store.ErrStale) {
		l.r.Log.Warn("how far a webhook has come is not saved; some events are sent again", "webhook", l.w.Name, "error", err)
	}
}

// delivery returns what is kept of an attempt.
func (r *Result) delivery(m Message) store.Delivery {
	return store.Delivery{Message: m.ID, Type: m.Type, At: r.At.UnixMicro(), Duration: r.Duration, Status: r.Status, Delivered: r.Delivered, Error: r.Error, Body: m.Body}
}

// Requested returns what is kept of an attempt that somebody has asked for.
func (r *Result) Requested(m Message) store.Delivery {
	d := r.delivery(m)
	d.Moved = -1
	return d
}
