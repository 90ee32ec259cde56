package engine_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/webhook"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// A received is a request that a receiver has got.
type received struct {
	id, signatures, at string
	body               []byte
	message            struct {
		Type      string
		Timestamp time.Time
		Data      pawl.Event
	}
}

// A receiver takes messages, unless answer says otherwise: it returns a status, or 0 to hang.
type receiver struct {
	t      *testing.T
	url    string
	answer atomic.Pointer[func(*received) int]
	gone   context.Context // when the test ends

	mu    sync.Mutex
	got   []*received // every request
	taken []*received // those that it has answered with 204
}

func newReceiver(t *testing.T) *receiver {
	gone, leave := context.WithCancel(context.Background())
	r := &receiver{t: t, gone: gone}
	s := httptest.NewServer(r)
	t.Cleanup(func() { leave(); s.Close() })
	r.url = s.URL + "/hook?key=hidden"
	return r
}

func (r *receiver) answers(f func(*received) int) { r.answer.Store(&f) }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	m := &received{id: req.Header.Get("webhook-id"), signatures: req.Header.Get("webhook-signature"), at: req.Header.Get("webhook-timestamp")}
	m.body, _ = io.ReadAll(req.Body)
	if err := json.Unmarshal(m.body, &m.message); err != nil || req.Method != "POST" || req.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %s: %v", req.Method, m.body, err)
	}
	status := 204
	if f := r.answer.Load(); f != nil {
		status = (*f)(m)
	}
	r.mu.Lock()
	r.got = append(r.got, m)
	if status == 204 {
		r.taken = append(r.taken, m)
	}
	r.mu.Unlock()
	switch status {
	case 0:
		select {
		case <-req.Context().Done():
		case <-r.gone.Done():
		}
	case 302:
		w.Header().Set("Location", "/elsewhere")
		fallthrough
	default:
		w.WriteHeader(status)
	}
}

// list returns the ids of what it has taken, in order.
func (r *receiver) list() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.taken {
		ids = append(ids, m.id)
	}
	return ids
}

func (r *receiver) last() *received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[len(r.got)-1]
}

func (r *receiver) until(what string, f func(ids []string) bool) {
	r.t.Helper()
	until(r.t, what, func() bool { return f(r.list()) })
}

// signed reports whether a message has the signature of a secret, as the specification says.
func (m *received) signed(secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != 32 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join([]string{m.id, m.at, string(m.body)}, ".")))
	return slices.Contains(strings.Fields(m.signatures), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// eager is a configuration for tests: it retries soon.
func eager() *webhook.Config {
	return &webhook.Config{Timeout: 500 * time.Millisecond, First: 10 * time.Millisecond, Most: 40 * time.Millisecond, Poll: 50 * time.Millisecond}
}

const easy = "name: easy\nsteps: [{id: a, handler: h}]\n"

var easily = map[string]worker.Handler{"h": func(context.Context, *worker.Task) worker.Result { return worker.Result{} }}

// sending starts a process that runs jobs and delivers the events of webhooks.
func sending(t *testing.T, s store.Store) *process {
	return start(t, s, setup{handlers: easily, webhooks: eager()})
}

func (p *process) hook(name, url string, change func(*pawl.WebhookPlan)) (pawl.ID, string) {
	p.t.Helper()
	plan := pawl.WebhookPlan{Name: name, WebhookTarget: pawl.WebhookTarget{URL: url, Machines: []string{"job"}}}
	if change != nil {
		change(&plan)
	}
	made, err := p.engine.CreateWebhook(p.t.Context(), plan, ann)
	must(p.t, err)
	id, err := pawl.ParseID(pawl.WebhookPrefix, made.ID)
	must(p.t, err)
	return id, made.Secret
}

// ran runs a job, and returns its id.
func (p *process) ran() string {
	p.t.Helper()
	id := p.submit(define(p.t, easy), "")
	p.wait(id)
	return id.Public(pawl.JobPrefix)
}

// moves are the messages about a job with one step that succeeds, if only moves of jobs are
// sent.
func moves(job string) []string {
	return []string{job + "_1", job + "_2", job + "_3", job + "_4"}
}

// TestWebhooks: what is committed is sent, signed, in order, once; a pause loses nothing; the
// trail has who did what, and the secret is shown once (K6, K7).
func TestWebhooks(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p, r := sending(t, open()), newReceiver(t)
		ctx, e := t.Context(), p.engine
		before := p.ran()
		plan := pawl.WebhookPlan{Name: "w", WebhookTarget: pawl.WebhookTarget{URL: r.url, Machines: []string{"job"}}}
		c := ann
		c.RequestID = "once"
		made, err := e.CreateWebhook(ctx, plan, c)
		must(t, err)
		if _, err := e.CreateWebhook(ctx, plan, c); !errors.Is(err, link.ErrSecretShown) {
			t.Errorf("the same request again: %v", err)
		}
		if _, err := e.CreateWebhook(ctx, plan, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("the same name again: %v", err)
		}
		id, err := pawl.ParseID(pawl.WebhookPrefix, made.ID)
		must(t, err)
		first := p.ran()
		r.until("the first job is sent", func(ids []string) bool { return len(ids) >= 4 })
		if diff := slices.Compare(moves(first), r.list()); diff != 0 {
			t.Errorf("sent %v, want %v, and nothing of %s", r.list(), moves(first), before)
		}
		m := r.last()
		if !m.signed(made.Secret) || m.message.Type != "job.success" || m.message.Data.Entity != first || m.message.Data.To != "COMPLETED" || *m.message.Data.From != "RUNNING" {
			t.Errorf("the last one: %s, signed %s", m.body, m.signatures)
		}

		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookPause, ann)
		must(t, err)
		second := p.ran()
		if _, err := e.MoveWebhook(ctx, id, lifecycle.WebhookPause, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("paused twice: %v", err)
		}
		until(t, "it is paused", func() bool { return e.WebhookStats().Active == 0 })
		third := p.ran()
		rotated, err := e.RotateWebhook(ctx, id, ann)
		must(t, err)
		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookResume, ann)
		must(t, err)
		r.until("the others are sent", func(ids []string) bool { return len(ids) >= 12 })
		if want := slices.Concat(moves(first), moves(second), moves(third)); !slices.Equal(r.list(), want) {
			t.Errorf("sent %v, want %v", r.list(), want)
		}
		if m := r.last(); !m.signed(rotated.Secret) || !m.signed(made.Secret) || len(strings.Fields(m.signatures)) != 2 {
			t.Errorf("after a rotation it is signed %s", m.signatures)
		}

		d, err := e.TestWebhook(ctx, id)
		must(t, err)
		if !d.Delivered || d.Status != 204 || r.last().message.Type != "test" || !r.last().signed(rotated.Secret) {
			t.Errorf("the test: %+v, %s", d, r.last().body)
		}
		until(t, "the deliveries are kept", func() bool {
			list, _, err := e.Deliveries(ctx, id, pawl.DeliveryQuery{})
			must(t, err)
			return len(list) == 13
		})
		list, _, err := e.Deliveries(ctx, id, pawl.DeliveryQuery{})
		must(t, err)
		of := slices.IndexFunc(list, func(d pawl.Delivery) bool { return d.Message == first+"_4" })
		again, err := e.Redeliver(ctx, id, list[of].ID)
		must(t, err)
		if got := r.last(); !again.Delivered || again.Message != first+"_4" || again.Attempt != 0 || got.id != first+"_4" || string(got.body) != string(m.body) {
			t.Errorf("sent again: %+v, %s", again, got.body)
		}

		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookDelete, ann)
		must(t, err)
		if _, err := e.TestWebhook(ctx, id); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("a test of a deleted one: %v", err)
		}
		var events []machine.Event
		for _, entry := range p.trailOf(made.ID) {
			events = append(events, entry.Event)
			if entry.Actor != "ann" || strings.Contains(string(entry.Metadata), made.Secret) {
				t.Errorf("entry %+v", entry)
			}
		}
		if want := []machine.Event{"create", "pause", "rotate", "resume", "delete"}; !slices.Equal(events, want) {
			t.Errorf("the trail has %v, want %v", events, want)
		}
		if f, err := verified(p.store, 0); f != nil || err != nil {
			t.Errorf("%v, %v", f, err)
		}
	})
}

// TestWebhookFilters: a webhook sends what its filter selects.
func TestWebhookFilters(t *testing.T) {
	t.Parallel()
	p := sending(t, (&database{t: t, kind: "memory", where: ":memory:"}).open())
	r := newReceiver(t)
	p.hook("w", r.url, func(w *pawl.WebhookPlan) { w.Machines, w.Events = []string{"step"}, []machine.Event{"success"} })
	other := newReceiver(t)
	p.hook("other", other.url, func(w *pawl.WebhookPlan) { w.Workspace = "elsewhere" })
	job := p.ran()
	r.until("a move is sent", func(ids []string) bool { return len(ids) > 0 })
	p.hook("of-the-job", other.url, func(w *pawl.WebhookPlan) { w.Job = job })
	p.ran()
	r.until("another is sent", func(ids []string) bool { return len(ids) > 1 })
	for _, m := range r.got {
		if m.message.Type != "step.success" {
			t.Errorf("sent %s", m.body)
		}
	}
	if len(other.list()) != 0 {
		t.Errorf("sent of another workspace, or job: %v", other.list())
	}
}

// TestWebhookUpdate: a webhook gets another URL and another filter; a message that hangs at the old
// receiver is sent to the new one, and the trail has what was changed (K6, K7).
func TestWebhookUpdate(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p, a, b := sending(t, open()), newReceiver(t), newReceiver(t)
		ctx, e := t.Context(), p.engine
		id, secret := p.hook("w", a.url, nil)
		hangs := make(chan struct{}, 100)
		a.answers(func(*received) int { hangs <- struct{}{}; return 0 })
		first := p.ran()
		<-hangs
		seen, err := e.Webhook(ctx, id)
		must(t, err)
		c := ann
		c.Version, c.RequestID = seen.Version, "move"
		target := pawl.WebhookTarget{URL: b.url, Machines: []string{"job"}}
		r, err := e.ReplaceWebhook(ctx, id, target, c)
		must(t, err)
		if r.To != lifecycle.WebhookActive || r.Sequence != seen.Version+1 {
			t.Errorf("receipt %+v", r)
		}
		b.until("the new receiver has all", func(ids []string) bool { return slices.Equal(ids, moves(first)) })
		if m := b.last(); !m.signed(secret) {
			t.Errorf("signed %s", m.signatures)
		}
		if again, err := e.ReplaceWebhook(ctx, id, target, c); err != nil || !again.Replayed || again.Sequence != r.Sequence {
			t.Errorf("the same request again: %+v, %v", again, err)
		}
		c.RequestID = ""
		if _, err := e.ReplaceWebhook(ctx, id, target, c); !errors.Is(err, link.ErrChanged) {
			t.Errorf("of the version before: %v", err)
		}
		if _, err := e.ReplaceWebhook(ctx, id, pawl.WebhookTarget{URL: "http://example.com/"}, ann); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("a bad URL: %v", err)
		}

		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookPause, ann)
		must(t, err)
		p.ran()
		target.Machines, target.Events = []string{"step"}, []machine.Event{"success"}
		r, err = e.ReplaceWebhook(ctx, id, target, ann)
		must(t, err)
		if r.To != lifecycle.WebhookPaused {
			t.Errorf("a paused one is %s", r.To)
		}
		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookResume, ann)
		must(t, err)
		b.until("what the new filter selects is sent", func(ids []string) bool { return len(ids) == 5 })
		if m := b.last(); m.message.Type != "step.success" {
			t.Errorf("sent %s", m.body)
		}
		_, err = e.MoveWebhook(ctx, id, lifecycle.WebhookDelete, ann)
		must(t, err)
		if _, err := e.ReplaceWebhook(ctx, id, target, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("a deleted one: %v", err)
		}
		trail := p.trailOf(id.Public(pawl.WebhookPrefix))
		if entry := trail[1]; entry.Event != lifecycle.WebhookUpdate || entry.Actor != "ann" || !strings.Contains(string(entry.Metadata), b.url) || strings.Contains(string(entry.Metadata), "success") {
			t.Errorf("entry %+v", entry)
		}
		if f, err := verified(p.store, 0); f != nil || err != nil || len(trail) != 6 {
			t.Errorf("%d moves, %v, %v", len(trail), f, err)
		}
	})
}

// TestWebhookUpdateWhileOneIsSent: a webhook that is changed just when its receiver refuses it for
// good is not disabled; one whose filter is widened between two messages gets none that is older
// than what it has of the same entity.
func TestWebhookUpdateWhileOneIsSent(t *testing.T) {
	t.Parallel()
	p := sending(t, (&database{t: t, kind: "memory", where: ":memory:"}).open())
	ctx, e := t.Context(), p.engine
	a, b := newReceiver(t), newReceiver(t)
	id, _ := p.hook("w", a.url, func(w *pawl.WebhookPlan) { w.Events = []machine.Event{"success"} })
	a.answers(func(*received) int {
		_, err := e.ReplaceWebhook(ctx, id, pawl.WebhookTarget{URL: b.url, Machines: []string{"job"}, Events: []machine.Event{"success"}}, ann)
		if err != nil {
			t.Error(err)
		}
		return 410
	})
	first := p.ran()
	b.until("the new receiver has it", func(ids []string) bool { return len(ids) > 0 })
	must(t, moved(e.MoveWebhook(ctx, id, lifecycle.WebhookPause, ann)))
	second, third := p.ran(), p.ran()
	var hung atomic.Bool
	b.answers(func(m *received) int {
		if m.id != third+"_4" || hung.Swap(true) {
			return 204
		}
		must(t, moved(e.ReplaceWebhook(ctx, id, pawl.WebhookTarget{URL: b.url, Machines: []string{"job"}}, ann)))
		return 0
	})
	must(t, moved(e.MoveWebhook(ctx, id, lifecycle.WebhookResume, ann)))
	b.until("it has the third job", func(ids []string) bool { return slices.Contains(ids, third+"_4") })
	if want := slices.Concat([]string{first + "_4", second + "_4"}, moves(third)); !slices.Equal(b.list(), want) {
		t.Errorf("sent %v, want %v", b.list(), want)
	}
}

func moved(_ pawl.Receipt, err error) error { return err }

// TestWebhooksSendNothingOfAdmins: moves of tokens and webhooks, which are for admins alone, go to
// no webhook, not even to one of all workspaces.
func TestWebhooksSendNothingOfAdmins(t *testing.T) { // J4
	t.Parallel()
	p := sending(t, (&database{t: t, kind: "memory", where: ":memory:"}).open())
	r := newReceiver(t)
	p.hook("all", r.url, func(w *pawl.WebhookPlan) { w.Machines = nil })
	made, err := p.engine.CreateToken(t.Context(), pawl.TokenPlan{Name: "ci", Roles: []pawl.Role{pawl.RoleViewer}}, ann)
	if err != nil {
		t.Fatal(err)
	}
	p.hook("another", r.url+"/none", func(w *pawl.WebhookPlan) { w.Workspace = "elsewhere" })
	job := p.ran()
	last := moves(job)[3]
	r.until("the end of the job is sent", func(ids []string) bool { return slices.Contains(ids, last) })
	for _, m := range r.got {
		if strings.HasPrefix(m.message.Type, "token.") || strings.HasPrefix(m.message.Type, "webhook.") || strings.Contains(string(m.body), made.ID) {
			t.Errorf("sent %s", m.body)
		}
	}
}

// TestWebhookReceiversFail: whatever a receiver does but answer with 2xx, it gets the same
// message again, in order, and delays no other webhook; a redirect is not followed.
func TestWebhookReceiversFail(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := sending(t, open())
		bad, good := newReceiver(t), newReceiver(t)
		statuses := []int{500, 0, 302, 404, 429, 199 + 1} // 200 is a success, too
		var n atomic.Int64
		bad.answers(func(m *received) int {
			if i := n.Add(1) - 1; int(i) < len(statuses) {
				return statuses[i]
			}
			return 204
		})
		id, secret := p.hook("bad", bad.url, nil)
		p.hook("good", good.url, nil)
		job := p.ran()
		good.until("the good receiver has all", func(ids []string) bool { return slices.Equal(ids, moves(job)) })
		bad.until("the bad receiver has the rest", func(ids []string) bool { return slices.Equal(ids, moves(job)[1:]) })
		bad.mu.Lock()
		for i, m := range bad.got[:len(statuses)] {
			if m.id != job+"_1" || !m.signed(secret) {
				t.Errorf("request %d is %s", i, m.id)
			}
		}
		bad.mu.Unlock()
		until(t, "the attempts are kept", func() bool {
			list, _, err := p.engine.Deliveries(t.Context(), id, pawl.DeliveryQuery{})
			must(t, err)
			return len(list) == len(statuses)+3
		})
		list, _, err := p.engine.Deliveries(t.Context(), id, pawl.DeliveryQuery{})
		must(t, err)
		slices.Reverse(list)
		for i, want := range []string{"the receiver responded with 500 Internal Server Error", "no response within 500ms", "the receiver responded with 302 Found", "the receiver responded with 404 Not Found", "the receiver responded with 429 Too Many Requests", ""} {
			if d := list[i]; d.Error != want || d.Attempt != i+1 || d.Delivered != (want == "") || strings.Contains(d.Error, "hidden") {
				t.Errorf("attempt %d: %+v, want %q", i+1, d, want)
			}
		}
		v, err := p.engine.Webhook(t.Context(), id)
		must(t, err)
		if v.Failures != 0 || v.FailingSince != 0 || v.Status != lifecycle.WebhookActive {
			t.Errorf("in the end: %+v", v)
		}
	})
}

// TestWebhooksAreDisabled: a receiver that says that it is gone, and one that has failed for
// long, get nothing more until somebody resumes their webhooks.
func TestWebhooksAreDisabled(t *testing.T) {
	t.Parallel()
	c := eager()
	c.GiveUp = 300 * time.Millisecond
	p := start(t, (&database{t: t, kind: "memory", where: ":memory:"}).open(), setup{handlers: easily, webhooks: c})
	for status, why := range map[int]string{410: "the receiver responded with 410 Gone", 503: "every attempt has failed for 300ms; the last one: the receiver responded with 503 Service Unavailable"} {
		r := newReceiver(t)
		r.answers(func(*received) int { return status })
		id, _ := p.hook(fmt.Sprint("w", status), r.url, nil)
		job := p.ran()
		until(t, "the webhook is disabled", func() bool {
			v, err := p.engine.Webhook(t.Context(), id)
			must(t, err)
			return v.Status == lifecycle.WebhookDisabled
		})
		trail := p.trailOf(id.Public(pawl.WebhookPrefix))
		if last := trail[len(trail)-1]; last.Event != lifecycle.WebhookDisable || last.Reason != why || last.Actor != "engine" {
			t.Errorf("%d: %+v", status, last)
		}
		if len(r.got) > 1 && status == 410 {
			t.Errorf("%d requests after a 410", len(r.got)-1)
		}
		r.answers(func(*received) int { return 204 })
		_, err := p.engine.MoveWebhook(t.Context(), id, lifecycle.WebhookResume, ann)
		must(t, err)
		r.until("it goes on where it was", func(ids []string) bool { return slices.Equal(ids, moves(job)) })
		_, err = p.engine.MoveWebhook(t.Context(), id, lifecycle.WebhookDelete, ann)
		must(t, err)
	}
}

// TestWebhookGaps: where the feed does not go on, the trail and the receiver are told.
func TestWebhookGaps(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		p := startProcess(t, s, easily)
		r := newReceiver(t)
		id, _ := p.hook("w", r.url, nil)
		must(t, s.SaveWebhook(t.Context(), id.WebhookKey(), &store.WebhookPlace{Token: store.FeedToken{Epoch: 7, At: 1, Next: 1}.String()}, nil))
		p.ran()
		sending(t, s)
		r.until("the gap is told", func(ids []string) bool { return len(ids) == 1 })
		if m := r.last(); m.message.Type != "gap" || m.message.Data.Reason != "other" {
			t.Errorf("sent %s", m.body)
		}
		job := p.ran()
		r.until("it goes on", func(ids []string) bool { return slices.Equal(ids[1:], moves(job)) })
		trail := p.trailOf(id.Public(pawl.WebhookPrefix))
		if last := trail[len(trail)-1]; last.Event != lifecycle.WebhookGap || last.Reason != "events are missing: other" {
			t.Errorf("the trail ends with %+v", last)
		}
		until(t, "the gap is seen", func() bool {
			v, err := p.engine.Webhook(t.Context(), id)
			must(t, err)
			return v.Gap == "other" && v.GapAt != 0
		})
	})
}

// TestWebhooksOfTwoServers: one of two processes delivers; the other one takes over where it
// was.
func TestWebhooksOfTwoServers(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		a, b := sending(t, db.open()), sending(t, db.open())
		r := newReceiver(t)
		a.hook("w", r.url, nil)
		var want []string
		for range 3 {
			want = append(want, moves(a.ran())...)
		}
		r.until("all is sent", func(ids []string) bool { return len(ids) >= len(want) })
		one := a
		if b.engine.WebhookStats().Active > 0 {
			one = b
		}
		if n := a.engine.WebhookStats().Active + b.engine.WebhookStats().Active; n != 1 {
			t.Errorf("%d processes deliver, want 1", n)
		}
		one.stop()
		left := a
		if one == a {
			left = b
		}
		for range 3 {
			want = append(want, moves(left.ran())...)
		}
		r.until("all of the other one is sent", func(ids []string) bool { return len(ids) >= len(want) })
		if got := r.list(); !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
	})
}

// TestAnotherProcessDelivers: a process that has lost its name without noticing stops when the
// other one has saved a place.
func TestAnotherProcessDelivers(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		s := db.open()
		p, r := sending(t, s), newReceiver(t)
		id, _ := p.hook("w", r.url, nil)
		r.answers(func(*received) int { return 500 })
		job := p.ran()
		key := id.WebhookKey()
		until(t, "it has saved a failure", func() bool { place, err := s.WebhookPlace(t.Context(), key); must(t, err); return place.Version > 0 })
		taken := false
		until(t, "another one saves a place", func() bool {
			place, err := s.WebhookPlace(t.Context(), key)
			must(t, err)
			place.Gap = "mine"
			if err = s.SaveWebhook(t.Context(), key, &place, nil); !errors.Is(err, store.ErrStale) {
				must(t, err)
				taken = true
			}
			return taken
		})
		r.answers(func(*received) int { return 204 })
		r.until("it begins anew from the place", func(ids []string) bool { return len(ids) >= 4 })
		if place, err := s.WebhookPlace(t.Context(), key); err != nil || place.Gap != "mine" {
			t.Errorf("the place of the other one is %+v, %v", place, err)
		}
		if !slices.Equal(r.list()[:4], moves(job)) {
			t.Errorf("sent %v", r.list())
		}
	})
}

// TestBadWebhooks are refused with the field and what is allowed.
func TestBadWebhooks(t *testing.T) {
	t.Parallel()
	p := startProcess(t, (&database{t: t, kind: "memory", where: ":memory:"}).open(), nil)
	for what, change := range map[string]func(*pawl.WebhookPlan){
		"name":      func(w *pawl.WebhookPlan) { w.Name = "-x" },
		"url":       func(w *pawl.WebhookPlan) { w.URL = "http://example.com" },
		"machine":   func(w *pawl.WebhookPlan) { w.Machines = []string{"token"} },
		"event":     func(w *pawl.WebhookPlan) { w.Events = []machine.Event{"nonsense"} },
		"revoke":    func(w *pawl.WebhookPlan) { w.Events = []machine.Event{lifecycle.TokenRevoke} },
		"workspace": func(w *pawl.WebhookPlan) { w.Workspace = "a\n" },
	} {
		plan := pawl.WebhookPlan{Name: "x", WebhookTarget: pawl.WebhookTarget{URL: "https://example.com/"}}
		change(&plan)
		if _, err := p.engine.CreateWebhook(t.Context(), plan, ann); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	plan := pawl.WebhookPlan{Name: "x", WebhookTarget: pawl.WebhookTarget{URL: "https://example.com/", Job: p.engine.NewID().Public(pawl.JobPrefix)}}
	if _, err := p.engine.CreateWebhook(t.Context(), plan, ann); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("of an unknown job: %v", err)
	}
}

// TestManyWebhooks: there is a limit for each workspace and one in all. A webhook that is deleted
// makes room, and a repeated request is answered as before.
func TestManyWebhooks(t *testing.T) {
	t.Parallel()
	p := startProcess(t, (&database{t: t, kind: "memory", where: ":memory:"}).open(), nil)
	create := func(workspace string, n int, key string) (pawl.NewWebhook, error) {
		plan := pawl.WebhookPlan{Workspace: workspace, Name: fmt.Sprint("w", n), WebhookTarget: pawl.WebhookTarget{URL: "https://example.com/"}}
		return p.engine.CreateWebhook(t.Context(), plan, pawl.Change{Actor: "ann", RequestID: key})
	}
	refused := func(workspace string, n int, want string) {
		t.Helper()
		if _, err := create(workspace, n, ""); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("webhook %d of %q: %v, want a Conflict: %s", n, workspace, err, want)
		}
	}
	var last pawl.NewWebhook
	for i := range engine.MaxWebhooks {
		if i == engine.MaxWorkspaceWebhooks {
			refused("s0", i, `workspace "s0" has 100 webhooks: want at most 100`)
		}
		var err error
		last, err = create(fmt.Sprint("s", i/engine.MaxWorkspaceWebhooks), i, fmt.Sprint("key-", i))
		must(t, err)
	}
	refused("other", 0, "there are 1000 webhooks: want at most 1000")
	if _, err := create("s9", engine.MaxWebhooks-1, fmt.Sprint("key-", engine.MaxWebhooks-1)); !errors.Is(err, link.ErrSecretShown) {
		t.Errorf("a repeated request: %v, want that the secret was shown", err)
	}
	id, err := pawl.ParseID(pawl.WebhookPrefix, last.ID)
	must(t, err)
	_, err = p.engine.MoveWebhook(t.Context(), id, lifecycle.WebhookDelete, ann)
	must(t, err)
	_, err = create("s9", engine.MaxWebhooks, "")
	must(t, err)
}
