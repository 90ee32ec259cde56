package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var webhookTests = []test{
	{name: "Webhooks/ComeBack", run: webhooksComeBack},
	{name: "Webhooks/Facts", run: webhookFacts},
	{name: "Webhooks/List", run: webhookList},
	{name: "Webhooks/NameTaken", run: webhookNameTaken},
	{name: "Webhooks/Places", run: webhookPlaces},
	{name: "Webhooks/Deliveries", run: webhookDeliveries},
	{name: "Webhooks/KeepTheFeed", run: webhooksKeepTheFeed},
}

// webhook returns a webhook with a value in every field.
func (e *env) webhook(now int64, name string) *pawl.Webhook {
	return &pawl.Webhook{ID: e.mint.ID(now), Name: name, Workspace: "w", Begin: "1.2.3", Secret: []byte{1, 68: 2}, Former: []byte{3, 31: 4}, FormerUntil: 1 << 60,
		WebhookTarget: pawl.WebhookTarget{URL: "https://example.com/" + name, Job: "j_1", Machines: []string{"job", "step"}, Events: []machine.Event{"success"}}}
}

// addWebhook stores an active webhook, after change was called on it.
func (e *env) addWebhook(name string, change func(*pawl.Webhook)) *pawl.Webhook {
	e.Helper()
	var w *pawl.Webhook
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		w = e.webhook(f.Now, name)
		if change != nil {
			change(w)
		}
		b.AddWebhook(w)
	})
	return w
}

func (e *env) sameWebhook(want *pawl.Webhook) {
	e.Helper()
	got, err := e.st.Webhook(e.ctx, want.Key())
	e.ok(err)
	e.diff("webhook", want, got)
}

func (e *env) moveWebhook(w *pawl.Webhook, event machine.Event) (now *pawl.Webhook) {
	e.Helper()
	e.do(&store.Query{Webhooks: []rowkey.Webhook{w.Key()}}, func(f *store.Facts, b *Batch) {
		now = f.Webhooks[w.Key()]
		b.MoveWebhook(now, event)
	})
	return now
}

func webhooksComeBack(e *env) {
	e.sameWebhook(e.addWebhook("full", nil))
	e.sameWebhook(e.addWebhook("bare", func(w *pawl.Webhook) { *w = pawl.Webhook{ID: w.ID, Name: "bare", Secret: []byte{}, Former: []byte{}} }))
	e.sameWebhook(e.moveWebhook(e.addWebhook("paused", nil), lifecycle.WebhookPause))
}

// webhookFacts: by key in any state, and by name unless deleted; each only once.
func webhookFacts(e *env) {
	a, gone := e.addWebhook("a", nil), e.addWebhook("b", nil)
	gone = e.moveWebhook(gone, lifecycle.WebhookDelete)
	other := e.addWebhook("a", func(w *pawl.Webhook) { w.Workspace = "" })
	keyed := func(list ...*pawl.Webhook) map[rowkey.Webhook]*pawl.Webhook {
		m := map[rowkey.Webhook]*pawl.Webhook{}
		for _, w := range list {
			m[w.Key()] = w
		}
		return m
	}
	for what, tt := range map[string]struct {
		q    store.Query
		want map[rowkey.Webhook]*pawl.Webhook
	}{
		"by key":          {store.Query{Webhooks: []rowkey.Webhook{a.Key(), gone.Key(), 5}}, keyed(a, gone)},
		"by name":         {store.Query{Hooked: []pawl.WebhookName{{Workspace: "w", Name: "a"}, {Workspace: "w", Name: "b"}, {Name: "a"}}}, keyed(a, other)},
		"by key and name": {store.Query{Webhooks: []rowkey.Webhook{a.Key()}, Hooked: []pawl.WebhookName{{Workspace: "w", Name: "a"}}}, keyed(a)},
		"not asked for":   {store.Query{}, keyed()},
	} {
		got := e.see(&tt.q).Webhooks
		if got == nil {
			got = keyed()
		}
		e.diff(what, tt.want, got)
	}
}

// webhookList: newest first, in pages, in every state.
func webhookList(e *env) {
	a, b, c := e.addWebhook("a", nil), e.addWebhook("b", nil), e.addWebhook("c", nil)
	b = e.moveWebhook(b, lifecycle.WebhookDelete)
	got, err := e.st.Webhooks(e.ctx, 0, 2)
	e.ok(err)
	e.diff("first page", []*pawl.Webhook{c, b}, got)
	got, err = e.st.Webhooks(e.ctx, b.Key(), 2)
	e.ok(err)
	e.diff("second page", []*pawl.Webhook{a}, got)
}

// webhookNameTaken: a name belongs to one webhook of a workspace that is not deleted.
func webhookNameTaken(e *env) {
	w := e.addWebhook("ci", nil)
	again := func() error {
		return e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) { b.AddWebhook(e.webhook(f.Now, "ci")) })
	}
	if err := again(); !errors.Is(err, store.ErrStale) {
		e.Errorf("a second one of the name: error %v, want ErrStale", err)
	}
	e.moveWebhook(w, lifecycle.WebhookDelete)
	e.ok(again())
}

// webhookPlaces: one process at a time saves the place of a webhook.
func webhookPlaces(e *env) {
	key := e.addWebhook("w", nil).Key()
	got, err := e.st.WebhookPlace(e.ctx, key)
	e.ok(err)
	e.diff("never saved", store.WebhookPlace{}, got)
	p := &store.WebhookPlace{Token: "1.2.3", Moved: 1, FailingSince: 5, Failures: 2, Error: "it is \x00 down", GapAt: 7, Gap: "old"}
	e.ok(e.st.SaveWebhook(e.ctx, key, p, nil))
	if err := e.st.SaveWebhook(e.ctx, key, &store.WebhookPlace{}, []store.Delivery{{Message: "lost"}}); !errors.Is(err, store.ErrStale) {
		e.Errorf("a second first one: %v, want ErrStale", err)
	}
	old := *p
	p.Token, p.Moved, p.Failures = "1.2.4", 2, 0
	e.ok(e.st.SaveWebhook(e.ctx, key, p, nil))
	if err := e.st.SaveWebhook(e.ctx, key, &old, []store.Delivery{{Message: "lost"}}); !errors.Is(err, store.ErrStale) {
		e.Errorf("an outdated one: %v, want ErrStale", err)
	}
	got, err = e.st.WebhookPlace(e.ctx, key)
	e.ok(err)
	e.diff("saved", *p, got)
	list, err := e.st.Deliveries(e.ctx, key, 0, 10)
	e.ok(err)
	e.diff("of those that were refused", 0, len(list))
}

// webhookDeliveries: the last ones are kept, and all since the place has moved.
func webhookDeliveries(e *env) {
	key, other := e.addWebhook("w", nil).Key(), e.addWebhook("o", nil).Key()
	p := &store.WebhookPlace{Moved: 1}
	send := func(key rowkey.Webhook, p *store.WebhookPlace, moved int64, from, n int) {
		e.Helper()
		var list []store.Delivery
		for i := from; i < from+n; i++ {
			list = append(list, store.Delivery{Moved: moved, Message: fmt.Sprint("m", i), Type: "job.success", Attempt: 1, At: int64(i), Duration: 1500 * time.Microsecond,
				Status: 200, Delivered: i%2 == 0, Error: "e", Body: []byte(`{"n":1}`)})
		}
		e.ok(e.st.SaveWebhook(e.ctx, key, p, list))
	}
	send(key, p, 1, 0, 300)
	send(other, nil, -1, 0, 1)
	list, err := e.st.Deliveries(e.ctx, key, 0, 1000)
	e.ok(err)
	if len(list) != 300 {
		e.Fatalf("%d are kept, want 300: the place has not moved", len(list))
	}
	last := list[0]
	e.diff("the last", store.Delivery{ID: last.ID, Moved: 1, Message: "m299", Type: "job.success", Attempt: 1, At: 299, Duration: 1500 * time.Microsecond, Status: 200, Error: "e", Body: []byte(`{"n":1}`)}, last)
	page, err := e.st.Deliveries(e.ctx, key, list[9].ID, 2)
	e.ok(err)
	e.diff("a page", list[10:12], page)
	delivered, err := e.st.Delivered(e.ctx, key, 1)
	e.ok(err)
	if len(delivered) != 150 {
		e.Errorf("%d were delivered, want 150", len(delivered))
	}
	p.Moved = 2
	send(key, p, 2, 300, 1)
	list, err = e.st.Deliveries(e.ctx, key, 0, 1000)
	e.ok(err)
	if len(list) != store.KeptDeliveries || list[0].Message != "m300" {
		e.Errorf("%d are kept, the last one %+v, want %d", len(list), list[0], store.KeptDeliveries)
	}
}

// webhooksKeepTheFeed: rows of the feed are kept for a webhook that is behind, and no longer.
func webhooksKeepTheFeed(e *env) {
	e.ok(e.st.Maintain(e.ctx))
	e.add(1, nil)
	place := e.here()
	w := e.addWebhook("w", func(w *pawl.Webhook) { w.Begin = "" })
	for range 5 {
		e.add(1, nil)
	}
	place.At -= 2 * 3600_000_000
	e.ok(e.st.SaveWebhook(e.ctx, w.Key(), &store.WebhookPlace{Token: place.String()}, nil))
	e.age(2)
	before := e.fedRows()
	for range 3 {
		e.ok(e.st.Maintain(e.ctx))
	}
	e.diff("rows of the feed", before, e.fedRows())
	if events, _ := e.since(place, 100); len(events) != 16 {
		e.Errorf("the feed has %d events, want the 15 of 5 jobs and that of the webhook", len(events))
	}
	e.moveWebhook(w, lifecycle.WebhookDelete)
	for e.fedRows() > "1" && e.ctx.Err() == nil { // transactions of other tests may be older than these
		e.age(2)
		e.ok(e.st.Maintain(e.ctx))
	}
	var gap *store.GapError
	if _, err := e.st.Since(e.ctx, place, 10); !errors.As(err, &gap) || gap.Reason != store.GapOld {
		e.Errorf("when the rows are gone: %v, want a gap", err)
	}
}
