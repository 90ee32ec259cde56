package engine_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// ringOf returns a ring of made-up keys, one for each letter; empty: none. With "-" in front they only
// decrypt.
func ringOf(t *testing.T, letters string) *keyring.Ring {
	t.Helper()
	text := ""
	for _, c := range letters {
		if c == '-' {
			text += "plain\n"
			continue
		}
		text += hex.EncodeToString(bytes.Repeat([]byte{byte(c)}, keyring.KeySize)) + "\n"
	}
	if text == "" {
		return nil
	}
	r, err := keyring.Parse(text)
	must(t, err)
	return r
}

// sendingWith is sending with the keys of a ring.
func sendingWith(t *testing.T, s store.Store, letters string) *process {
	t.Helper()
	c := eager()
	c.Ring = ringOf(t, letters)
	return start(t, s, setup{handlers: easily, webhooks: c})
}

// keysOf returns the fingerprints of the keys with which the secrets of a webhook are encrypted.
func keysOf(t *testing.T, s store.Store, id pawl.ID) (secret, former string) {
	t.Helper()
	w, err := store.FindWebhook(t.Context(), s, id)
	must(t, err)
	if former = "none"; !keyring.IsNone(w.Former) {
		former = keyring.KeyOf(w.Former)
	}
	return keyring.KeyOf(w.Secret), former
}

func (p *process) reasons(id pawl.ID, event machine.Event) (reasons []string) {
	p.t.Helper()
	for _, entry := range p.trailOf(id.Public(pawl.WebhookPrefix)) {
		if entry.Event == event {
			reasons = append(reasons, entry.Reason)
		}
	}
	return reasons
}

// rotatedHook is hook with a secret that is rotated before anything is sent.
func (p *process) rotatedHook(name, url string) (id pawl.ID, first, second string) {
	p.t.Helper()
	id, first = p.hook(name, url, nil)
	must(p.t, moved(p.engine.MoveWebhook(p.t.Context(), id, lifecycle.WebhookPause, ann)))
	rotated, err := p.engine.RotateWebhook(p.t.Context(), id, ann)
	must(p.t, err)
	must(p.t, moved(p.engine.MoveWebhook(p.t.Context(), id, lifecycle.WebhookResume, ann)))
	return id, first, rotated.Secret
}

// formsOf returns the forms in which a secret could be written.
func formsOf(t *testing.T, secret string) [][]byte {
	t.Helper()
	text := strings.TrimPrefix(secret, "whsec_")
	raw, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return [][]byte{raw, []byte(strings.TrimRight(text, "=")), []byte(hex.EncodeToString(raw)), []byte(strings.ToUpper(hex.EncodeToString(raw)))}
}

// TestSecretsAreEncrypted: with a key, no file of the database has ever had a secret of a webhook:
// neither when it is made nor when it is rotated. What is sent is signed with it all the same. A
// webhook that is deleted has none any more (K6).
func TestSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p, r := sendingWith(t, db.open(), "a"), newReceiver(t)
		id, first, second := p.rotatedHook("w", r.url)
		p.ran()
		r.until("the job is sent", func(ids []string) bool { return len(ids) == 4 })
		if m := r.last(); !m.signed(first) || !m.signed(second) {
			t.Errorf("signed %s", m.signatures)
		}
		if d, err := p.engine.TestWebhook(t.Context(), id); err != nil || !d.Delivered || !r.last().signed(second) {
			t.Errorf("the test: %+v, %v", d, err)
		}
		key := ringOf(t, "a").First()
		if secret, former := keysOf(t, p.store, id); secret != key || former != key {
			t.Errorf("encrypted with %q and %q, want %s", secret, former, key)
		}
		for _, secret := range []string{first, second} {
			for _, form := range formsOf(t, secret) {
				db.lacks(form)
			}
		}
		must(t, moved(p.engine.MoveWebhook(t.Context(), id, lifecycle.WebhookDelete, ann)))
		if w, err := store.FindWebhook(t.Context(), p.store, id); err != nil || !keyring.IsNone(w.Secret) || !keyring.IsNone(w.Former) {
			t.Errorf("a deleted one has secrets: %v", err)
		}
	})
}

// lacks fails the test if a file of the database has some bytes: on PostgreSQL, if a row has.
func (db *database) lacks(text []byte) {
	db.t.Helper()
	if db.kind == "postgres" {
		for _, table := range []string{"webhook", "webhook_audit", "webhook_delivery", "webhook_place", "idempotency", "feed"} {
			for _, form := range []string{string(text), hex.EncodeToString(text)} {
				if !strings.ContainsFunc(form, func(c rune) bool { return c < ' ' || c > '~' }) {
					db.sql(fmt.Sprintf("do $$ begin if exists (select from %s t where t::text like '%%%s%%') then raise '%s has a secret'; end if; end $$", table, form, table))
				}
			}
		}
		return
	}
	for _, file := range []string{db.where, db.where + "-wal"} {
		b, err := os.ReadFile(file)
		must(db.t, err)
		if bytes.Contains(b, text) {
			db.t.Errorf("%s has the secret, as %q", filepath.Base(file), text)
		}
	}
}

// TestReadableSecrets are encrypted once a process has a key, also those of paused and disabled
// webhooks and the former ones; what is sent is signed with the same secrets (K6).
func TestReadableSecrets(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		p, r := startProcess(t, s, easily), newReceiver(t)
		id, first := p.hook("w", r.url, nil)
		rotated, err := p.engine.RotateWebhook(t.Context(), id, ann)
		must(t, err)
		paused, other := p.hook("paused", r.url, nil)
		must(t, moved(p.engine.MoveWebhook(t.Context(), paused, lifecycle.WebhookPause, ann)))
		if secret, former := keysOf(t, s, id); secret != "" || former != "" {
			t.Errorf("without a key encrypted with %q and %q", secret, former)
		}

		q := sendingWith(t, s, "a")
		key := ringOf(t, "a").First()
		until(t, "all are encrypted", func() bool {
			secret, former := keysOf(t, s, id)
			kept, none := keysOf(t, s, paused)
			return secret == key && former == key && kept == key && none == "none"
		})
		q.ran()
		r.until("a job is sent", func(ids []string) bool { return len(ids) == 4 })
		if m := r.last(); !m.signed(first) || !m.signed(rotated.Secret) {
			t.Errorf("signed %s", m.signatures)
		}
		if d, err := q.engine.TestWebhook(t.Context(), paused); err != nil || !d.Delivered || !r.last().signed(other) {
			t.Errorf("a test of the paused one: %+v, %v", d, err)
		}
		want := []string{"its secrets are encrypted with key " + key + "; they were stored as they are"}
		for _, id := range []pawl.ID{id, paused} {
			if got := q.reasons(id, lifecycle.WebhookEncrypt); !slices.Equal(got, want) {
				t.Errorf("the trail has %q, want %q", got, want)
			}
		}
		if f, err := verified(s, 0); f != nil || err != nil {
			t.Errorf("%v, %v", f, err)
		}
	})
}

// TestKeyRotation: while jobs run and their events are sent, a new key comes first, servers are
// restarted one after the other, and the old key goes: everything is sent, in order, with the right
// signature, and in the end nothing needs the old key (K6).
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		r := newReceiver(t)
		servers := []*process{sendingWith(t, db.open(), "a"), sendingWith(t, db.open(), "a")}
		id, first, second := servers[0].rotatedHook("w", r.url)
		worker := startProcess(t, db.open(), easily)
		var want []string
		for _, letters := range []string{"ab", "ba", "b"} {
			for i := range servers {
				want = append(want, moves(worker.ran())...)
				servers[i].stop()
				servers[i] = sendingWith(t, db.open(), letters)
				want = append(want, moves(worker.ran())...)
			}
			until(t, "the first key encrypts", func() bool {
				now, former := keysOf(t, worker.store, id)
				key := ringOf(t, letters).First()
				return now == key && former == key
			})
		}
		want = append(want, moves(worker.ran())...)
		r.until("all is sent", func(ids []string) bool { return len(ids) > 0 && ids[len(ids)-1] == want[len(want)-1] })
		if got := once(r.list()); !slices.Equal(got, want) {
			t.Errorf("sent %v\nwant %v", got, want)
		}
		for _, m := range r.got {
			if !m.signed(first) || !m.signed(second) {
				t.Errorf("%s is signed %s", m.id, m.signatures)
			}
		}
		if got := worker.reasons(id, lifecycle.WebhookEncrypt); len(got) != 1 {
			t.Errorf("the trail has %q: want one change of the key, though servers differed in their order", got)
		}
		if got := worker.reasons(id, lifecycle.WebhookBlock); len(got) != 0 {
			t.Errorf("the trail has %q", got)
		}
	})
}

// blockedBy waits until a webhook is blocked, and returns the reason.
func (p *process) blockedBy(id pawl.ID) string {
	p.t.Helper()
	var v *pawl.WebhookView
	until(p.t, "the webhook is blocked", func() bool {
		var err error
		v, err = p.engine.Webhook(p.t.Context(), id)
		must(p.t, err)
		return v.FailingSince != 0 && v.Failures == 0 && v.Status == lifecycle.WebhookActive && p.engine.WebhookStats().Failing == 1
	})
	return v.Error
}

// TestWrongKey: a webhook whose key no process has is not sent to, its trail has the reason once, and
// another one goes on. Errors name the key. Once a process has the key it goes on where it was (K6).
func TestWrongKey(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s, ctx := db.open(), t.Context()
		r, plain := newReceiver(t), newReceiver(t)
		maker := startProcess(t, s, easily)
		maker.hook("plain", plain.url, nil)
		c := eager()
		c.Ring = ringOf(t, "b")
		keyed := &process{t: t, store: s, engine: engine.New(engine.Config{Store: s, Webhooks: *c})} // it delivers nothing, and encrypts only what it makes
		id, secret := keyed.hook("w", r.url, nil)
		keyed.stop()

		want := []string{}
		var jobs []string
		for _, letters := range []string{"", "c", "c"} {
			p := sendingWith(t, db.open(), letters)
			jobs = append(jobs, p.ran())
			why := "webhook w: the secret is encrypted with key " + ringOf(t, "b").First() + "; this process has no key"
			if letters != "" {
				why = strings.Replace(why, "no key", ringOf(t, letters).First(), 1)
			}
			until(t, fmt.Sprintf("with the keys %q it is blocked, and says why: %s", letters, why), func() bool {
				return p.blockedBy(id) == why // at first it has the reason of the process before
			})
			if !slices.Contains(want, why) {
				want = append(want, why)
			}
			last := moves(jobs[len(jobs)-1])[3]
			plain.until("the other webhook goes on", func(ids []string) bool { return slices.Contains(ids, last) })
			if _, err := p.engine.TestWebhook(ctx, id); pawl.KindOf(err) != pawl.Conflict || err.Error() != why {
				t.Errorf("a test: %v", err)
			}
			p.stop()
		}
		if got := maker.reasons(id, lifecycle.WebhookBlock); !slices.Equal(got, want) {
			t.Errorf("the trail has %q, want %q", got, want)
		}
		if len(r.got) != 0 {
			t.Errorf("%d requests without the secret", len(r.got))
		}

		p := sendingWith(t, db.open(), "cb")
		var sent []string
		for _, job := range jobs {
			sent = append(sent, moves(job)...)
		}
		r.until("it goes on where it was", func(ids []string) bool { return len(ids) >= len(sent) })
		if got := r.list(); !slices.Equal(got, sent) || !r.last().signed(secret) {
			t.Errorf("sent %v, want %v, signed %s", got, sent, r.last().signatures)
		}
		until(t, "it is no more blocked", func() bool {
			v, err := p.engine.Webhook(ctx, id)
			must(t, err)
			return v.FailingSince == 0 && v.Error == ""
		})
	})
}

// TestServersWithAndWithoutAKey: the one that has the key delivers, whichever was first. The one that
// does not refuses to store a secret as it is, and says why it cannot send (K6).
func TestServersWithAndWithoutAKey(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		ctx := t.Context()
		without, r := sending(t, db.open()), newReceiver(t)
		id, secret := without.hook("w", r.url, nil)
		want := moves(without.ran())
		r.until("it delivers without a key", func(ids []string) bool { return len(ids) == 4 })
		key := ringOf(t, "a").First()
		for range 2 {
			with := sendingWith(t, db.open(), "a")
			until(t, "the one with the key delivers", func() bool {
				return with.engine.WebhookStats().Active == 1 && without.engine.WebhookStats().Active == 0
			})
			if now, _ := keysOf(t, with.store, id); now != key {
				t.Errorf("the secret is encrypted with %q", now)
			}
			want = append(want, moves(without.ran())...)
			r.until("all is sent", func(ids []string) bool { return slices.Contains(ids, want[len(want)-1]) })

			plan := pawl.WebhookPlan{Name: "x", WebhookTarget: pawl.WebhookTarget{URL: r.url}}
			for what, do := range map[string]func() error{
				"rotate": func() error { _, err := without.engine.RotateWebhook(ctx, id, ann); return err },
				"create": func() error { _, err := without.engine.CreateWebhook(ctx, plan, ann); return err },
				"test":   func() error { _, err := without.engine.TestWebhook(ctx, id); return err },
			} {
				want := "this process has no key, and secrets in the database are encrypted: it would store the new one as it is"
				if what == "test" {
					want = "webhook w: the secret is encrypted with key " + key + "; this process has no key"
				}
				if err := do(); pawl.KindOf(err) != pawl.Conflict || err.Error() != want { // w may be of another workspace
					t.Errorf("%s without the key: %v", what, err)
				}
			}
			with.stop()
			if why := without.blockedBy(id); !strings.Contains(why, key) {
				t.Errorf("blocked by %q", why)
			}
			want = append(want, moves(without.ran())...)
		}
		sendingWith(t, db.open(), "a")
		r.until("the rest is sent", func(ids []string) bool { return slices.Contains(ids, want[len(want)-1]) })
		if got := once(r.list()); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		for _, m := range r.got {
			if !m.signed(secret) {
				t.Errorf("%s is signed %s", m.id, m.signatures)
			}
		}
	})
}

// TestTheWayBack: servers whose keys only decrypt store secrets as they are again, one server after the
// other; then none needs a key. They make webhooks beside one whose key is lost (K6).
func TestTheWayBack(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		ctx, r := t.Context(), newReceiver(t)
		servers := []*process{sendingWith(t, db.open(), "a"), sendingWith(t, db.open(), "a")}
		id, first, second := servers[0].rotatedHook("w", r.url)
		worker := startProcess(t, db.open(), easily)
		want := moves(worker.ran())
		for _, letters := range []string{"-a", ""} {
			for i := range servers {
				servers[i].stop()
				servers[i] = sendingWith(t, db.open(), letters)
				want = append(want, moves(worker.ran())...)
			}
			until(t, "the secrets are stored as they are", func() bool {
				secret, former := keysOf(t, worker.store, id)
				return secret == "" && former == ""
			})
		}
		want = append(want, moves(worker.ran())...)
		r.until("all is sent", func(ids []string) bool { return slices.Contains(ids, want[len(want)-1]) })
		if got := once(r.list()); !slices.Equal(got, want) || !r.last().signed(first) || !r.last().signed(second) {
			t.Errorf("sent %v, want %v, signed %s", got, want, r.last().signatures)
		}
		reasons := []string{"its secrets are stored as they are; they were encrypted with key " + ringOf(t, "a").First()}
		if got := worker.reasons(id, lifecycle.WebhookEncrypt); !slices.Equal(got, reasons) {
			t.Errorf("the trail has %q, want %q", got, reasons)
		}
		if got := worker.reasons(id, lifecycle.WebhookBlock); len(got) != 0 {
			t.Errorf("the trail has %q", got)
		}

		lost := sendingWith(t, db.open(), "l")
		lost.hook("lost", r.url, nil)
		lost.stop()
		plan := pawl.WebhookPlan{Name: "x", WebhookTarget: pawl.WebhookTarget{URL: r.url}}
		if _, err := sendingWith(t, db.open(), "-").engine.CreateWebhook(ctx, plan, ann); err != nil {
			t.Errorf("beside a lost key: %v", err)
		}
	})
}

// TestRotateWithAnotherKey: a server that lacks the key of a webhook does not replace its secret while
// another server has the key, since the former one would not sign any more. Once nobody has it, the
// key is lost, and the secret can be replaced (K6).
func TestRotateWithAnotherKey(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		ctx, r := t.Context(), newReceiver(t)
		right := sendingWith(t, db.open(), "a")
		id, secret := right.hook("w", r.url, nil)
		until(t, "it delivers", func() bool { return right.engine.WebhookStats().Active == 1 })
		wrong := sendingWith(t, db.open(), "b")
		key := ringOf(t, "a").First()
		want := "the secret of webhook w is encrypted with key " + key + ", which another process has and this one does not: rotated here, the former secret would be lost at once"
		if _, err := wrong.engine.RotateWebhook(ctx, id, ann); pawl.KindOf(err) != pawl.Conflict || err.Error() != want {
			t.Errorf("with another key: %v", err)
		}
		rotated, err := right.engine.RotateWebhook(ctx, id, ann)
		must(t, err)
		right.ran()
		r.until("it is sent", func(ids []string) bool { return len(ids) == 4 })
		if m := r.last(); !m.signed(secret) || !m.signed(rotated.Secret) {
			t.Errorf("signed %s", m.signatures)
		}
		right.stop()
		_, err = wrong.engine.RotateWebhook(ctx, id, ann)
		must(t, err)
		if now, former := keysOf(t, wrong.store, id); now != ringOf(t, "b").First() || former != "none" {
			t.Errorf("encrypted with %q and %q", now, former)
		}
	})
}

// once returns a list without what comes again.
func once(list []string) (first []string) {
	for _, s := range list {
		if !slices.Contains(first, s) {
			first = append(first, s)
		}
	}
	return first
}

// TestTamperedSecrets: a ciphertext that was changed, cut, or moved from another webhook is never
// signed with: that webhook is blocked, and says so, and the other one goes on. Rotating its secret
// makes it whole (K6).
func TestTamperedSecrets(t *testing.T) {
	t.Parallel()
	byKind := map[string]map[string]string{
		"sqlite": {
			"changed": "update webhook set secret = cast(substr(secret, 1, length(secret) - 1) || x'00' as blob) where name = 'w' and state = 'active'",
			"cut":     "update webhook set secret = substr(secret, 1, 40) where name = 'w' and state = 'active'",
			"none":    "update webhook set secret = zeroblob(32) where name = 'w' and state = 'active'",
			"moved":   "update webhook set secret = (select secret from webhook where name = 'other' and state = 'active') where name = 'w' and state = 'active'",
		},
		"postgres": {
			"changed": "update webhook set secret = set_byte(secret, 68, 255 - get_byte(secret, 68)) where name = 'w' and state = 'active'",
			"cut":     "update webhook set secret = substr(secret, 1, 40) where name = 'w' and state = 'active'",
			"none":    "update webhook set secret = decode(repeat('00', 32), 'hex') where name = 'w' and state = 'active'",
			"moved":   "update webhook set secret = (select secret from webhook where name = 'other' and state = 'active') where name = 'w' and state = 'active'",
		},
	}
	onShared(t, func(t *testing.T, db *database) {
		for what, statement := range byKind[db.kind] {
			maker, r, other := sendingWith(t, db.open(), "a"), newReceiver(t), newReceiver(t)
			id, _ := maker.hook("w", r.url, nil)
			fine, _ := maker.hook("other", other.url, nil)
			maker.stop()
			db.sql(statement)

			p := sendingWith(t, db.open(), "a")
			job := p.ran()
			why := p.blockedBy(id)
			if want := "the secret cannot be decrypted with key " + ringOf(t, "a").First(); !strings.Contains(why, want) && (what != "none" || why != "webhook w: there is no secret") {
				t.Errorf("%s: blocked by %q", what, why)
			}
			other.until("the other one goes on", func(ids []string) bool { return slices.Contains(ids, moves(job)[3]) })
			if len(r.got) != 0 {
				t.Errorf("%s: %d requests", what, len(r.got))
			}
			rotated, err := p.engine.RotateWebhook(t.Context(), id, ann)
			must(t, err)
			r.until("it goes on with another secret", func(ids []string) bool { return slices.Equal(ids, moves(job)) })
			if m := r.last(); !m.signed(rotated.Secret) || len(strings.Fields(m.signatures)) != 1 {
				t.Errorf("%s: signed %s", what, m.signatures)
			}
			for _, id := range []pawl.ID{id, fine} {
				must(t, moved(p.engine.MoveWebhook(t.Context(), id, lifecycle.WebhookDelete, ann)))
			}
			p.stop()
		}
	})
}
