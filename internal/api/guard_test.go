package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// served returns the address of a server whose handler is behind a guard with a body limit of
// 64 bytes, and what the guard logs, to be read when the server is closed.
func served(t *testing.T) (s *httptest.Server, log *bytes.Buffer) {
	t.Helper()
	mux := http.NewServeMux()
	tell := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			Of(err).Write(w)
			return
		}
		fmt.Fprintf(w, "%s by %s", r.Pattern, ActorOf(r.Context()))
	}
	for _, pattern := range []string{"GET /{$}", "GET /api/jobs", "POST /api/jobs", "GET /api/jobs/{id}", "DELETE /api/jobs/{id}", "POST /api/steps/{id}/log", "GET /docs/", "/any"} {
		mux.HandleFunc(pattern, tell)
	}
	mux.HandleFunc("GET /panic", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "3")
		panic("secret")
	})
	mux.HandleFunc("GET /panic/late", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 10000))
		panic("secret")
	})
	mux.HandleFunc("GET /panic/flushed", func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic("secret")
	})
	mux.HandleFunc("GET /abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	log = &bytes.Buffer{}
	s = httptest.NewServer(Guard(NotFound(mux), GuardConfig{Raw: []string{"/api/steps/*/log"}, MaxBody: 64, Log: slog.New(slog.NewTextHandler(log, nil))}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	t.Cleanup(s.Close)
	return s, log
}

// exchange sends a request as it is, and returns the response and its body.
func askGuard(t *testing.T, s *httptest.Server, request string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return r, string(body)
}

// TestGuard: what a page of a browser, a mistaken client or a curious one may send is refused
// by a problem document.
func TestGuard(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	const head = "Host: localhost\r\n"
	write := func(lines, body string) string {
		return fmt.Sprintf("POST /api/jobs HTTP/1.1\r\n%s%sContent-Length: %d\r\n\r\n%s", head, lines, len(body), body)
	}
	get := func(path, lines string) string { return "GET " + path + " HTTP/1.1\r\n" + lines + "\r\n" }
	chunked := func(body string) string {
		return fmt.Sprintf("POST /api/jobs HTTP/1.1\r\n%sContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body)
	}
	for _, tt := range []struct {
		name, request string
		status        int
		code          string // of the problem, or the text
	}{
		{"localhost", get("/api/jobs", "Host: LocalHost:7295\r\n"), 200, "GET /api/jobs by api"},
		{"IPv4", get("/api/jobs", "Host: 127.3.2.1\r\n"), 200, "GET /api/jobs by api"},
		{"IPv6", get("/api/jobs", "Host: [::1]:80\r\n"), 200, "GET /api/jobs by api"},
		{"IPv6 without a port", get("/api/jobs", "Host: [::1]\r\n"), 200, "GET /api/jobs by api"},
		{"rebinding", get("/api/jobs", "Host: pawl.attacker.example:7295\r\n"), 403, "NOT_ALLOWED"},
		{"an address as a prefix", get("/api/jobs", "Host: 127.0.0.1.attacker.example\r\n"), 403, "NOT_ALLOWED"},
		{"localhost as a prefix", get("/api/jobs", "Host: localhost.attacker.example\r\n"), 403, "NOT_ALLOWED"},
		{"localhost as a suffix", get("/api/jobs", "Host: attacker.localhost\r\n"), 403, "NOT_ALLOWED"},
		{"another address", get("/api/jobs", "Host: 192.0.2.1\r\n"), 403, "NOT_ALLOWED"},
		{"any address", get("/api/jobs", "Host: 0.0.0.0:7295\r\n"), 403, "NOT_ALLOWED"},
		{"half a bracket", get("/api/jobs", "Host: [::1\r\n"), 403, "NOT_ALLOWED"},
		{"empty Host", get("/api/jobs", "Host:\r\n"), 403, "NOT_ALLOWED"},
		{"no Host", "GET /api/jobs HTTP/1.0\r\n\r\n", 403, "NOT_ALLOWED"},
		{"a target of another host", get("http://attacker.example/api/jobs", head), 403, "NOT_ALLOWED"},
		{"a target of this host", get("http://localhost/api/jobs", "Host: attacker.example\r\n"), 200, "GET /api/jobs by api"},

		{"a page of another site reads", get("/api/jobs", head+"Sec-Fetch-Site: cross-site\r\n"), 403, "NOT_ALLOWED"},
		{"a link of another site passes, but to the API", get("/docs", head+"Sec-Fetch-Site: cross-site\r\n"), 404, "NO_SUCH_OPERATION"},
		{"another site writes", write("Content-Type: application/json\r\nSec-Fetch-Site: cross-site\r\n", "{}"), 403, "NOT_ALLOWED"},
		{"another port writes", write("Content-Type: application/json\r\nSec-Fetch-Site: same-site\r\n", "{}"), 403, "NOT_ALLOWED"},
		{"this origin writes", write("Content-Type: application/json\r\nSec-Fetch-Site: same-origin\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"another origin writes", write("Content-Type: application/json\r\nOrigin: http://attacker.example\r\n", "{}"), 403, "NOT_ALLOWED"},
		{"a sandbox writes", write("Content-Type: application/json\r\nOrigin: null\r\n", "{}"), 403, "NOT_ALLOWED"},
		{"an old browser's own page writes", write("Content-Type: application/json\r\nOrigin: http://localhost\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"no body, another origin", "DELETE /api/jobs/1 HTTP/1.1\r\n" + head + "Origin: http://attacker.example\r\n\r\n", 403, "NOT_ALLOWED"},

		{"JSON", write("Content-Type: application/json\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"JSON in UTF-8", write("Content-Type: Application/JSON; charset=UTF-8\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"a kind of JSON", write("Content-Type: application/merge-patch+json\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"no body", write("", ""), 200, "POST /api/jobs by api"},
		{"no type", write("", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"a form", write("Content-Type: application/x-www-form-urlencoded\r\n", "a=b"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"text", write("Content-Type: text/plain\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"text that is JSON", write("Content-Type: text/x+json\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"JSON in UTF-16", write("Content-Type: application/json; charset=utf-16\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"two types", write("Content-Type: application/json\r\nContent-Type: text/plain\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"a broken type", write("Content-Type: application/json; charset\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"compressed", write("Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "{}"), 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"not compressed", write("Content-Type: application/json\r\nContent-Encoding: identity\r\n", "{}"), 200, "POST /api/jobs by api"},
		{"raw", "POST /api/steps/st_1/log HTTP/1.1\r\n" + head + "Content-Type: application/octet-stream\r\nContent-Length: 2\r\n\r\n{}", 200, "POST /api/steps/{id}/log by api"},
		{"like raw", "POST /api/steps%2Fst_1/log HTTP/1.1\r\n" + head + "Content-Type: application/octet-stream\r\nContent-Length: 2\r\n\r\n{}", 415, "UNSUPPORTED_MEDIA_TYPE"},

		{"a large body", write("Content-Type: application/json\r\n", strings.Repeat("x", 64)), 200, "POST /api/jobs by api"},
		{"a larger body", write("Content-Type: application/json\r\n", strings.Repeat("x", 65)), 413, "TOO_LARGE"},
		{"a body that was not announced", chunked(strings.Repeat("x", 64)), 200, "POST /api/jobs by api"},
		{"a larger one that was not announced", chunked(strings.Repeat("x", 65)), 413, "TOO_LARGE"},

		{"root", get("/", head), 200, "GET /{$} by api"},
		{"id", get("/api/jobs/j_1?x=//y/../z/", head), 200, "GET /api/jobs/{id} by api"},
		{"id with a slash", get("/api/jobs/a%2Fb", head), 200, "GET /api/jobs/{id} by api"},
		{"two slashes", get("//api/jobs", head), 404, "NO_SUCH_OPERATION"},
		{"two slashes inside", get("/api//jobs", head), 404, "NO_SUCH_OPERATION"},
		{"slash at the end", get("/api/jobs/", head), 404, "NO_SUCH_OPERATION"},
		{"a tree without its slash", get("/docs", head), 404, "NO_SUCH_OPERATION"},
		{"in a tree", get("/docs/x/y", head), 200, "GET /docs/ by api"},
		{"dot", get("/api/./jobs", head), 404, "NO_SUCH_OPERATION"},
		{"dots", get("/api/x/../jobs", head), 404, "NO_SUCH_OPERATION"},
		{"encoded dots", get("/api/%2e%2E/jobs", head), 404, "NO_SUCH_OPERATION"},
		{"NUL", get("/api/jobs/a%00b", head), 404, "NO_SUCH_OPERATION"},
		{"line feed", get("/api/jobs/a%0ab", head), 404, "NO_SUCH_OPERATION"},
		{"not UTF-8", get("/api/jobs/%ff", head), 404, "NO_SUCH_OPERATION"},
		{"unknown", get("/api/job", head), 404, "NO_SUCH_OPERATION"},
		{"CONNECT", "CONNECT localhost:80 HTTP/1.1\r\n" + head + "\r\n", 404, "NO_SUCH_OPERATION"},

		{"HEAD", "HEAD /api/jobs HTTP/1.1\r\n" + head + "\r\n", 200, ""},
		{"HEAD of nothing", "HEAD /api/job HTTP/1.1\r\n" + head + "\r\n", 404, ""},
		{"any method", "BREW /any HTTP/1.1\r\n" + head + "\r\n", 200, "/any by api"},
		{"wrong method", "PATCH /api/jobs HTTP/1.1\r\n" + head + "\r\n", 405, "METHOD_NOT_ALLOWED"},
		{"OPTIONS", "OPTIONS /api/jobs HTTP/1.1\r\n" + head + "\r\n", 405, "METHOD_NOT_ALLOWED"},

		{"actor", get("/api/jobs", head+"Pawl-Actor: user:ada\r\n"), 200, "GET /api/jobs by user:ada"},
		{"actor beyond ASCII", get("/api/jobs", head+"Pawl-Actor: Zoë\r\n"), 200, "GET /api/jobs by Zoë"},
		{"longest actor", get("/api/jobs", head+"Pawl-Actor: "+strings.Repeat("é", 128)+"\r\n"), 200, "GET /api/jobs by " + strings.Repeat("é", 128)},
		{"longer actor", get("/api/jobs", head+"Pawl-Actor: "+strings.Repeat("a", 129)+"\r\n"), 422, "INVALID"},
		{"empty actor", get("/api/jobs", head+"Pawl-Actor:\r\n"), 422, "INVALID"},
		{"two words", get("/api/jobs", head+"Pawl-Actor: a b\r\n"), 422, "INVALID"},
		{"two actors", get("/api/jobs", head+"Pawl-Actor: a\r\nPawl-Actor: b\r\n"), 422, "INVALID"},
		{"an actor who turns the text around", get("/api/jobs", head+"Pawl-Actor: a\u202eb\r\n"), 422, "INVALID"},
		{"an actor of other bytes", get("/api/jobs", head+"Pawl-Actor: a\xffb\r\n"), 422, "INVALID"},

		{"panic", get("/panic", head), 500, "INTERNAL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, body := askGuard(t, s, tt.request)
			if r.StatusCode != tt.status || r.Header.Get("Location") != "" || r.Header.Get("Request-Id") == "" {
				t.Fatalf("status %d, header %v, body %s: want %d", r.StatusCode, r.Header, body, tt.status)
			}
			if tt.status < 300 || tt.code == "" {
				if body != tt.code {
					t.Errorf("body %q: want %q", body, tt.code)
				}
				return
			}
			var p Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || r.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("body %s, header %v: %v", body, r.Header, err)
			}
			if p.Code != tt.code || p.Status != tt.status || p.RequestID != r.Header.Get("Request-Id") || strings.Contains(body, "secret") {
				t.Errorf("problem %s: want %s", body, tt.code)
			}
		})
	}
}

// TestAllow: a wrong method is answered with those that the path has.
func TestAllow(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	r, body := askGuard(t, s, "PUT /api/jobs/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if got := r.Header.Get("Allow"); got != "DELETE, GET, HEAD" || !strings.Contains(body, "PUT is not allowed for /api/jobs/1: want DELETE, GET, HEAD") {
		t.Errorf("Allow %q, body %s", got, body)
	}
}

// TestHostIsExplained: whoever puts a proxy in front of the server reads what it has to send.
func TestHostIsExplained(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	if _, body := askGuard(t, s, "GET / HTTP/1.1\r\nHost: pawl.example\r\n\r\n"); !strings.Contains(body, `the header Host is \"pawl.example\": want localhost`) || !strings.Contains(body, "a proxy in front of it has to send") {
		t.Errorf("body %s", body)
	}
}

// TestAnnouncedBody: a body that is announced as too large is refused before it is sent.
func TestAnnouncedBody(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	r, body := askGuard(t, s, "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n{")
	if r.StatusCode != 413 || !r.Close || !strings.Contains(body, "the body has 10000000000 bytes: want at most 64") {
		t.Errorf("status %d, closed %t, body %s", r.StatusCode, r.Close, body)
	}
}

// TestHeaderInjection: what a client sends comes back in no header, and breaks no other.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	s, _ := served(t)
	for _, request := range []string{
		"GET /api/jobs/x%0d%0aEvil:%201 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"PUT /api/jobs/x%0d%0aEvil:%201 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\nPawl-Actor: x\rEvil: 1\r\n\r\n",
		"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\nRequest-Id: Evil\r\n\r\n",
		"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\n Evil: 1\r\n\r\n",
	} {
		if r, _ := askGuard(t, s, request); r.Header.Get("Evil") != "" || r.Header.Get("Request-Id") == "Evil" {
			t.Errorf("%q: header %v", request, r.Header)
		}
	}
}

// TestPanics: a panic ends its request, with a problem if the response has not begun, and is
// logged; the connection serves the next request.
func TestPanics(t *testing.T) {
	t.Parallel()
	s, log := served(t)
	for path, began := range map[string]bool{"/panic": false, "/panic/late": true, "/panic/flushed": true, "/abort": true} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		const next = "GET /api/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"+next); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(c)
		_ = c.Close() // it was only read
		if got := strings.Contains(string(data), "GET /api/jobs by api"); got == began {
			t.Errorf("%s: the connection is usable: %t, %v, %s", path, got, err, data)
		}
	}
	s.Close()
	if n := strings.Count(log.String(), "panic=secret"); n != 3 || strings.Count(log.String(), "guard_test.go") < 3 {
		t.Errorf("%d panics are logged with their stacks: want 3\n%s", n, log)
	}
}

// TestCallOfNoGuard: a handler works without a guard, too.
func TestCallOfNoGuard(t *testing.T) {
	t.Parallel()
	if actor, id := ActorOf(context.Background()), RequestIDOf(context.Background()); actor != "api" || id != "" {
		t.Errorf("actor %q, request id %q", actor, id)
	}
}
