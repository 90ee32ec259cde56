package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl/workflow"
)

// newServer returns the URL of a server.
func newServer(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// answering serves one response. Headers are NAME, VALUE.
func answering(t *testing.T, code int, body string, headers ...string) string {
	return newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	})
}

func httpTask(t *testing.T, r *workflow.Request) *Task {
	t.Helper()
	return newTask(t, &workflow.Work{Kind: workflow.KindHTTP, HTTP: r})
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// send runs the task by HTTP, over connections of its own.
func send(t *testing.T, ctx context.Context, task *Task) Result {
	t.Helper()
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	return HTTP(HTTPConfig{Transport: transport, Now: func() time.Time { return noon }})(ctx, task)
}

// (T8) the output of a request.
func TestHTTPOutput(t *testing.T) {
	t.Parallel()
	const jsonType, textType = "application/json; charset=utf-8", "text/plain"
	tests := []struct {
		name        string
		mode        workflow.OutputMode
		contentType string
		body        string
		want        string // of the body, or CLASS: MESSAGE
	}{
		{"JSON", "text", jsonType, `{"id": 7}`, `{"id":7}`},
		{"JSON of another kind", "", "application/problem+json", `[1]`, `[1]`},
		{"JSON that is broken", "text", jsonType, `{"id`, `"{\"id"`},
		{"JSON that is empty", "text", jsonType, ``, `""`},
		{"text", "text", textType, "one\n", `"one"`},
		{"text that looks like JSON", "text", textType, "{}", `"{}"`},
		{"text not UTF-8", "text", textType, "a\xff", "\"a\uFFFD\""},
		{"lines", "lines", jsonType, "1\n2\n", `["1","2"]`},
		{"json", "json", textType, "{ }", `{}`},
		{"json that is none", "json", jsonType, "<html>", "invalid_output: the body of the response is not JSON: line 1, column 1: invalid character '<' looking for beginning of value"},
		{"too large", "text", textType, strings.Repeat("x", 301), strings.Replace(tooMuch("the body of the response has at least 301 bytes"), "most 100", "most 300", 1)},
		{"too large with its headers", "text", textType, strings.Repeat("x", 290), strings.Replace(tooMuch("the response has 405 bytes as JSON"), "most 100", "most 300", 1)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := answering(t, 201, test.body, "Content-Type", test.contentType, "X-Two", "a", "X-Two", "b", "Set-Cookie", "secret", "Date", "now")
			task := httpTask(t, &workflow.Request{URL: u})
			task.Output, task.Limits.Output = test.mode, 300
			r := send(t, context.Background(), task)
			if r.Failure != nil {
				got := r.Failure.Class + ": " + r.Failure.Message
				if diff := cmp.Diff(test.want, got); diff != "" || !r.Failure.Permanent {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			want := fmt.Sprintf(`{"status":201,"headers":{"content-length":"%d","content-type":"%s","date":"now","x-two":"a, b"},"body":%s}`,
				len(test.body), test.contentType, test.want)
			wantOutput(t, r, want)
		})
	}
}

func TestHTTPOutputNone(t *testing.T) {
	t.Parallel()
	task := httpTask(t, &workflow.Request{URL: answering(t, 200, strings.Repeat("x", 1000))})
	task.Output, task.Limits.Output = workflow.OutputNone, 10
	wantOutput(t, send(t, context.Background(), task), `null`)
}

// What is sent is what the step says.
func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	u := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode([]string{
			r.Method, r.RequestURI, r.Host, r.Header.Get("X-Day"), r.Header.Get("User-Agent"), r.Header.Get("Authorization"), string(b),
		})
	})
	tests := []struct {
		name    string
		request workflow.Request
		want    string
	}{
		{"defaults", workflow.Request{URL: u}, `["GET","/","HOST","","pawl","",""]`},
		{"all", workflow.Request{
			Method: "POST", URL: u + "/a%20b?c=d", Body: "body",
			Headers: map[string]string{"X-Day": "1", "user-agent": "me", "Host": "other.example"},
		}, `["POST","/a%20b?c=d","other.example","1","me","","body"]`},
		{"user", workflow.Request{URL: strings.Replace(u, "//", "//me:pw@", 1)}, `["GET","/","HOST","","pawl","Basic bWU6cHc=",""]`},
		{"user and header", workflow.Request{
			URL: strings.Replace(u, "//", "//me:pw@", 1), Headers: map[string]string{"Authorization": "Bearer t"},
		}, `["GET","/","HOST","","pawl","Bearer t",""]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := send(t, context.Background(), httpTask(t, &test.request))
			var got answer
			if err := json.Unmarshal(r.Output, &got); err != nil {
				t.Fatal(r.Failure, err)
			}
			want := strings.ReplaceAll(test.want, "HOST", strings.TrimPrefix(u, "http://"))
			if string(got.Body) != want {
				t.Errorf("sent %s, want %s", got.Body, want)
			}
		})
	}
}

// (T1) which statuses are a success, which may be met again, which are final.
func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code   int
		expect []int
		want   string
	}{
		{200, nil, "success"}, {204, nil, "success"}, {299, nil, "success"},
		{404, []int{404}, "success"}, {500, []int{200, 500}, "success"}, {302, []int{302}, "success"},
		{200, []int{201}, "permanent"}, {304, nil, "permanent"},
		{400, nil, "permanent"}, {401, nil, "permanent"}, {404, nil, "permanent"}, {409, nil, "permanent"}, {422, nil, "permanent"},
		{408, nil, "retryable"}, {425, nil, "retryable"}, {429, nil, "retryable"},
		{500, nil, "retryable"}, {501, nil, "retryable"}, {503, nil, "retryable"}, {599, nil, "retryable"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.code, test.expect), func(t *testing.T) {
			t.Parallel()
			task := httpTask(t, &workflow.Request{URL: answering(t, test.code, "", "Location", "/elsewhere"), Expect: test.expect})
			r := send(t, context.Background(), task)
			if test.want == "success" {
				if r.Failure != nil {
					t.Fatal(r.Failure)
				}
				return
			}
			wantFailure(t, r, fmt.Sprintf("http_%d", test.code), test.want == "permanent")
		})
	}
}

// (T6) Retry-After as seconds and as a date, up to an hour.
func TestHTTPRetryAfter(t *testing.T) {
	t.Parallel()
	date := func(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		code  int
		value string
		want  time.Duration
	}{
		{429, "120", 2 * time.Minute},
		{503, " 1 ", time.Second},
		{503, "3600", time.Hour},
		{503, "3601", time.Hour},
		{503, "99999999999999999999999", time.Hour},
		{503, "0", 0},
		{503, "-5", 0},
		{503, "+5", 0},
		{503, "1.5", 0},
		{503, "soon", 0},
		{503, "", 0},
		{503, date(90 * time.Second), 90 * time.Second},
		{503, date(-time.Second), 0},
		{503, date(48 * time.Hour), time.Hour},
		{503, noon.Add(time.Minute).Format(time.RFC850), time.Minute},
		{503, noon.Add(time.Minute).Format(time.ANSIC), time.Minute},
		{404, "120", 0},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.code, test.value), func(t *testing.T) {
			t.Parallel()
			task := httpTask(t, &workflow.Request{URL: answering(t, test.code, "", "Retry-After", test.value)})
			r := send(t, context.Background(), task)
			if got := time.Duration(r.Failure.Delay); got != test.want {
				t.Errorf("delay %v, want %v", got, test.want)
			}
		})
	}
}

// A failure shows what the server said, and none of the secrets it was sent.
func TestHTTPFailureHasNoSecrets(t *testing.T) {
	t.Parallel()
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, "bad: %s %v %s", r.RequestURI, r.Header, r.Header.Get("X-Api-Key"))
	}
	u := newServer(t, echo)
	request := &workflow.Request{
		URL:     strings.Replace(u, "//", "//me:hunter2@", 1) + "/path?token=s3cr3t%21",
		Headers: map[string]string{"X-Api-Key": "k3yk3y", "Cookie": "session=c00kie"},
	}
	f := wantFailure(t, send(t, context.Background(), httpTask(t, request)), "http_400", true)
	if want := "GET " + u + "/path: responded 400 Bad Request"; f.Message != want {
		t.Errorf("got %q, want %q", f.Message, want)
	}
	text := f.Message + string(f.Metadata)
	for _, secret := range []string{"hunter2", "s3cr3t", "k3yk3y", "c00kie", "bWU6aHVudGVyMg"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	if !strings.Contains(text, "bad: /path?***") {
		t.Errorf("the body is missing: %s", text)
	}
}

func TestHTTPFailureIsBounded(t *testing.T) {
	t.Parallel()
	task := httpTask(t, &workflow.Request{URL: answering(t, 500, strings.Repeat("x", 1<<20))})
	f := wantFailure(t, send(t, context.Background(), task), "http_500", false)
	if n := len(f.Metadata); n < maxExcerpt || n > maxExcerpt+100 {
		t.Errorf("metadata of %d bytes", n)
	}
}

// (T1) no response, or half of one, is retryable.
func TestHTTPNetworkErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://me:hunter2@" + l.Addr().String() + "/p?token=s3cr3t&k=abc"
	l.Close()
	hijacked := func(answer string) string {
		return newServer(t, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, answer)
				c.Close()
			}
		})
	}
	for name, u := range map[string]string{
		"refused":   refused,
		"closed":    hijacked(""),
		"garbage":   hijacked("garbage\r\n\r\n"),
		"half":      hijacked("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
		"not TLS":   strings.Replace(hijacked("HTTP/1.0 400 Bad Request\r\n\r\n"), "http:", "https:", 1),
		"no host":   "http://nonexistent.invalid/?token=s3cr3t",
		"no reason": hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := wantFailure(t, send(t, context.Background(), httpTask(t, &workflow.Request{URL: u})), "network", false)
			if strings.Contains(f.Message, "hunter2") || strings.Contains(f.Message, "s3cr3t") {
				t.Errorf("a secret is in %s", f.Message)
			}
			want := fmt.Sprintf("GET http://%[1]s/p: dial tcp %[1]s: connect: connection refused", l.Addr())
			if name == "refused" && f.Message != want {
				t.Errorf("got %s, want %s", f.Message, want)
			}
		})
	}
}

// What cannot be sent fails for good, and shows no secrets.
func TestHTTPInvalid(t *testing.T) {
	t.Parallel()
	header := func(name, value string) *workflow.Request {
		return &workflow.Request{URL: "http://localhost", Headers: map[string]string{name: value}}
	}
	for name, request := range map[string]*workflow.Request{
		"no request":   nil,
		"no URL":       {},
		"no host":      {URL: "http:///path"},
		"a file":       {URL: "file:///etc/passwd"},
		"not a URL":    {URL: "http://me:s3cr3t/x@host:port"},
		"method":       {URL: "http://localhost", Method: "A B"},
		"header name":  header("A B", "s3cr3t"),
		"no header":    header("", "s3cr3t"),
		"header value": header("X-Token", "s3cr3t\r\nX-Other: 1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := wantFailure(t, send(t, context.Background(), httpTask(t, request)), "invalid_work", true)
			if strings.Contains(f.Message, "s3cr3t") {
				t.Errorf("a secret is in %s", f.Message)
			}
		})
	}
}

// Redirects are followed, so far and no further.
func TestHTTPRedirects(t *testing.T) {
	t.Parallel()
	u := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		var left int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &left)
		if left == 0 {
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("X-Day")+r.Referer())
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/%d", left-1), http.StatusTemporaryRedirect)
	})
	task := httpTask(t, &workflow.Request{Method: "POST", URL: u + "/10?token=s3cr3t", Body: "b", Headers: map[string]string{"X-Day": "1"}})
	r := send(t, context.Background(), task)
	if r.Failure != nil || !strings.Contains(string(r.Output), `"body":"POST 1"`) {
		t.Errorf("got %s %v", r.Output, r.Failure)
	}
	task = httpTask(t, &workflow.Request{URL: u + "/11"})
	f := wantFailure(t, send(t, context.Background(), task), "too_many_redirects", true)
	if want := "GET " + u + "/11: more than 10 redirects"; f.Message != want {
		t.Errorf("got %s, want %s", f.Message, want)
	}
}

// A redirect to another origin takes neither body nor headers along, whatever its
// status: what would need them fails for good.
func TestHTTPRedirectToAnotherOrigin(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		delete(r.Header, "Accept-Encoding")
		_ = json.NewEncoder(w).Encode(r.Header)
	})
	u := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		http.Redirect(w, r, other+"/x?token=s3cr3t", code)
	})
	for _, code := range []int{301, 302, 303, 307, 308} {
		kept := code > 303
		for name, tt := range map[string]struct {
			request workflow.Request
			refused bool
		}{
			"plain":            {workflow.Request{}, false},
			"a body":           {workflow.Request{Method: "POST", Body: "b"}, kept},
			"a body of a type": {workflow.Request{Method: "POST", Body: "{}", Headers: map[string]string{"content-type": "application/json"}}, kept},
			"authorization":    {workflow.Request{Headers: map[string]string{"Authorization": "Bearer t"}}, true},
			"a cookie":         {workflow.Request{Headers: map[string]string{"Cookie": "a=b"}}, true},
			"its own":          {workflow.Request{Headers: map[string]string{"X-Api-Key": "k"}}, true},
			"a user":           {workflow.Request{URL: "//me:pw@"}, true},
		} {
			before := asked.Load()
			address := u
			if tt.request.URL != "" {
				address = strings.Replace(u, "//", tt.request.URL, 1)
			}
			tt.request.URL = fmt.Sprintf("%s/%d?token=s3cr3t", address, code)
			r := send(t, context.Background(), httpTask(t, &tt.request))
			if !tt.refused {
				var got answer
				if err := json.Unmarshal(r.Output, &got); err != nil || string(got.Body) != `{"User-Agent":["pawl"]}` {
					t.Errorf("%d, %s: the other origin got %s; %v", code, name, got.Body, r.Failure)
				}
				continue
			}
			f := wantFailure(t, r, "redirect_refused", true)
			if !strings.Contains(f.Message, "redirected to "+other+",") || strings.Contains(f.Message, "s3cr3t") || asked.Load() != before {
				t.Errorf("%d, %s: %s; the other origin was asked %d times", code, name, f.Message, asked.Load()-before)
			}
		}
	}
}

// A redirect from https to http is not followed, whatever it would take along.
func TestHTTPRedirectToPlainText(t *testing.T) {
	t.Parallel()
	other := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("it was followed") })
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }))
	t.Cleanup(secure.Close)
	r := HTTP(HTTPConfig{Transport: secure.Client().Transport})(t.Context(), httpTask(t, &workflow.Request{URL: secure.URL}))
	f := wantFailure(t, r, "redirect_refused", true)
	if !strings.Contains(f.Message, other) {
		t.Errorf("got %s, want it to name %s", f.Message, other)
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://Example.org":           "http://example.org",
		"http://example.org:80/a":      "http://example.org",
		"https://me@example.org:443/b": "https://example.org",
		"https://example.org:80":       "https://example.org:80",
		"http://[::1]:8080/":           "http://[::1]:8080",
	} {
		u, err := url.Parse(address)
		if err != nil || origin(u) != want {
			t.Errorf("%s: %s, %v, want %s", address, origin(u), err, want)
		}
	}
}

// The environment's proxy is not asked. Not parallel: it sets the environment.
func TestHTTPAsksNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	if NewTransport().Proxy != nil {
		t.Error("a proxy is asked")
	}
}

// (T1) the context ends a request, before the response and in the middle of it.
func TestHTTPStopped(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]bool{"before the answer": false, "in the answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(context.Background())
			u := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if begin {
					_, _ = io.WriteString(w, "half")
					_ = http.NewResponseController(w).Flush()
				}
				cancel(ErrTimeout)
				<-r.Context().Done()
			})
			wantFailure(t, send(t, ctx, httpTask(t, &workflow.Request{URL: u})), "timeout", false)
			wantFailure(t, send(t, ctx, httpTask(t, &workflow.Request{URL: u})), "timeout", false)
		})
	}
}
