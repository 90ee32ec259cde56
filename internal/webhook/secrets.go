package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Secrets are those of a webhook, decrypted.
type Secrets struct {
	secret, former [keyring.SecretSize]byte
	until          int64 // until when the former one signs, too
}

// SecretsOf decrypts the secrets of a webhook that count at a time. The error names the webhook and
// the key, and has nothing of a secret.
func SecretsOf(r *keyring.Ring, w *pawl.Webhook, now time.Time) (s Secrets, err error) {
	if s.secret, err = r.Decrypt(w.ID, w.Secret); err == nil && now.UnixMicro() < w.FormerUntil {
		s.until = w.FormerUntil
		s.former, err = r.Decrypt(w.ID, w.Former)
	}
	if err != nil {
		return Secrets{}, fmt.Errorf("webhook %s: %w", w.Name, err)
	}
	return s, nil
}

// Encrypted are the secrets of a webhook as a ring stores them.
type Encrypted struct{ Secret, Former []byte }

// outdated reports whether a secret of a webhook is not stored as the ring stores it.
func (r *Runner) outdated(w *pawl.Webhook) bool {
	other := func(stored []byte) bool {
		return !keyring.IsNone(stored) && keyring.KeyOf(stored) != r.Ring.First()
	}
	return r.Ring.Given() && (other(w.Secret) || other(w.Former))
}

// encrypted returns the secrets of a webhook as the ring stores them. A former one that signs no more
// is dropped.
func (r *Runner) encrypted(w *pawl.Webhook, now time.Time) (e Encrypted, err error) {
	s, err := SecretsOf(r.Ring, w, now)
	if err != nil {
		return e, err
	}
	e = Encrypted{r.Ring.Encrypt(w.ID, s.secret), keyring.None()}
	if s.until != 0 {
		e.Former = r.Ring.Encrypt(w.ID, s.former)
	}
	return e, nil
}

// encrypt stores the secrets of the webhooks that this process can decrypt as its ring does, and reports
// whether it has changed any. The lines of such webhooks end first, all at once, since each may wait for
// its receiver: the process that holds the name of the new key sends what is left.
func (r *Runner) encrypt(ctx context.Context, all []*pawl.Webhook) (changed bool, err error) {
	next := map[rowkey.Webhook]Encrypted{}
	for _, w := range all {
		if lifecycle.Webhook.Ended(w.State) || !r.outdated(w) {
			continue
		}
		if e, fault := r.encrypted(w, time.Now()); fault == nil { // else a block says so, if it is active
			next[w.Key()] = e
		}
	}
	r.endLines(func(l *line) bool { _, ends := next[l.w.Key()]; return ends })
	for _, w := range all {
		e, ok := next[w.Key()]
		if !ok {
			continue
		}
		fault := r.Encrypt(ctx, w.ID, w.Version(), e, fmt.Sprintf("its secrets are %s; they were %s", stored(r.Ring.First()), stored(keyring.KeyOf(w.Secret))))
		switch {
		case fault == nil:
			changed = true
		case pawl.KindOf(fault) != pawl.Conflict: // else it has changed: the next look sees it
			err = errors.Join(err, fault)
		}
	}
	return changed, err
}

// stored says in words how secrets are stored with a key; empty: without one.
func stored(key string) string {
	if key == "" {
		return "stored as they are"
	}
	return "encrypted with key " + key
}

// block records that nothing is sent to a webhook, and why: once, and again only if the place could not
// be saved. The receiver did not fail meanwhile, so the time after which it is given up begins anew.
func (r *Runner) block(ctx context.Context, w *pawl.Webhook, why string) error {
	p, err := r.Source.WebhookPlace(ctx, w.Key())
	if err != nil || p.Blocked() && p.Error == why {
		return err
	}
	r.Log.Warn("nothing is sent to a webhook", "webhook", w.Name, "reason", why)
	if _, err := r.Move(ctx, w.ID, 0, lifecycle.WebhookBlock, why); err != nil {
		if pawl.KindOf(err) == pawl.Conflict {
			return nil // it is not active any more
		}
		return err
	}
	p.FailingSince, p.Failures, p.Error = time.Now().UnixMicro(), 0, why
	if err := r.Source.SaveWebhook(ctx, w.Key(), &p, nil); !errors.Is(err, store.ErrStale) {
		return err
	}
	return nil // another process delivers it by now
}
