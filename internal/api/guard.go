package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

const (
	maxBody  = 8 << 20 // bytes
	maxActor = 128     // characters

	defaultActor = "api"

	actorHeader = "Pawl-Actor"
)

// A GuardConfig says what a guard lets through.
type GuardConfig struct {
	// Raw are the paths whose requests may have bodies of any media type, as patterns of
	// path.Match: /api/steps/*/log.
	Raw []string

	// Open are the paths that are for anybody: what a request shows of its sender is not looked at,
	// so that they answer though the database is away.
	Open []string

	// Gate lets callers in. nil: whoever reaches the server has all roles.
	Gate *access.Gate

	// Cookie is the name of the cookie of a session, which is tried before those of others.
	Cookie string

	// MaxBody is the size limit of request bodies in bytes. 0: 8 MiB.
	MaxBody int64

	// Log gets the panics of handlers. nil: they are not logged.
	Log *slog.Logger
}

// Guard returns a handler that passes on to next the requests of callers that its gate lets in,
// with their principals in the contexts. It refuses everything else with a problem:
//
//   - a Host that is not of the loopback interface, with 403, unless tokens are required: a web
//     page whose name leads here would otherwise speak for this machine (DNS rebinding);
//   - a write that a browser sends for a page of another origin, and any request to /api/ that
//     it sends for one of another site, with 403;
//   - a token that is not valid, with 401, and a caller who sends too much, with 429;
//   - a path with an empty segment, a slash at its end, or dot segments, with 404;
//   - a body of another media type than JSON in UTF-8, with 415;
//   - a body beyond the limit, with 413. If it was not announced, reading it fails instead;
//   - an actor that is not 1 to 128 visible characters, or not the caller's, with 422;
//   - a panic of next, with 500, if the response has not begun.
//
// Each response has the header Request-Id, which [RequestIDOf] returns. The ResponseWriter of
// next has no methods of its own: use http.ResponseController.
func Guard(next http.Handler, config GuardConfig) http.Handler {
	g := &guard{GuardConfig: config, next: next, origins: http.NewCrossOriginProtection()}
	g.MaxBody = cmp.Or(g.MaxBody, maxBody)
	g.Log = cmp.Or(g.Log, slog.New(slog.DiscardHandler))
	return g
}

type guard struct {
	GuardConfig
	next    http.Handler
	origins *http.CrossOriginProtection
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	w.Header().Set(requestIDHeader, id)
	who, actor, p := g.judge(r)
	if p != nil {
		if p.Status == http.StatusRequestEntityTooLarge {
			w.Header().Set("Connection", "close")
		}
		p.Write(w)
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, g.MaxBody)
	}
	b := &begun{ResponseWriter: w}
	defer g.recover(b, r, id)
	g.next.ServeHTTP(b, r.WithContext(context.WithValue(access.With(r.Context(), who), callKey{}, call{actor, id, r.RemoteAddr, r.TLS != nil})))
}

// judge returns who sends a request, and its actor, or why it is refused.
func (g *guard) judge(r *http.Request) (who *access.Principal, actor string, p *Problem) {
	tokens := g.Gate != nil && g.Gate.Required
	if !tokens && !local(r.Host) {
		p = Problemf(SlugNotAllowed, "the header Host is %q: want localhost, an address of 127.0.0.0/8, or [::1]", r.Host)
		p.Hint = "without tokens the server serves this machine only; a proxy in front of it has to send the address of the server as Host"
		return nil, "", p
	}
	if !plain(r.URL) {
		return nil, "", noSuchOperation(r)
	}
	if g.origins.Check(r) != nil || r.Header.Get("Sec-Fetch-Site") == "cross-site" && strings.HasPrefix(r.URL.Path, "/api/") {
		return nil, "", Problemf(SlugNotAllowed, "a page of another origin sent this request through a browser")
	}
	if who, p = g.enter(r); p != nil {
		return nil, "", p
	}
	if r.ContentLength > g.MaxBody {
		return nil, "", Problemf(SlugTooLarge, "the body has %d bytes: want at most %d", r.ContentLength, g.MaxBody)
	}
	if p := g.media(r); p != nil {
		return nil, "", p
	}
	if actor, p = actorOf(r.Header[actorHeader], who); p != nil {
		return nil, "", p
	}
	return who, actor, nil
}

// local reports whether the header Host is of the loopback interface.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // it has no port
		name = host
		if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
			name, bracketed = strings.CutSuffix(inner, "]")
			if !bracketed {
				return false
			}
		}
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.IsLoopback() || strings.EqualFold(name, "localhost")
}

// plain reports whether the path is in the one form in which an operation has it: rooted,
// without empty or dot segments, no slash at the end, and text once it is decoded.
func plain(u *url.URL) bool {
	escaped, rooted := strings.CutPrefix(u.EscapedPath(), "/")
	if !rooted {
		return false
	}
	if escaped == "" {
		return true
	}
	for segment := range strings.SplitSeq(escaped, "/") {
		segment, err := url.PathUnescape(segment)
		switch {
		case err != nil, segment == "", segment == ".", segment == "..":
			return false
		case !utf8.ValidString(segment), strings.ContainsFunc(segment, unicode.IsControl):
			return false
		}
	}
	return true
}

// media returns why the media type of the body is refused, or nil.
func (g *guard) media(r *http.Request) *Problem {
	writes := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if r.ContentLength == 0 || !slices.Contains(writes, r.Method) || g.raw(r) {
		return nil
	}
	if coding := strings.Join(r.Header["Content-Encoding"], ", "); coding != "" && !strings.EqualFold(coding, "identity") {
		return Problemf(SlugUnsupportedMediaType, "the header Content-Encoding is %q: want a body that is not compressed", coding)
	}
	types := r.Header["Content-Type"]
	if len(types) == 1 && isJSON(types[0]) {
		return nil
	}
	return Problemf(SlugUnsupportedMediaType, "the header Content-Type is %q: want application/json, in UTF-8", strings.Join(types, ", "))
}

func (g *guard) raw(r *http.Request) bool {
	return slices.ContainsFunc(g.Raw, func(pattern string) bool {
		matches, err := path.Match(pattern, r.URL.EscapedPath())
		return matches && err == nil
	})
}

func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	json := media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
	return err == nil && json && (!given || strings.EqualFold(charset, "utf-8"))
}

// actorOf returns the actor that the values of the header name. That of a caller with a token
// is always its principal.
func actorOf(values []string, who *access.Principal) (string, *Problem) {
	switch {
	case len(values) == 0:
		return cmp.Or(who.Name, defaultActor), nil
	case who.Name != "" && len(values) == 1 && values[0] == who.Name:
		return who.Name, nil
	case who.Name != "":
		p := Problemf(SlugInvalid, "the header %s is %q: with this token want %s, or no such header", actorHeader, strings.Join(values, ", "), who.Name)
		p.Errors = []Fault{{"header." + actorHeader, "want " + who.Name + ", or no such header"}}
		return "", p
	}
	actor := values[0]
	invisible := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if n := utf8.RuneCountInString(actor); len(values) == 1 && n > 0 && n <= maxActor && utf8.ValidString(actor) && !strings.ContainsFunc(actor, invisible) && !reserved(actor) {
		return actor, nil
	}
	p := Problemf(SlugInvalid, "the header %s is invalid", actorHeader)
	p.Errors = []Fault{{"header." + actorHeader, fmt.Sprintf("want it once, with 1 to %d visible characters and no spaces, and neither engine, token:, oidc: nor the id of a worker", maxActor)}}
	return "", p
}

// reserved reports whether an actor is one of Pawl itself, for which nobody else may act.
func reserved(actor string) bool {
	_, err := pawl.ParseID(pawl.WorkerPrefix, actor)
	return actor == "engine" || access.Reserved(actor) || err == nil
}

// recover ends a response whose handler has panicked.
func (g *guard) recover(b *begun, r *http.Request, id string) {
	fault := recover()
	if fault == nil {
		return
	}
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(fault)
	}
	g.Log.Error("a request has met a fault of the program", "request_id", id, "method", r.Method, "path", r.URL.Path,
		"panic", fault, "stack", string(debug.Stack()))
	if b.done {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	Of(fmt.Errorf("panic: %v", fault)).Write(b)
}

// A begun knows whether the response has begun.
type begun struct {
	http.ResponseWriter
	done bool
}

// WriteHeader begins the response, unless the status is informational.
func (b *begun) WriteHeader(status int) {
	b.done = b.done || status >= 200
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(data []byte) (int, error) {
	b.done = true
	return b.ResponseWriter.Write(data)
}

// FlushError begins the response.
func (b *begun) FlushError() error {
	b.done = true
	return http.NewResponseController(b.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// A call is what a guard knows of a request.
type call struct {
	actor, id string
	address   string // of the caller
	secure    bool   // it came over TLS
}

type callKey struct{}

// callOf returns what a guard knows of a request.
func callOf(ctx context.Context) call {
	c, _ := ctx.Value(callKey{}).(call)
	return c
}

// ActorOf returns who acts in a request that passed a guard: the principal of its token, or the
// header Pawl-Actor, or "api".
func ActorOf(ctx context.Context) string {
	return cmp.Or(callOf(ctx).actor, defaultActor)
}

// RequestIDOf returns the id of a request that passed a guard, under which its errors are
// logged, or "".
func RequestIDOf(ctx context.Context) string {
	return callOf(ctx).id
}

// NotFound returns a handler that serves what mux has patterns for. It answers unknown paths
// and methods with a problem, where mux would answer with a text or a redirect.
func NotFound(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		switch {
		case !plain(r.URL) || redirects(pattern, r.URL):
			noSuchOperation(r).Write(w)
		case pattern == "":
			missing(h, r).Write(w)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// redirects reports whether the pattern fits the path only with a slash at its end.
func redirects(pattern string, u *url.URL) bool {
	_, rooted, _ := strings.Cut(pattern, "/") // without method and host
	return strings.HasSuffix(pattern, "/") && strings.Count(u.EscapedPath(), "/") < strings.Count("/"+rooted, "/")
}

// missing returns the problem of a request for which a mux has no pattern. Only fallback, the
// mux's own answer, knows the methods that the path has.
func missing(fallback http.Handler, r *http.Request) *Problem {
	d := discard{}
	fallback.ServeHTTP(d, r)
	methods := http.Header(d).Get("Allow")
	if methods == "" {
		return noSuchOperation(r)
	}
	p := Problemf(SlugMethodNotAllowed, "%s is not allowed for %s: want %s", r.Method, r.URL.EscapedPath(), methods)
	p.Methods = strings.Split(methods, ", ")
	return p
}

func noSuchOperation(r *http.Request) *Problem {
	p := Problemf(SlugNoSuchOperation, "there is nothing at %s", r.URL.EscapedPath())
	p.Hint = "/openapi.json lists all operations"
	return p
}

// A discard is a response of which only the header is kept.
type discard http.Header

func (d discard) Header() http.Header            { return http.Header(d) }
func (d discard) Write(data []byte) (int, error) { return len(data), nil }
func (d discard) WriteHeader(int)                {}

// AllowWrite lets the response take up to d from now, instead of what the server gives each.
// A handler that waits, such as a long poll, calls it before it waits, with the time that it
// may wait and some seconds to write. It returns an error that wraps http.ErrNotSupported if
// w is of no server.
func AllowWrite(w http.ResponseWriter, d time.Duration) error {
	return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// AllowRead lets the rest of the request's body take up to d from now, instead of what the
// server gives each. Errors are those of AllowWrite.
func AllowRead(w http.ResponseWriter, d time.Duration) error {
	return http.NewResponseController(w).SetReadDeadline(time.Now().Add(d))
}
