package engine

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/keyring"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// FormerSecret is how long the secret before the last one signs, too.
const FormerSecret = 24 * time.Hour

// How many webhooks there may be that are not deleted. Each reads the feed by itself.
const (
	MaxWebhooks          = 1000 // in all
	MaxWorkspaceWebhooks = 100  // of one workspace; those of all workspaces count as if of one
)

// checkRoom refuses another webhook of a workspace if there are too many, or if its secret would be
// the only one that is not encrypted. Requests at the same moment may exceed the limits by their
// number.
func (e *Engine) checkRoom(ctx context.Context, workspace string) error {
	all, same := 0, 0
	for before := rowkey.Webhook(0); ; {
		page, err := e.store.Webhooks(ctx, before, MaxWebhooks)
		if err != nil {
			return err
		}
		for _, w := range page {
			before = w.Key()
			if lifecycle.Webhook.Ended(w.State) {
				continue
			}
			if err := keepEncrypted(w, e.ring()); err != nil {
				return err
			}
			all++
			if w.Workspace == workspace {
				same++
			}
		}
		switch {
		case same >= MaxWorkspaceWebhooks:
			return tooManyWebhooks(fmt.Sprintf("workspace %q has %d webhooks: want at most %d", workspace, same, MaxWorkspaceWebhooks))
		case all >= MaxWebhooks:
			return tooManyWebhooks(fmt.Sprintf("there are %d webhooks: want at most %d", all, MaxWebhooks))
		case len(page) < MaxWebhooks:
			return nil
		}
	}
}

func tooManyWebhooks(message string) error {
	return &pawl.Error{Kind: pawl.Conflict, Message: message, Hint: "delete one that nobody needs with: pawl webhook delete NAME"}
}

// checkWebhookPlan returns the first fault of a plan. The id of its job is in its canonical form
// then.
func (e *Engine) checkWebhookPlan(ctx context.Context, p *pawl.WebhookPlan) error {
	if !scheduleName.MatchString(p.Name) {
		return pawl.Errorf(pawl.Invalid, "name of a webhook: %q: want letters, 0-9, . _ and -, no sign first, at most 128", p.Name)
	}
	if err := checkWorkspace(p.Workspace); p.Workspace != "" && err != nil {
		return err
	}
	return e.checkTarget(ctx, p.Workspace, &p.WebhookTarget)
}

// checkTarget is checkWebhookPlan for what can be changed of a webhook of a workspace.
func (e *Engine) checkTarget(ctx context.Context, workspace string, p *pawl.WebhookTarget) error {
	if _, err := webhook.CheckURL(p.URL); err != nil {
		return err
	}
	for _, name := range p.Machines {
		if !slices.Contains(pawl.WebhookMachines, name) {
			return pawl.Errorf(pawl.Invalid, "machine %q: want %s", name, strings.Join(pawl.WebhookMachines, ", "))
		}
	}
	filter := pawl.EventFilter{Workspace: workspace, Job: p.Job, Machines: p.Machines, Events: p.Events}
	if len(filter.Machines) == 0 {
		filter.Machines = pawl.WebhookMachines
	}
	if err := filter.Check(); err != nil || p.Job == "" {
		return err
	}
	id, err := pawl.ParseID(pawl.JobPrefix, p.Job)
	if err == nil {
		p.Job = id.Public(pawl.JobPrefix)
		_, err = store.FindJob(ctx, e.store, id)
	}
	return err
}

// CreateWebhook makes a webhook for what is committed from now on. Its secret is in the result,
// and is not shown again: for a request that was carried out before, the error is
// link.ErrSecretShown. A name that a webhook of the workspace has is a Conflict.
func (e *Engine) CreateWebhook(ctx context.Context, p pawl.WebhookPlan, c pawl.Change) (pawl.NewWebhook, error) {
	if err := checkChange(c); err != nil {
		return pawl.NewWebhook{}, err
	}
	if err := e.checkWebhookPlan(ctx, &p); err != nil {
		return pawl.NewWebhook{}, err
	}
	r, err := e.newRequest(c, p.Workspace, "POST /api/webhooks", p)
	if err != nil {
		return pawl.NewWebhook{}, err
	}
	if _, done, err := r.earlier(ctx); err != nil {
		return pawl.NewWebhook{}, err
	} else if !done {
		if err := e.checkRoom(ctx, p.Workspace); err != nil {
			return pawl.NewWebhook{}, err
		}
	}
	now, err := e.store.Since(ctx, store.FeedToken{}, 1)
	if err != nil {
		return pawl.NewWebhook{}, err
	}
	cmd := &createWebhook{e: e, plan: p, begin: now.Token.String(), note: noteOf(c)}
	cmd.renew()
	receipt, err := e.act(ctx, r, cmd, c)
	return newSecret(receipt, &cmd.secret, err)
}

// newSecret returns the result of a command that has made a secret.
func newSecret(r pawl.Receipt, secret *[32]byte, err error) (pawl.NewWebhook, error) {
	switch {
	case err != nil:
		return pawl.NewWebhook{}, err
	case r.Replayed:
		return pawl.NewWebhook{}, link.WebhookSecretShown(r.ID)
	}
	return pawl.NewWebhook{Receipt: r, Secret: webhook.SecretText(*secret)}, nil
}

type createWebhook struct {
	e      *Engine
	id     pawl.ID
	secret [keyring.SecretSize]byte
	plan   pawl.WebhookPlan
	begin  string
	note   decide.Note
}

func (c *createWebhook) subject() store.EntityKey { return store.WebhookEntity(c.id.WebhookKey()) }

func (c *createWebhook) renew() {
	c.id = c.e.NewID()
	crand.Read(c.secret[:])
}

// ring returns the keys that encrypt the secrets of webhooks.
func (e *Engine) ring() *keyring.Ring { return e.cfg.Webhooks.Ring }

func (c *createWebhook) name() pawl.WebhookName {
	return pawl.WebhookName{Workspace: c.plan.Workspace, Name: c.plan.Name}
}

func (c *createWebhook) query(q *store.Query) { q.Hooked = append(q.Hooked, c.name()) }

func (c *createWebhook) decide(t *tx) error {
	for _, h := range t.webhooks {
		if w := h.record; w.Name == c.plan.Name && w.Workspace == c.plan.Workspace && !lifecycle.Webhook.Ended(w.State) {
			return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("there is a webhook %s already", c.plan.Name),
				Hint: "choose another name, or delete that one with: pawl webhook delete " + c.plan.Name}
		}
	}
	p := &c.plan
	w := &pawl.Webhook{ID: c.id, Name: p.Name, Workspace: p.Workspace, WebhookTarget: p.WebhookTarget, Begin: c.begin,
		Secret: c.e.ring().Encrypt(c.id, c.secret), Former: keyring.None()}
	note := c.note
	note.Metadata = described(w)
	t.makeWebhook(w, note)
	return nil
}

// described returns what the trail has about what a webhook sends where.
func described(w *pawl.Webhook) []byte {
	b, _ := json.Marshal(map[string]any{"name": w.Name, "workspace_id": w.Workspace, "url": w.URL, "job_id": w.Job, "machines": w.Machines, "events": w.Events})
	return b
}

// ReplaceWebhook changes what a webhook sends where, whatever its state. What it has not sent yet
// it sends there, if the new filter selects it.
func (e *Engine) ReplaceWebhook(ctx context.Context, id pawl.ID, target pawl.WebhookTarget, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	w, err := store.FindWebhook(ctx, e.store, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if err := e.checkTarget(ctx, w.Workspace, &target); err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, w.Workspace, "PUT /api/webhooks/{id}", id, target)
	if err != nil {
		return pawl.Receipt{}, err
	}
	cmd := &moveWebhook{id: id, event: lifecycle.WebhookUpdate, version: c.Version, target: &target, note: noteOf(c)}
	return e.act(ctx, r, cmd, c)
}

// RotateWebhook gives a webhook another secret. What is sent is signed with the former one, too,
// for 24 hours, unless its key is lost: if another process has the key, this one refuses.
func (e *Engine) RotateWebhook(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.NewWebhook, error) {
	r, err := e.webhookRequest(ctx, id, "rotate", c)
	if err != nil {
		return pawl.NewWebhook{}, err
	}
	key, err := e.checkRotate(ctx, id, r)
	if err != nil {
		return pawl.NewWebhook{}, err
	}
	var secret [keyring.SecretSize]byte
	crand.Read(secret[:])
	cmd := &moveWebhook{id: id, event: lifecycle.WebhookRotate, ring: e.ring(), key: key, to: webhook.Encrypted{Secret: e.ring().Encrypt(id, secret)}, note: noteOf(c)}
	receipt, err := e.act(ctx, r, cmd, c)
	return newSecret(receipt, &secret, err)
}

// checkRotate returns the key of the secret of a webhook. It refuses one that another process has and
// this one has not, unless the request was carried out before.
func (e *Engine) checkRotate(ctx context.Context, id pawl.ID, r *request) (key string, err error) {
	if _, done, err := r.earlier(ctx); done || err != nil {
		return "", err
	}
	w, err := store.FindWebhook(ctx, e.store, id)
	if err != nil {
		return "", err
	}
	key = keyring.KeyOf(w.Secret)
	if err := keepEncrypted(w, e.ring()); err != nil {
		return "", err
	}
	if elsewhere, err := e.webhooks.Elsewhere(ctx, w); !elsewhere || err != nil {
		return key, err
	}
	return "", &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the secret of webhook %s is encrypted with key %s, which another process has and this one does not: rotated here, the former secret would be lost at once", w.Name, key),
		Hint: "use a server that has that key, or give its file to this one with --secret-key-file or PAWL_SECRET_KEY_FILE"}
}

// webhookVerbs are the moves that operators make, by the last part of their paths.
var webhookVerbs = map[machine.Event]string{lifecycle.WebhookPause: "pause", lifecycle.WebhookResume: "resume", lifecycle.WebhookDelete: "delete"}

// MoveWebhook pauses, resumes or deletes a webhook. What was committed while it was paused is
// delivered afterwards, if the feed still has it.
func (e *Engine) MoveWebhook(ctx context.Context, id pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	verb, ok := webhookVerbs[event]
	if !ok {
		return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "event %q: want pause, resume or delete", event)
	}
	r, err := e.webhookRequest(ctx, id, verb, c)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, &moveWebhook{id: id, event: event, note: noteOf(c)}, c)
}

func (e *Engine) webhookRequest(ctx context.Context, id pawl.ID, verb string, c pawl.Change) (*request, error) {
	if err := checkChange(c); err != nil {
		return nil, err
	}
	w, err := store.FindWebhook(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	return e.newRequest(c, w.Workspace, "POST /api/webhooks/{id}/"+verb, id)
}

type moveWebhook struct {
	id      pawl.ID
	event   machine.Event
	version int64               // that the webhook has to have; 0: any
	to      webhook.Encrypted   // of WebhookRotate, without the former one, and of WebhookEncrypt
	ring    *keyring.Ring       // of WebhookRotate
	key     string              // of the secret that WebhookRotate was allowed to lose, if the ring lacks it
	target  *pawl.WebhookTarget // of WebhookUpdate
	note    decide.Note
}

func (m *moveWebhook) subject() store.EntityKey { return store.WebhookEntity(m.id.WebhookKey()) }

func (m *moveWebhook) query(q *store.Query) { q.Webhooks = append(q.Webhooks, m.id.WebhookKey()) }

func (m *moveWebhook) decide(t *tx) error {
	w := t.webhook(m.id.WebhookKey())
	if w == nil || w.ID != m.id {
		return store.NoWebhook(m.id)
	}
	if err := checkVersion(m.version, w, "webhook "+w.Name); err != nil {
		return err
	}
	note := m.note
	switch m.event {
	case lifecycle.WebhookRotate:
		if err := keepEncrypted(w, m.ring); err != nil {
			return err
		}
		w.Former, w.FormerUntil = w.Secret, t.now+FormerSecret.Microseconds()
		if _, err := m.ring.Decrypt(w.ID, w.Secret); err != nil { // its key is lost, or it was changed
			if key := keyring.KeyOf(w.Secret); key != m.key {
				return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the secret of webhook %s was encrypted with key %s meanwhile", w.Name, key), Hint: "try again"}
			}
			w.Former, w.FormerUntil = keyring.None(), 0
		}
		w.Secret = m.to.Secret
	case lifecycle.WebhookEncrypt:
		w.Secret, w.Former = m.to.Secret, m.to.Former
	case lifecycle.WebhookDelete:
		w.Secret, w.Former = keyring.None(), keyring.None()
	case lifecycle.WebhookUpdate:
		w.WebhookTarget = *m.target
		note.Metadata = described(w)
	}
	return t.moveWebhook(w, m.event, note) // what is refused is undone
}

// keepEncrypted refuses a new secret of a process without a key beside a secret that is encrypted. The
// error names neither that webhook nor its key: it may be one of another workspace.
func keepEncrypted(w *pawl.Webhook, ring *keyring.Ring) error {
	if keyring.KeyOf(w.Secret) == "" || ring.Given() {
		return nil
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: "this process has no key, and secrets in the database are encrypted: it would store the new one as it is",
		Hint: "name the file with the keys with --secret-key-file or PAWL_SECRET_KEY_FILE, or use a server that has it"}
}

func (t *tx) webhook(key rowkey.Webhook) *pawl.Webhook {
	if h := t.webhooks[key]; h != nil {
		return touch(t, h, &t.journal.webhooks)
	}
	if t.facts.Unreadable == 0 && !slices.Contains(t.asked.q.Webhooks, key) {
		t.missed("Webhooks", "webhook %d", key)
	}
	return nil
}

func (t *tx) makeWebhook(w *pawl.Webhook, note decide.Note) {
	k := w.Key()
	if t.webhooks == nil {
		t.webhooks = make(map[rowkey.Webhook]*held[pawl.Webhook])
	}
	h := &held[pawl.Webhook]{record: w, made: true, dirty: true, command: t.command}
	t.webhooks[k] = h
	t.journal.madeWebhooks = append(t.journal.madeWebhooks, k)
	t.create(store.WebhookEntity(k), h.public(w.ID, pawl.WebhookPrefix), lifecycle.Webhook, draft{record: &w.Record, span: &h.span}, note)
}

func (t *tx) moveWebhook(w *pawl.Webhook, event machine.Event, note decide.Note) error {
	k := w.Key()
	h := t.webhooks[k]
	h.dirty = true
	return t.move(store.WebhookEntity(k), h.public(w.ID, pawl.WebhookPrefix), lifecycle.Webhook, draft{record: &w.Record, span: &h.span}, event, note)
}

// newRunner returns what delivers the webhooks.
func (e *Engine) newRunner() *webhook.Runner {
	r := webhook.NewRunner(e.cfg.Webhooks)
	r.Source, r.Events, r.Log, r.Jitter = e.store, e.feed, e.log, e.cfg.Jitter
	r.Sender = webhook.NewSender(e.cfg.Webhooks)
	r.Move = func(ctx context.Context, id pawl.ID, version int64, event machine.Event, reason string) (int64, error) {
		done, err := e.act(ctx, nil, &moveWebhook{id: id, event: event, version: version, note: decide.Note{Reason: reason}}, pawl.Change{})
		return done.Sequence, err
	}
	r.Encrypt = func(ctx context.Context, id pawl.ID, version int64, to webhook.Encrypted, reason string) error {
		_, err := e.act(ctx, nil, &moveWebhook{id: id, event: lifecycle.WebhookEncrypt, version: version, to: to, note: decide.Note{Reason: reason}}, pawl.Change{})
		return err
	}
	return r
}

// deliver delivers the events of webhooks.
func (e *Engine) deliver(ctx context.Context, r *rounds) {
	e.webhooks.Round = func(err error) { r.end(ctx, err) }
	e.webhooks.Run(ctx)
}

// WebhookStats returns the figures of the deliveries of this process.
func (e *Engine) WebhookStats() webhook.Stats { return e.webhooks.Stats() }

// WebhookWorkspace returns the workspace of a webhook, empty for one of all workspaces. The
// error is of kind NotFound if there is none.
func (e *Engine) WebhookWorkspace(ctx context.Context, id pawl.ID) (string, error) {
	w, err := store.FindWebhook(ctx, e.store, id)
	if err != nil {
		return "", err
	}
	return w.Workspace, nil
}

// TestWebhook sends a message without an event, once, whatever the state of the webhook.
func (e *Engine) TestWebhook(ctx context.Context, id pawl.ID) (*pawl.Delivery, error) {
	w, err := e.receiver(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.sendOnce(ctx, w, webhook.Test(w, e.NewID(), time.Now()))
}

// Redeliver sends a message again, once. It is one of those that are kept.
func (e *Engine) Redeliver(ctx context.Context, id pawl.ID, delivery string) (*pawl.Delivery, error) {
	w, err := e.receiver(ctx, id)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(delivery, 10, 64)
	if err != nil || n < 1 {
		return nil, noDelivery(delivery)
	}
	list, err := e.store.Deliveries(ctx, w.Key(), n+1, 1)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].ID != n {
		return nil, noDelivery(delivery)
	}
	return e.sendOnce(ctx, w, webhook.Message{ID: list[0].Message, Type: list[0].Type, Body: list[0].Body})
}

func noDelivery(id string) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no delivery %q of this webhook", id), Hint: "list those that are kept with: pawl webhook deliveries"}
}

// receiver returns a webhook that is not deleted.
func (e *Engine) receiver(ctx context.Context, id pawl.ID) (*pawl.Webhook, error) {
	w, err := store.FindWebhook(ctx, e.store, id)
	if err == nil && lifecycle.Webhook.Ended(w.State) {
		err = pawl.Errorf(pawl.Conflict, "webhook %s is deleted", w.Name)
	}
	return w, err
}

// sendOnce makes one attempt, and keeps what came of it.
func (e *Engine) sendOnce(ctx context.Context, w *pawl.Webhook, m webhook.Message) (*pawl.Delivery, error) {
	secrets, err := webhook.SecretsOf(e.ring(), w, time.Now())
	if err != nil {
		return nil, err
	}
	result := e.webhooks.Sender.Send(ctx, w, &secrets, m)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := result.Requested(m)
	if err := e.store.SaveWebhook(ctx, w.Key(), nil, []store.Delivery{d}); err != nil {
		return nil, err
	}
	last, err := e.store.Deliveries(ctx, w.Key(), 0, 20) // others may have come since
	if err != nil {
		return nil, err
	}
	for i := range last {
		if last[i].Message == m.ID && last[i].At == d.At {
			d.ID = last[i].ID
		}
	}
	v := d.View()
	return &v, nil
}
