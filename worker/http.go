package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// HTTPConfig is what HTTP needs. The zero value is usable.
type HTTPConfig struct {
	// Transport sends the requests; its owner closes its idle connections. nil
	// is NewTransport().
	Transport http.RoundTripper

	// Redirects is how many redirects are followed before the request fails; default
	// 10.
	Redirects int

	Now func() time.Time // for Retry-After; default time.Now
}

// DefaultRedirects is how many redirects of a request are followed.
const DefaultRedirects = 10

// NewTransport returns the transport that HTTP uses. It ignores proxies in the
// environment; its Proxy may be set before it is used. An idle connection is closed
// after 30 s.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           100,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
}

// HTTP makes the Handler that sends requests. The package comment says what their
// output is. The context limits the time.
func HTTP(c HTTPConfig) Handler {
	if c.Transport == nil {
		c.Transport = NewTransport()
	}
	if c.Redirects <= 0 {
		c.Redirects = DefaultRedirects
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c.run
}

func (c HTTPConfig) run(ctx context.Context, t *Task) Result {
	if ctx.Err() != nil {
		return Result{Failure: stopped(ctx)}
	}
	r, failure := c.newRequest(ctx, t)
	if failure != nil {
		return Result{Failure: failure}
	}
	response, err := r.client().Do(r.request)
	if err != nil {
		return Result{Failure: r.broken(ctx, err)}
	}
	defer response.Body.Close()
	t.Log.Notef("%s: responded %s", r.name, status(response.StatusCode))
	if !r.expects(response.StatusCode) {
		return Result{Failure: r.unexpected(response)}
	}
	return r.output(ctx, response)
}

// A request is the execution of one task.
type request struct {
	config  HTTPConfig
	task    *Task
	limit   int // bytes of the output
	request *http.Request
	url     *url.URL // as it was given
	name    string   // for error texts and logs: without user, query and fragment
}

func (c HTTPConfig) newRequest(ctx context.Context, t *Task) (*request, *pawl.Failure) {
	work := t.Work.HTTP
	if work == nil {
		return nil, permanent("invalid_work", "http: no request is given")
	}
	u, err := url.Parse(work.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, permanent("invalid_work", "http.url is not the URL of a request; want http:// or https:// and a host")
	}
	hr, err := http.NewRequestWithContext(ctx, work.Method, work.URL, strings.NewReader(work.Body))
	if err != nil {
		return nil, permanent("invalid_work", "http.method %q is not a method", bounded(work.Method, 64))
	}
	r := &request{
		config: c, task: t, limit: t.Limits.withDefaults().Output,
		request: hr, url: u, name: hr.Method + " " + shown(u),
	}
	return r, r.setHeaders(work.Headers)
}

// setHeaders sets the headers of the step. A user in the URL becomes a header, so that
// it is protected like one.
func (r *request) setHeaders(given map[string]string) *pawl.Failure {
	h := r.request.Header
	h.Set("User-Agent", "pawl")
	if t := r.task.Traceparent; t != "" {
		h.Set("traceparent", t)
	}
	if user := r.url.User; user != nil {
		password, _ := user.Password()
		r.request.SetBasicAuth(user.Username(), password)
		r.request.URL.User = nil
	}
	for name, value := range given {
		if !isToken(name) {
			return permanent("invalid_work", "http.headers: %q is not the name of a header", bounded(name, 64))
		}
		if !isHeaderValue(value) {
			return permanent("invalid_work", "http.headers: the value of %s has a control character", name)
		}
		h.Set(name, value)
	}
	if host := h.Get("Host"); host != "" {
		r.request.Host = host
	}
	return nil
}

// shown formats a URL without what may be a secret.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

var errRedirects = errors.New("too many redirects")

func (r *request) client() *http.Client {
	return &http.Client{Transport: r.config.Transport, CheckRedirect: r.redirect}
}

// A redirectError is returned for a redirect that is not followed.
type redirectError struct{ to, why, do string }

func (e *redirectError) Error() string { return "redirect to " + e.to + ": " + e.why }

// redirect follows a redirect unless its status is an expected one. To another origin
// it follows none with a body or headers of the step, and it never follows one from
// https to http. It sends no Referer. All of these may hold secrets.
func (r *request) redirect(next *http.Request, via []*http.Request) error {
	if len(r.task.Work.HTTP.Expect) > 0 && r.expects(next.Response.StatusCode) {
		return http.ErrUseLastResponse
	}
	if len(via) > r.config.Redirects {
		return errRedirects
	}
	next.Header.Del("Referer")
	to := origin(next.URL)
	const direct = "if that is the right receiver, write its address into url"
	switch {
	case via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return &redirectError{to, "it is not encrypted, and the request was", "ask the service for an https address"}
	case to == origin(via[0].URL):
		return nil
	case next.Body != nil && next.Body != http.NoBody:
		return &redirectError{to, "the body is not sent to another origin", direct}
	case r.hasHeaders():
		return &redirectError{to, "the headers are not sent to another origin", direct}
	}
	next.Header = http.Header{"User-Agent": {"pawl"}}
	return nil
}

// hasHeaders reports whether the step sets headers other than those that describe the
// body, which are sent with the body only.
func (r *request) hasHeaders() bool {
	for name := range r.task.Work.HTTP.Headers {
		if !strings.EqualFold(name, "Content-Type") {
			return true
		}
	}
	return r.url.User != nil
}

// origin returns the scheme, host and port of an address, in one form.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"http": ":80", "https": ":443"} {
		if u.Scheme == scheme {
			host = strings.TrimSuffix(host, port)
		}
	}
	return u.Scheme + "://" + host
}

func (r *request) expects(code int) bool {
	expect := r.task.Work.HTTP.Expect
	if len(expect) == 0 {
		return code >= 200 && code <= 299
	}
	return slices.Contains(expect, code)
}

// broken judges a request that got no response, or an incomplete one.
func (r *request) broken(ctx context.Context, err error) *pawl.Failure {
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	if errors.Is(err, errRedirects) {
		return permanent("too_many_redirects", "%s: more than %d redirects", r.name, r.config.Redirects)
	}
	var refused *redirectError
	if errors.As(err, &refused) {
		return permanent("redirect_refused", "%s: redirected to %s, which is not followed: %s; %s, or expect the status and read the header location",
			r.name, bounded(refused.to, maxMessage), refused.why, refused.do)
	}
	// The text of a url.Error has the whole URL in it.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	return retryable("network", "%s: %s", r.name, bounded(r.redact(err.Error()), maxMessage))
}

// unexpected judges a response with an unexpected status (T1, T6).
func (r *request) unexpected(response *http.Response) *pawl.Failure {
	code := response.StatusCode
	f := permanent(fmt.Sprintf("http_%d", code), "%s: responded %s", r.name, status(code))
	if transient(code) {
		f.Permanent = false
		f.Delay = pawl.Duration(retryAfter(response.Header.Get("Retry-After"), r.config.Now()))
	}
	// More than is shown, so that no secret to be redacted is cut in two. An error
	// leaves what was read.
	excerpt, _ := io.ReadAll(io.LimitReader(response.Body, 2*maxExcerpt))
	f.Metadata = metadata(map[string]any{"status": code, "body": bounded(r.redact(string(excerpt)), maxExcerpt)})
	return f
}

// transient reports whether a later attempt may get another status (T1).
func transient(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooEarly ||
		code == http.StatusTooManyRequests || code >= 500
}

func status(code int) string { return strings.TrimSpace(fmt.Sprint(code, " ", http.StatusText(code))) }

// output makes the output of an expected response.
func (r *request) output(ctx context.Context, response *http.Response) Result {
	if r.task.Output == workflow.OutputNone {
		return Result{Output: json.RawMessage("null")}
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, int64(r.limit)+1))
	if err != nil {
		return Result{Failure: r.broken(ctx, err)}
	}
	s := source{name: "the body of the response", bytes: b, size: int64(len(b)), least: true, limit: r.limit}
	body, note := s.output(bodyMode(r.task.Output, response, b))
	if note != "" {
		r.task.Log.Notef("%s", note)
	}
	if body.Failure != nil {
		return body
	}
	return encoded("the response", answer{response.StatusCode, headers(response.Header), body.Output}, r.limit)
}
