package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/machine"
)

// A Slug names a kind of problem in URLs: /problems/not-found.
type Slug string

// The kinds of problems.
const (
	SlugMalformed            Slug = "malformed"
	SlugUnauthenticated      Slug = "unauthenticated"
	SlugNotAllowed           Slug = "not-allowed"
	SlugNotFound             Slug = "not-found"
	SlugNoSuchOperation      Slug = "no-such-operation"
	SlugMethodNotAllowed     Slug = "method-not-allowed"
	SlugConflict             Slug = "conflict"
	SlugInvalidTransition    Slug = "invalid-state-transition"
	SlugRequestInProgress    Slug = "request-in-progress"
	SlugStaleClaim           Slug = "stale-claim"
	SlugSecretShown          Slug = "secret-shown"
	SlugQuota                Slug = "quota"
	SlugExpired              Slug = "expired"
	SlugTurn                 Slug = "turn"
	SlugOffset               Slug = "offset"
	SlugWorkerEnded          Slug = "worker-ended"
	SlugPreconditionFailed   Slug = "precondition-failed"
	SlugTooLarge             Slug = "too-large"
	SlugUnsupportedMediaType Slug = "unsupported-media-type"
	SlugInvalid              Slug = "invalid"
	SlugKeyReused            Slug = "key-reused"
	SlugRateLimited          Slug = "rate-limited"
	SlugInternal             Slug = "internal"
	SlugUnavailable          Slug = "unavailable"
)

// A Kind is a kind of problem.
type Kind struct {
	Slug   Slug
	Status int    // the HTTP status
	Title  string // the same in each problem of the kind
	Text   string // what it means, and what the caller can do
}

// kinds are all kinds of problems, by status.
var kinds = []Kind{
	{SlugMalformed, 400, "Malformed request", "The body is not JSON, or the request is not HTTP as this server understands it. Send it as UTF-8 JSON."},
	{SlugUnauthenticated, 401, "Not authenticated", "The request has no valid token. Send one in the header Authorization, as a bearer token."},
	{SlugNotAllowed, 403, "Not allowed", "The caller may not do this. The detail says which rule refuses it; repeating the request does not help."},
	{SlugNotFound, 404, "Not found", "What the request names does not exist, was removed, or belongs to another workspace."},
	{SlugNoSuchOperation, 404, "No such operation", "The server has nothing at this path. /openapi.json lists all operations."},
	{SlugMethodNotAllowed, 405, "Method not allowed", "The path exists, but not with this method. The header Allow lists the methods that it has."},
	{SlugConflict, 409, "Conflict", "The current state does not allow this. Read the state again, then decide anew."},
	{SlugInvalidTransition, 409, "Invalid state transition", "The event is not legal in the state of the entity. The members entity, from, event and allowed say which events are."},
	{SlugRequestInProgress, 409, "Request in progress", "A request with the same key is not finished yet. Repeat this one after a second."},
	{SlugStaleClaim, 409, "Stale claim", "The step was given to another claim meanwhile. Drop its result; whoever has the current claim reports it."},
	{SlugSecretShown, 409, "Secret was shown", "An earlier request with this key has made the secret, which was shown then and is not shown again. Revoke the token and make another, or rotate the secret of the webhook."},
	{SlugQuota, 409, "Quota reached", "A limit on jobs or steps is reached. Try again when others have ended, or raise the limit."},
	{SlugExpired, 409, "Expired", "The time for this is over, such as that of an approval."},
	{SlugTurn, 409, "Turn is over", "A later exchange of the same worker has begun, and this one has claimed nothing. Exchange again with the turn behind current, and with holding."},
	{SlugOffset, 409, "Wrong offset", "The bytes do not begin where the stored ones end. Append again from current on."},
	{SlugWorkerEnded, 410, "Worker has ended", "The worker was ended or counts as dead, and its steps went to others. Register a new one."},
	{SlugPreconditionFailed, 412, "Precondition failed", "The record has changed since the version that If-Match names. Read it again, then repeat the change on that version."},
	{SlugTooLarge, 413, "Too large", "The body is larger than this operation accepts. The detail names the limit."},
	{SlugUnsupportedMediaType, 415, "Unsupported media type", "The operation does not accept this type of body. Send application/json in UTF-8, not compressed."},
	{SlugInvalid, 422, "Invalid request", "The request is wrong by itself, whatever the state. The member errors names each fault."},
	{SlugKeyReused, 422, "Idempotency key reused", "The key was used before for a request with another content. Use a new key for each new request."},
	{SlugRateLimited, 429, "Too many requests", "The caller sends more requests than allowed. Wait for as long as the header Retry-After says."},
	{SlugInternal, 500, "Internal error", "The server has a fault. Its log has the reason, under the request_id of the problem."},
	{SlugUnavailable, 503, "Unavailable", "The server or its database is busy, stopping or out of reach. Try again later."},
}

// Kinds returns all kinds of problems, by status.
func Kinds() []Kind { return slices.Clone(kinds) }

// Code returns the slug in upper case with underscores: NOT_FOUND.
func (s Slug) Code() string { return strings.ToUpper(strings.ReplaceAll(string(s), "-", "_")) }

// kind returns the kind that the slug names. An unknown one is a bug: it becomes internal.
func (s Slug) kind() Kind {
	is := func(s Slug) func(Kind) bool { return func(k Kind) bool { return k.Slug == s } }
	i := slices.IndexFunc(kinds, is(s))
	if i < 0 {
		i = slices.IndexFunc(kinds, is(SlugInternal))
	}
	return kinds[i]
}

// problems is the path of the explanations of problems.
const problems = "/problems/"

// A Problem is an error as HTTP shows it: a problem document of RFC 9457.
type Problem struct {
	Type      string  `json:"type"`             // /problems/ and the slug, relative to the server
	Title     string  `json:"title"`            // the same for each problem of a type
	Status    int     `json:"status"`           // that of the response
	Detail    string  `json:"detail,omitempty"` // what is wrong this time
	Code      string  `json:"code"`             // the slug in upper case with underscores
	Hint      string  `json:"hint,omitempty"`   // what to do about it
	RequestID string  `json:"request_id,omitempty"`
	Errors    []Fault `json:"errors,omitempty"` // the faults of an invalid request

	// The refused transition: the id of the entity, its state, the event, and the events
	// that are legal in that state.
	Entity  string   `json:"entity,omitempty"`
	From    string   `json:"from,omitempty"`
	Event   string   `json:"event,omitempty"`
	Allowed []string `json:"allowed,omitempty"`

	// The claim that is over, and what is current in its place: a claim, a turn or an offset.
	Claim   int    `json:"claim,omitempty"`
	Current *int64 `json:"current,omitempty"`

	Methods []string `json:"-"` // for the header Allow of a 405

	RetryAfter time.Duration `json:"-"` // for the header of that name of a 429, in whole seconds
}

// A Fault is one thing that is wrong with a request.
type Fault struct {
	Location string `json:"location"` // such as body.inputs.size, query.limit or header.Pawl-Actor
	Message  string `json:"message"`
}

// Problemf returns a problem of the kind with a detail.
func Problemf(slug Slug, format string, args ...any) *Problem {
	k := slug.kind()
	return &Problem{Type: problems + string(k.Slug), Title: k.Title, Status: k.Status, Code: k.Slug.Code(), Detail: fmt.Sprintf(format, args...)}
}

// slugs are the slugs of errors by their kind, but for internal ones.
var slugs = map[pawl.Kind]Slug{
	pawl.Invalid:     SlugInvalid,
	pawl.NotFound:    SlugNotFound,
	pawl.Conflict:    SlugConflict,
	pawl.Refused:     SlugNotAllowed,
	pawl.Unavailable: SlugUnavailable,
}

// named are the errors that have a slug of their own, beside their kind.
var named = []struct {
	err  error
	slug Slug
}{
	{link.ErrKeyReused, SlugKeyReused},
	{link.ErrKeyHeld, SlugRequestInProgress},
	{link.ErrWorkerEnded, SlugWorkerEnded},
	{link.ErrChanged, SlugPreconditionFailed},
	{link.ErrSecretShown, SlugSecretShown},
}

// Of returns the problem that err is; nil for nil. A *Problem in the chain of err is returned
// as it is. A *machine.Refusal that is a conflict becomes invalid-state-transition; errors of
// package link with a slug of their own have it, any other *pawl.Error has that of its kind; and
// the end of a context becomes unavailable. What remains is internal: the problem does not
// contain its text, so the caller has to log it.
func Of(err error) *Problem {
	var p *Problem
	var large *http.MaxBytesError
	var turn *link.TurnError
	var cause *pawl.Error
	slug, known := slugOf(err)
	over := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		p = Problemf(SlugTooLarge, "the body is larger than %d bytes", large.Limit)
	case !known && over:
		p = Problemf(SlugUnavailable, "the request was ended before its response was there: it took too long, its caller left, or the server stops")
	case !known:
		return Problemf(SlugInternal, "the server has a fault; its log has the reason")
	case errors.As(err, &turn):
		p = Problemf(SlugTurn, "%s", err)
		p.Current = current(turn.Current)
	case slug == SlugConflict:
		p = conflict(err)
	case slug == SlugUnavailable && errors.As(err, &cause) && cause.Err != nil:
		p = Problemf(slug, "%s", cause.Message) // the cause has addresses and names of the database
	default:
		p = Problemf(slug, "%s", err)
	}
	if errors.As(err, &cause) {
		p.Hint = cause.Hint
	}
	return p
}

// slugOf returns the slug of an error whose text its caller may see.
func slugOf(err error) (slug Slug, known bool) {
	for _, n := range named {
		if errors.Is(err, n.err) {
			return n.slug, true
		}
	}
	slug, known = slugs[pawl.KindOf(err)]
	return slug, known
}

// conflict returns the problem of an error that the current state causes.
func conflict(err error) *Problem {
	var r *machine.Refusal
	if !errors.As(err, &r) {
		return Problemf(SlugConflict, "%s", err)
	}
	p := Problemf(SlugInvalidTransition, "%s", err)
	p.Entity, p.From, p.Event = r.Entity, string(r.State), string(r.Event)
	for _, e := range r.Allowed {
		p.Allowed = append(p.Allowed, string(e))
	}
	return p
}

// Error returns the detail.
func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title) }

// GetHeaders returns the headers that only some kinds of problems have.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfter != 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	return h
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

const (
	problemType     = "application/problem+json"
	requestIDHeader = "Request-Id" // of responses
)

// ContentType returns the media type of problems, whatever the client prefers.
func (p *Problem) ContentType(string) string { return problemType }

// Write sends the problem as the response. Without a RequestID it takes that of the response's
// header. Headers that describe another body are removed.
func (p *Problem) Write(w http.ResponseWriter) { p.write(w, w.WriteHeader) }

// write sends the problem by way of a function that sends the header with a status.
func (p *Problem) write(w http.ResponseWriter, begin func(status int)) {
	sent := *p
	sent.RequestID = cmp.Or(p.RequestID, w.Header().Get(requestIDHeader))
	sent.send(w, begin)
}

// send is write, without a RequestID that the problem does not have.
func (p *Problem) send(w http.ResponseWriter, begin func(status int)) {
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Location"} {
		h.Del(name)
	}
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.Status == http.StatusMethodNotAllowed {
		h.Set("Allow", strings.Join(p.Methods, ", "))
	}
	maps.Copy(h, p.GetHeaders())
	begin(p.Status)
	_ = p.encode(w) // the client is gone
}

// encode writes the problem as JSON.
func (p *Problem) encode(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(p)
}

// append appends the problem as JSON.
func (p *Problem) append(to []byte) []byte {
	b := bytes.NewBuffer(to)
	_ = p.encode(b) // a buffer takes everything, and a problem has only text and numbers
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Explain serves what a kind of problem means, as text, for the path /problems/{slug}.
func Explain(w http.ResponseWriter, r *http.Request) {
	slug := Slug(r.PathValue("slug"))
	k := slug.kind()
	if k.Slug != slug {
		Problemf(SlugNotFound, "no kind of problem has the name %q", slug).Write(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, "%s: %s (HTTP status %d)\n\n%s\n", k.Slug.Code(), k.Title, k.Status, k.Text)
}
