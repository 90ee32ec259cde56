package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
)

const (
	maxAnswer = 64 << 20 // bytes of a body
	maxTries  = 4        // of one request: the first, and 3 repetitions
	maxActor  = 128      // characters
)

// A call is a request.
type call struct {
	operation string // its id, for errors
	method    string
	path      string
	query     url.Values
	actor     string
	key       string // empty: it has none
	own       bool   // the key is a random one, so nobody else uses it
	match     string // If-None-Match
	version   int64  // If-Match; 0: none
	body      any    // nil: none
	raw       []byte // a body that is not JSON
	beats     bool   // it goes on the connection of the heartbeats
	slow      bool   // the server computes for longer than a request usually takes
	patient   bool   // it waits, so it also waits until the server has room for it
	once      bool   // a second copy could be refused: it is repeated only if it was not sent
}

// An answer is a response without its body.
type answer struct {
	status   int
	etag     string
	replayed bool
	after    time.Duration // of Retry-After, at most maxAfter
}

const maxAfter = 10 * time.Second

const agent = "pawl-client"

func answerOf(r *http.Response) *answer {
	seconds, _ := strconv.Atoi(r.Header.Get("Retry-After")) // 0: none, or a time of the day
	return &answer{r.StatusCode, r.Header.Get("ETag"), r.Header.Get("Idempotency-Replayed") == "true",
		min(time.Duration(max(seconds, 0))*time.Second, maxAfter)}
}

// get reads an operation into v.
func (e *Engine) get(ctx context.Context, v any, operation, path string, query ...string) (*answer, error) {
	return e.do(ctx, &call{operation: operation, method: http.MethodGet, path: path, query: values(query...)}, v)
}

// values returns parameters from names and values; empty values are left out.
func values(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// at returns a path with segments in place of each %s.
func at(format string, segments ...string) string {
	escaped := make([]any, len(segments))
	for i, s := range segments {
		escaped[i] = url.PathEscape(s)
	}
	return fmt.Sprintf(format, escaped...)
}

// A note is what the body of each command has.
type note struct {
	Reason string `json:"reason,omitempty"`
}

// command returns the call of a command. Its body includes the reason of the change.
func command(operation, path string, c pawl.Change, body any) *call {
	return &call{operation: operation, method: http.MethodPost, path: path, actor: c.Actor, version: c.Version, key: cmp.Or(c.RequestID, newKey()), own: c.RequestID == "", body: body}
}

// newKey returns a random key of a request.
func newKey() string { return rand.Text() }

// receipt sends a command that answers with a receipt.
func (e *Engine) receipt(ctx context.Context, c *call) (r pawl.Receipt, err error) {
	a, err := e.do(ctx, c, &r)
	if err != nil {
		return pawl.Receipt{}, err
	}
	r.Replayed = a.replayed
	return r, nil
}

// do sends a request, again if its answer was lost or the server is unavailable for the
// moment, and decodes the answer into v, unless that is nil or the status is 304.
func (e *Engine) do(ctx context.Context, c *call, v any) (*answer, error) {
	body, err := c.encoded()
	if err != nil {
		return nil, err
	}
	pause := e.pause
	for try := 1; ; try++ {
		a, again, err := e.try(ctx, c, body, v)
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%s: %w", c.operation, ctx.Err())
		case c.patient && a != nil && a.status == http.StatusTooManyRequests:
			if try--; wait(ctx, max(a.after, e.pause)+mrand.N(e.pause)) {
				continue
			}
			return nil, fmt.Errorf("%s: %w", c.operation, ctx.Err())
		case try == maxTries || !again && !(isHeld(err) && (c.own || try > 1)): // held by an earlier copy
			return nil, err
		}
		least := pause
		if a != nil {
			least = max(pause, a.after)
		}
		if !wait(ctx, least+mrand.N(pause)) {
			return nil, fmt.Errorf("%s: %w", c.operation, ctx.Err())
		}
		pause *= 2
	}
}

// wait waits for d, and reports whether ctx is still alive then.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// written is a body that package exchange writes. What it does not write encoding/json does, or has the
// error.
type written interface {
	Written() bool
	Room() int
	AppendJSON(to []byte) []byte
}

// encoded returns the body, once the header of the actor is valid.
func (c *call) encoded() ([]byte, error) {
	invisible := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if c.actor != "" && (!utf8.ValidString(c.actor) || utf8.RuneCountInString(c.actor) > maxActor || strings.ContainsFunc(c.actor, invisible)) {
		return nil, pawl.Errorf(pawl.Invalid, "actor %q: want 1 to %d visible characters and no spaces", c.actor, maxActor)
	}
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r > '~' }) || len(c.key) > 255 {
		return nil, pawl.Errorf(pawl.Invalid, "request_id %q: want 1 to 255 visible ASCII characters", c.key)
	}
	if c.raw != nil {
		return c.raw, nil
	}
	if c.body == nil {
		return nil, nil
	}
	if b, is := c.body.(written); is && b.Written() {
		return b.AppendJSON(make([]byte, 0, b.Room())), nil
	}
	b, err := json.Marshal(c.body)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the request cannot be written as JSON", Err: err}
	}
	return b, nil
}

// maxPooled is the largest buffer, in bytes, that is kept for another response.
const maxPooled = 1 << 20

var responses = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readAll calls f with all of a body, whose bytes are gone when f returns.
func readAll(body io.Reader, f func(text []byte, err error)) {
	b := responses.Get().(*bytes.Buffer)
	b.Reset()
	_, err := b.ReadFrom(body)
	f(b.Bytes(), err)
	if b.Cap() <= maxPooled {
		responses.Put(b)
	}
}

// try sends a request once. again reports whether it may be sent again.
func (e *Engine) try(ctx context.Context, c *call, body []byte, v any) (a *answer, again bool, err error) {
	r, err := e.request(ctx, c, body)
	if err != nil {
		return nil, false, err
	}
	sender := e.http
	switch {
	case c.beats:
		sender = e.beats
	case c.slow:
		sender = e.slow
	}
	response, err := sender.Do(r)
	if err != nil {
		return nil, !c.once || unsent(err), e.unreachable(err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is given up
	readAll(io.LimitReader(response.Body, maxAnswer+1), func(text []byte, failed error) {
		a, again, err = e.received(c, response, text, failed, v)
	})
	return a, again, err
}

// received decodes a response, of which text was read, into v. It keeps nothing of the text.
func (e *Engine) received(c *call, response *http.Response, text []byte, err error, v any) (a *answer, again bool, _ error) {
	if err != nil {
		return nil, !c.once, e.unreachable(err)
	}
	if len(text) > maxAnswer {
		return nil, false, pawl.Errorf(pawl.Invalid, "the response of the server to %s has more than %d bytes", c.operation, maxAnswer)
	}
	a = answerOf(response)
	if a.status >= 300 && a.status != http.StatusNotModified {
		again := a.status == http.StatusServiceUnavailable && !c.once || a.status == http.StatusTooManyRequests // which did nothing
		return a, again, e.errorOf(c, response, text)
	}
	if v == nil || a.status == http.StatusNotModified {
		return a, false, nil
	}
	if err := decode(text, v); err != nil {
		return nil, false, &pawl.Error{Kind: pawl.Internal, Message: "the server at " + e.base + " has responded to " + c.operation + " with what is not its JSON",
			Hint: "is it a Pawl server, and of this version?", Err: err}
	}
	return a, false, nil
}

// decode reads an answer into v.
func decode(text []byte, v any) error {
	switch to := v.(type) {
	case *[]byte: // which is no JSON
		*to = text
		return nil
	case *exchange.Answer:
		if quickly(to, exchange.QuickAnswer(text)) {
			return nil
		}
	case *exchange.Outcomes:
		if quickly(to, exchange.QuickOutcomes(text)) {
			return nil
		}
	case *pawl.Receipt:
		if quickly(to, exchange.QuickReceipt(text)) {
			return nil
		}
	}
	return json.Unmarshal(text, v)
}

// quickly takes over what was read quickly, and reports whether it was.
func quickly[T any](to, read *T) bool {
	if read == nil {
		return false
	}
	*to = *read
	return true
}

func (e *Engine) request(ctx context.Context, c *call, body []byte) (*http.Request, error) {
	target := e.base + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(body))
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the request cannot be sent", Err: err}
	}
	r.Header.Set("User-Agent", agent)
	switch {
	case c.raw != nil:
		r.Header.Set("Content-Type", "application/octet-stream")
	case body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	actor := c.actor
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	if e.named.Load() { // the server knows who it is
		actor = ""
	}
	for name, value := range map[string]string{"Pawl-Actor": actor, "Idempotency-Key": c.key, "If-None-Match": c.match, "If-Match": c.ifMatch()} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// ifMatch returns the header that restricts the call to a version.
func (c *call) ifMatch() string {
	if c.version == 0 {
		return ""
	}
	return fmt.Sprintf("\"%d\"", c.version)
}

// unreachable returns the error for a request that has no answer.
func (e *Engine) unreachable(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return &pawl.Error{Kind: pawl.Refused, Message: "the certificate of the server at " + e.base + " is not trusted",
			Hint: "name the certificates that it is signed by with --ca FILE", Err: untrusted.Err}
	}
	return &pawl.Error{Kind: pawl.Unavailable, Message: "the server at " + e.base + " is out of reach",
		Hint: "is it running there? \"pawl service list\" on its machine shows its URL", Err: err}
}

// unsent reports whether a request with that error has not left this process.
func unsent(err error) bool {
	var of *net.OpError
	return errors.As(err, &of) && of.Op == "dial"
}

// A page is a part of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// maxPage is how many items a page has at most.
const maxPage = 100

// onePage reads the page of a list that begins at a cursor. limit is that of a query: 0 is
// the default.
func onePage[T any](ctx context.Context, e *Engine, c call, cursor string, limit int) (items []T, next string, err error) {
	if limit < 0 || limit > 1000 {
		return nil, "", pawl.Errorf(pawl.Invalid, "limit %d: want 1 to 1000", limit)
	}
	c.method, c.query = http.MethodGet, clone(c.query)
	if limit > 0 {
		c.query.Set("limit", fmt.Sprint(min(limit, maxPage)))
	}
	if cursor != "" {
		c.query.Set("cursor", cursor)
	}
	var p page[T]
	if _, err := e.do(ctx, &c, &p); err != nil {
		return nil, "", err
	}
	return p.Items, p.Next, nil
}

func clone(q url.Values) url.Values {
	c := url.Values{}
	for name, v := range q {
		c[name] = v
	}
	return c
}

// everyPage calls f with each item of a list, until f returns an error.
func everyPage[T any](ctx context.Context, e *Engine, c call, f func(*T) error) error {
	for cursor := ""; ; {
		items, next, err := onePage[T](ctx, e, c, cursor, maxPage)
		if err != nil {
			return err
		}
		for i := range items {
			if err := f(&items[i]); err != nil {
				return err
			}
		}
		if cursor = next; next == "" {
			return nil
		}
	}
}

// errEnough ends a list of which the caller needs no more.
var errEnough = errors.New("the caller needs no more")

// enough returns err unless it is errEnough.
func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// upTo returns the first items of a list, at most limit; 0 is 50.
func upTo[T any](ctx context.Context, e *Engine, c call, limit int) ([]T, error) {
	limit = cmp.Or(limit, 50)
	all := []T{}
	for cursor := ""; ; {
		items, next, err := onePage[T](ctx, e, c, cursor, limit-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if cursor = next; next == "" || len(all) >= limit {
			return all[:min(len(all), limit)], nil
		}
	}
}
