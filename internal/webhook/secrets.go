package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/keyring"
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

// Encrypted are the secrets of a webhook, encrypted with the first key of a ring.
type Encrypted struct{ Secret, Former []byte }

// outdated reports whether a secret of a webhook is not encrypted with the first key of the ring,
// if that has one.
func (r *Runner) outdated(w *pawl.Webhook) bool {
	first := r.Ring.First()
	return first != "" && (keyring.KeyOf(w.Secret) != first || keyring.KeyOf(w.Former) != first && !keyring.IsNone(w.Former))
}

// encrypted returns the secrets of a webhook encrypted with the first key. A former one that signs
// no more is dropped.
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

// encrypt encrypts the secrets of the webhooks that this process can decrypt with its first key, and
// reports whether it has changed any. The line of such a webhook ends first: the process that holds
// the name of that key sends what is left.
func (r *Runner) encrypt(ctx context.Context, all []*pawl.Webhook) (changed bool, err error) {
	for _, w := range all {
		if lifecycle.Webhook.Ended(w.State) || !r.outdated(w) {
			continue
		}
		e, fault := r.encrypted(w, time.Now())
		if fault != nil {
			continue // a block says so, if it is active
		}
		r.endLines(func(l *line) bool { return l.w.Key() == w.Key() })
		before := "were stored as they are"
		if k := keyring.KeyOf(w.Secret); k != "" {
			before = "were encrypted with key " + k
		}
		fault = r.Encrypt(ctx, w.ID, w.Version(), e, fmt.Sprintf("its secrets are encrypted with key %s; they %s", r.Ring.First(), before))
		switch {
		case fault == nil:
			changed = true
		case pawl.KindOf(fault) != pawl.Conflict: // else it has changed: the next look sees it
			err = errors.Join(err, fault)
		}
	}
	return changed, err
}

// blocked reports whether the place is that of a webhook whose secrets could not be decrypted.
func blocked(p *store.WebhookPlace) bool { return p.FailingSince != 0 && p.Failures == 0 }

// block records, once, that nothing is sent to a webhook, and why.
func (r *Runner) block(ctx context.Context, w *pawl.Webhook, why string) error {
	p, err := r.Source.WebhookPlace(ctx, w.Key())
	if err != nil || blocked(&p) && p.Error == why {
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
