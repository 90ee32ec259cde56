package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(withPostgres{m}) }

// withPostgres stops the PostgreSQL of the tests before goroutines are looked for.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return pgtest.Main(w.m) }

// A proxy passes requests on to a handler. Before the answer to the first copy of a command
// goes out, it does what spoil says.
type proxy struct {
	to    http.Handler
	spoil func(w http.ResponseWriter, r *http.Request, pass func(http.ResponseWriter))

	mu   sync.Mutex
	seen map[string]int // how often, by method, path and key
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	copies := r.Method + " " + r.URL.Path + " " + r.Header.Get("Idempotency-Key")
	p.seen[copies]++
	first := p.seen[copies] == 1
	p.mu.Unlock()
	if r.Method == http.MethodGet || !first {
		p.to.ServeHTTP(w, r)
		return
	}
	p.spoil(w, r, func(w http.ResponseWriter) { p.to.ServeHTTP(w, r) })
}

// most returns how often the request was sent that was sent most often.
func (p *proxy) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := 0
	for _, n := range p.seen {
		most = max(most, n)
	}
	return most
}

// through returns an engine behind a proxy that spoils the first copy of each command.
func through(t *testing.T, s *site, spoil func(w http.ResponseWriter, r *http.Request, pass func(http.ResponseWriter))) (*remote.Engine, *proxy) {
	t.Helper()
	p := &proxy{to: s.handler, spoil: spoil, seen: map[string]int{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	e := open(t, server.URL)
	e.Hurry()
	return e, p
}

// The ways in which an answer does not arrive.
var losses = map[string]func(w http.ResponseWriter, r *http.Request, pass func(http.ResponseWriter)){
	"the answer is lost": func(_ http.ResponseWriter, _ *http.Request, pass func(http.ResponseWriter)) {
		pass(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	},
	"half of the answer is lost": func(w http.ResponseWriter, _ *http.Request, pass func(http.ResponseWriter)) {
		whole := httptest.NewRecorder()
		pass(whole)
		w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"the request is lost": func(http.ResponseWriter, *http.Request, func(http.ResponseWriter)) { panic(http.ErrAbortHandler) },
	"the server is busy": func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.WriteHeader(http.StatusServiceUnavailable)
	},
	"it was done, and then the server is busy": func(w http.ResponseWriter, _ *http.Request, pass func(http.ResponseWriter)) {
		pass(httptest.NewRecorder())
		w.WriteHeader(http.StatusServiceUnavailable)
	},
}

// TestLostAnswers: a command whose answer did not arrive is sent again with its key, and has
// one effect (J8).
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, spoil := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			e, p := through(t, s, spoil)
			ctx, c := t.Context(), pawl.Change{Actor: "ada", Reason: "a test"}
			id := submit(t, e, many, `{}`)
			until(t, s.local, id, stepIs("go", func(v *pawl.StepView) bool { return v.Status == lifecycle.StepInProgress }))
			_, err := e.PauseJob(ctx, id, c)
			must(t, err)
			_, err = e.ResumeJob(ctx, id, c)
			must(t, err)
			_, err = e.Signal(ctx, id, "go", nil, c)
			must(t, err)
			must(t, e.SetQuotas(ctx, []pawl.Quota{{Workspace: "default", Name: "queue/a", Slots: 1}}, c))
			_, err = s.local.Wait(ctx, id)
			must(t, err)
			jobs, err := s.local.Jobs(ctx, pawl.JobQuery{})
			must(t, err)
			var events []string
			must(t, s.local.History(ctx, id, func(m pawl.Transition) error {
				if m.Actor == "ada" && m.Step == "" {
					events = append(events, string(m.Event))
				}
				return nil
			}))
			if diff := cmp.Diff([]string{"submit", "pause", "resume", "signal"}, events); diff != "" || len(jobs) != 1 || p.most() != 2 {
				t.Errorf("%d jobs, and each request was sent up to %d times; what ada did (-want +got):\n%s", len(jobs), p.most(), diff)
			}
		})
	}
}

// A removal, which has no key, is not sent again once the server may have it.
func TestRemovalIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e, p := through(t, s, losses["the answer is lost"])
	_, err := e.MoveSchedule(t.Context(), pawl.ScheduleName{Workspace: "default", Name: "none"}, lifecycle.ScheduleRemove, pawl.Change{Reason: "over"})
	if pawl.KindOf(err) != pawl.Unavailable || p.most() != 1 {
		t.Errorf("%v, and the request was sent %d times; want an error of kind Unavailable after one", err, p.most())
	}
}

// A request that is still being carried out is asked for again, if it is this one's own copy.
func TestOwnRequestInProgress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key      string
		statuses []int
		want     error // nil: it succeeds
	}{
		"own":        {"one", []int{503, 409, 409, 200}, nil},
		"foreign":    {"one", []int{409, 200}, link.ErrKeyHeld},
		"random key": {"", []int{409, 200}, nil},
	} {
		statuses := tt.statuses
		e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
			status := statuses[0]
			if statuses = statuses[1:]; status == 200 {
				_, _ = w.Write([]byte(`{"id":"j_1","status":"RUNNING"}`))
				return
			}
			problem(w, status, `"code":"REQUEST_IN_PROGRESS","detail":"in use"`)
		})
		if _, err := e.PauseJob(t.Context(), pawl.ID{}, pawl.Change{RequestID: tt.key}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// problem answers a problem document with the given members.
func problem(w http.ResponseWriter, status int, members string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"status":%d,%s}`, status, members)
}

// fake returns an engine of a server that answers all but its version as h does.
func fake(t *testing.T, h http.HandlerFunc) *remote.Engine {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/version" {
			_, _ = w.Write([]byte(`{"version":"1.0","api":1,"later":true}`))
			return
		}
		h(w, r)
	}))
	t.Cleanup(server.Close)
	e := open(t, server.URL)
	e.Hurry()
	return e
}

// TestProblems: what a server answers becomes the error that a local engine returns (J4).
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		status  int
		members string // of the problem; empty: a page of a proxy
		kind    pawl.Kind
		text    string // what the error says; SERVER is its URL
		is      error
	}{
		{"not found", 404, `"code":"NOT_FOUND","detail":"there is no job j_1"`, pawl.NotFound, "there is no job j_1", nil},
		{"conflict", 409, `"code":"CONFLICT","detail":"busy"`, pawl.Conflict, "busy", nil},
		{"invalid", 422, `"code":"INVALID","detail":"priority 7"`, pawl.Invalid, "priority 7", nil},
		{"malformed", 400, `"code":"MALFORMED","title":"Malformed request"`, pawl.Invalid, "Malformed request", nil},
		{"key reused", 422, `"code":"KEY_REUSED","detail":"used"`, pawl.Invalid, "used", link.ErrKeyReused},
		{"key held", 409, `"code":"REQUEST_IN_PROGRESS","detail":"in use"`, pawl.Conflict, "in use", link.ErrKeyHeld},
		{"not allowed", 403, `"code":"NOT_ALLOWED","detail":"no"`, pawl.Refused, "no", nil},
		{"no token", 401, `"code":"UNAUTHENTICATED","detail":"no token"`, pawl.Refused, "no token", nil},
		{"unavailable", 503, `"code":"UNAVAILABLE","detail":"it stops"`, pawl.Unavailable, "the server at SERVER: it stops", nil},
		{"rate", 429, `"code":"RATE_LIMITED","detail":"slowly"`, pawl.Unavailable, "the server at SERVER: slowly", nil},
		{"internal", 500, `"code":"INTERNAL","detail":"a fault"`, pawl.Internal, "the server at SERVER: a fault", nil},
		{"of a later version", 418, `"code":"TEAPOT","detail":"tea"`, pawl.Invalid, "tea", nil},
		{"older server", 404, `"code":"NO_SUCH_OPERATION","detail":"?"`, pawl.Invalid, "the server at SERVER is of version 1.0, and has no operation get-job", nil},
		{"a proxy: bad gateway", 502, "", pawl.Unavailable, "the server at SERVER responds with HTTP status 502, and not as a Pawl server does", nil},
		{"a proxy: timeout", 504, "", pawl.Unavailable, "the server at SERVER responds with HTTP status 504, and not as a Pawl server does", nil},
		{"a proxy: sign in", 302, "", pawl.Invalid, "the server at SERVER responds with HTTP status 302, and not as a Pawl server does", nil},
		{"a page", 200, "", pawl.Internal, "the server at SERVER has responded to get-job with what is not its JSON: invalid character '<' looking for beginning of value", nil},
	} {
		url := ""
		e := fake(t, func(w http.ResponseWriter, r *http.Request) {
			if url = "http://" + r.Host; tt.members != "" {
				problem(w, tt.status, tt.members)
				return
			}
			w.Header().Set("Location", "/login")
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte("<html>"))
		})
		_, err := e.Job(t.Context(), pawl.ID{})
		text := strings.ReplaceAll(fmt.Sprint(err), url, "SERVER")
		if pawl.KindOf(err) != tt.kind || text != tt.text || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %q of kind %d, want %q of kind %d", tt.name, text, pawl.KindOf(err), tt.text, tt.kind)
		}
	}
}

// An error that names the job of the request says which that is.
func TestEntity(t *testing.T) {
	t.Parallel()
	id := pawl.ID{15: 1}
	for text, want := range map[string]string{"job " + id.Public(pawl.JobPrefix) + " waits": id.Public(pawl.JobPrefix), "it waits": ""} {
		e := fake(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, 409, `"code":"CONFLICT","detail":"`+text+`"`) })
		_, err := e.PauseJob(t.Context(), id, pawl.Change{})
		var p *pawl.Error
		if !errors.As(err, &p) || p.Entity != want {
			t.Errorf("%s: %+v, want the entity %q", text, p, want)
		}
	}
}

// A wait for a job waits until the server has room for it.
func TestPatientWait(t *testing.T) {
	t.Parallel()
	full := 10
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		if full--; full > 0 {
			problem(w, 429, `"code":"RATE_LIMITED","detail":"others wait"`)
			return
		}
		_, _ = w.Write([]byte(`{"id":"j_019ac1f0a3c47d5e8f00112233445566","status":"COMPLETED"}`))
	})
	if j, err := e.Wait(t.Context(), pawl.ID{15: 1}); err != nil || j.State != lifecycle.JobCompleted {
		t.Errorf("%+v, %v", j, err)
	}
}

// An answer beyond the limit is refused.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		blank := bytes.Repeat([]byte(" "), 1<<20)
		for range 65 {
			_, _ = w.Write(blank)
		}
	})
	if _, err := e.Job(t.Context(), pawl.ID{}); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(fmt.Sprint(err), "more than") {
		t.Errorf("%v, want an error of kind Invalid about the size", err)
	}
}

// A server that is away is an error of kind Unavailable that names it, after 4 attempts.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := remote.Open(t.Context(), server.URL, remote.Config{})
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Unavailable || !strings.Contains(e.Message, server.URL) || e.Hint == "" {
		t.Errorf("%v, want an error of kind Unavailable that names %s, with a hint", err, server.URL)
	}
}

// The end of the context ends a wait, and is its error.
func TestCanceledWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	id := submit(t, e, many, `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		_, err := e.Wait(ctx, id)
		over <- err
	}()
	must(t, e.Watch(t.Context(), id, func() (bool, error) { return false, nil }))
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

// Watch sees what other clients do.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	id := submit(t, e, many, `{}`)
	looks := 0
	must(t, e.Watch(t.Context(), id, func() (bool, error) {
		looks++
		v, err := e.Job(t.Context(), id)
		if err != nil || lifecycle.Job.Ended(v.Status) {
			return false, err
		}
		if stepIs("go", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepInProgress })(v) {
			_, err = s.local.Signal(t.Context(), id, "go", nil, pawl.Change{Actor: "ada"})
		}
		return true, err
	}))
	if looks < 2 {
		t.Errorf("%d looks, want at least 2", looks)
	}
}

// What a URL of a server may be.
func TestURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "pawl.db", "http://", "http://pawl.example.com", "http://10.0.0.1:7295", "https://", "https://user:secret@pawl.example.com",
		"https://pawl.example.com/api", "https://pawl.example.com?x=1", "https://pawl.example.com#x", "ftp://127.0.0.1", "127.0.0.1:7295", "http://127.0.0.1.example.com",
		"postgres://127.0.0.1/db"} {
		_, err := remote.Open(t.Context(), bad, remote.Config{})
		if pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%q: %v, want an error of kind Invalid", bad, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%q: the error has the password: %v", bad, err)
		}
	}
	s := newSite(t)
	open(t, s.url+"/")
	open(t, strings.Replace(s.url, "127.0.0.1", "localhost", 1))
}

// A server that speaks another version of the API, or is none, is refused.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"version 2": `{"version":"9.0","api":2}`, "a page": "<html>", "JSON": `{}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }))
		defer server.Close()
		if e, err := remote.Open(t.Context(), server.URL, remote.Config{}); err == nil {
			e.Close()
			t.Errorf("%s: it was opened", name)
		} else if want := "of version 9.0, speaks version 2 of the API, and this program version 1"; name == "version 2" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// Actors and keys are checked before they are sent.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := open(t, s.url)
	id := submit(t, e, many, `{}`)
	for _, c := range []pawl.Change{{Actor: "ada lovelace"}, {Actor: "a\r\nHost: x"}, {Actor: strings.Repeat("a", 129)}, {RequestID: "a b"},
		{RequestID: "schlüssel"}, {RequestID: strings.Repeat("k", 256)}} {
		if _, err := e.PauseJob(t.Context(), id, c); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%+v: %v, want an error of kind Invalid", c, err)
		}
	}
	actors := []string{"cli:ada@host", "jürgen", "100%"}
	for _, actor := range actors {
		_, err := e.PauseJob(t.Context(), id, pawl.Change{Actor: actor})
		must(t, err)
		_, err = e.ResumeJob(t.Context(), id, pawl.Change{Actor: actor})
		must(t, err)
	}
	var seen []string
	must(t, s.local.History(t.Context(), id, func(m pawl.Transition) error {
		if slices.Contains(actors, m.Actor) && m.Event == "pause" {
			seen = append(seen, m.Actor)
		}
		return nil
	}))
	if diff := cmp.Diff(actors, seen); diff != "" {
		t.Errorf("actors (-want +got):\n%s", diff)
	}
}

// TestPruneGoesOn: a server removes for some seconds with each request; the client asks until
// there is no more, and adds up.
func TestPruneGoesOn(t *testing.T) {
	t.Parallel()
	answers := []string{`{"removed":{"jobs":2,"entries":10,"busy":["j_1"]},"more":true}`, `{"removed":{"jobs":1,"entries":5,"busy":[]},"more":false}`}
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/retention/prune" || len(answers) == 0 {
			t.Errorf("%s %s", r.Method, r.URL)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[0])
		answers = answers[1:]
	})
	var told []int64
	total, err := e.Prune(t.Context(), 30*24*time.Hour, pawl.Change{Reason: "as agreed"}, func(p pawl.Pruning) { told = append(told, p.Jobs) })
	want := pawl.Pruning{Jobs: 3, Entries: 15, Busy: []string{"j_1"}}
	if diff := cmp.Diff(want, total); err != nil || diff != "" || !slices.Equal(told, []int64{2, 3}) {
		t.Errorf("%v, told %v (-want +got):\n%s", err, told, diff)
	}
}

// TestFollowed: a worker finds out whether the server is there, beside requests of others.
func TestFollowed(t *testing.T) {
	t.Parallel()
	e := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, `"code":"NO_SUCH_OPERATION"`)
	})
	var both sync.WaitGroup
	both.Go(func() {
		for range 20 {
			if followed, err := e.Followed(t.Context()); !followed || err != nil {
				t.Errorf("followed: %v, %v", followed, err)
			}
		}
	})
	for range 20 {
		if _, err := e.Counts(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "of version 1.0") {
			t.Errorf("a missing operation: %v", err)
		}
	}
	both.Wait()
}
