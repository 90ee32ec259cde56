package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/store"
)

// away is a store that cannot be reached, or is of another version.
type away struct {
	store.Store
	current int
	err     error
}

func (a away) Version(context.Context) (current, newest int, err error) { return a.current, 4, a.err }

func (a away) Fits(context.Context) error {
	if a.err == nil && a.current != 4 {
		return pawl.Errorf(pawl.Conflict, "schema version %d", a.current)
	}
	return a.err
}

// stored is a writer whose commits have failed since a time.
type stored struct{ since time.Time }

func (s stored) Unstored() time.Time { return s.since }

// TestReadiness: the reasons are told, one a line (S14).
func TestReadiness(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		store   away
		since   stored
		unready []string
		status  int
		text    string
	}{
		{"ready", away{current: 4}, stored{}, nil, 200, "ok\n"},
		{"away", away{err: errors.New("connection refused")}, stored{time.Unix(1, 0)}, []string{"evaluator is starting"}, 503, "the database cannot be reached; the log has the reason\nevaluator is starting\n"},
		{"full", away{current: 4}, stored{time.Unix(1, 0)}, nil, 503, "each commit has failed since 1970-01-01T00:00:01Z; the log has the reason\n"},
		{"moved", away{current: 5}, stored{}, nil, 503, "the database was migrated to schema version 5, and this process needs 4: it has stopped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := OpenPort("localhost:0", nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			p.Answer(metrics.New("test"), func(ctx context.Context) []string { return append(unready(ctx, tt.store, tt.since), tt.unready...) }, nil)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/readyz", nil))
			if w.Code != tt.status || w.Body.String() != tt.text {
				t.Errorf("%d %q: want %d %q", w.Code, w.Body, tt.status, tt.text)
			}
		})
	}
}

// deaf is a store that answers nobody, and heeds no context.
type deaf struct {
	store.Store
	over chan struct{}
}

func (d deaf) Fits(context.Context) error {
	<-d.over
	return nil
}

// TestReadinessOfADeafDatabase: who asks gets an answer, whatever the database does (S14).
func TestReadinessOfADeafDatabase(t *testing.T) {
	t.Parallel()
	d := deaf{over: make(chan struct{})}
	defer close(d.over)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reasons := unready(ctx, d, stored{}); !slices.Equal(reasons, []string{"the database does not respond"}) {
		t.Errorf("reasons %q", reasons)
	}
}

// never are limits that no test reaches.
var never = portLimits{header: time.Hour, body: time.Hour, response: time.Hour, idle: time.Hour, grace: time.Hour, connections: 100}

// serve runs a port with limits. Stop, which may be called twice, returns when the run has
// ended.
func serve(t *testing.T, limits portLimits, operations func(http.ResponseWriter, *http.Request)) (p *Port, stop func()) {
	t.Helper()
	p, err := OpenPort("127.0.0.1:0", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.limits = limits
	p.Answer(metrics.New("test"), func(context.Context) []string { return nil }, http.HandlerFunc(operations))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return p, stop
}

// dial opens a connection, writes to it, and returns it with a deadline that no test reaches.
func dial(t *testing.T, p *Port, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, text) // the connection may be closed already; what is read tells
	return c
}

// rest returns what is read until the connection ends, in whatever way.
func rest(t *testing.T, c net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open after a minute; read %q", text)
	}
	return string(text)
}

// drain reads a body to its end, and responds with the error.
func drain(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "cut off", http.StatusBadRequest)
		return
	}
	fmt.Fprintln(w, "read")
}

const request = "POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

// TestSlowClients: a request that never ends holds no connection for ever (K7).
func TestSlowClients(t *testing.T) {
	t.Parallel()
	soon := func(change func(*portLimits)) portLimits {
		l := never
		change(&l)
		return l
	}
	for _, tt := range []struct {
		name, text string
		limits     portLimits
		handler    http.HandlerFunc
		want       string
	}{
		{"header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", soon(func(l *portLimits) { l.header = time.Millisecond }), drain, ""},
		{"nothing", "", soon(func(l *portLimits) { l.idle, l.header = time.Millisecond, time.Millisecond }), drain, ""},
		{"next request", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", soon(func(l *portLimits) { l.idle = time.Millisecond }), drain, "200 OK"},
		{"body", request + "Content-Length: 10\r\n\r\n{", soon(func(l *portLimits) { l.body = time.Millisecond }), drain, "cut off"},
		{"chunks", request + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", soon(func(l *portLimits) { l.body = time.Millisecond }), drain, "cut off"},
		{"body that nobody reads", request + "Content-Length: 10\r\n\r\n{", soon(func(l *portLimits) { l.body = time.Millisecond }), http.NotFound, "404 Not Found"},
		{"response", request + "\r\n", soon(func(l *portLimits) { l.response = time.Nanosecond }), drain, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _ := serve(t, tt.limits, tt.handler)
			if got := rest(t, dial(t, p, tt.text)); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
				t.Errorf("read %q: want %q", got, tt.want)
			}
		})
	}
}

// TestLongerLimits: a handler may give a body and a response more time.
func TestLongerLimits(t *testing.T) {
	t.Parallel()
	limits := never
	limits.body, limits.response = time.Nanosecond, time.Nanosecond
	p, _ := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
		if err := errors.Join(api.AllowRead(w, time.Hour), api.AllowWrite(w, time.Hour)); err != nil {
			t.Error(err)
		}
		drain(w, r)
	})
	c := dial(t, p, request+"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	if _, err := io.ReadFull(c, make([]byte, len(goOn))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "{}"); err != nil {
		t.Fatal(err)
	}
	if got := rest(t, c); !strings.Contains(got, "read\n") {
		t.Errorf("read %q", got)
	}
}

// deadlines is a response that keeps the read deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestTheDeadlineOfABodyEndsWithIt: net/http would take a later one for the end of the client.
// One of a body that is cut off stays, since net/http reads what remains.
func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		body io.Reader
		set  int
	}{
		{"no body", nil, 0},
		{"whole", strings.NewReader("{}"), 2},
		{"cut off", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("{}"))), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &Port{limits: never, handler: http.HandlerFunc(drain)}
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			p.ServeHTTP(w, httptest.NewRequest("POST", "/", tt.body))
			if len(w.set) != tt.set || tt.set == 2 && !w.set[1].IsZero() || tt.set > 0 && w.set[0].IsZero() {
				t.Errorf("read deadlines %v: want %d", w.set, tt.set)
			}
		})
	}
}

// TestLargeRequests are refused before they are sent.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, never, drain)
	got := rest(t, dial(t, p, request+"Content-Length: 10000000000\r\n\r\n{"))
	if !strings.HasPrefix(got, "HTTP/1.1 413 ") || !strings.Contains(got, "\r\nConnection: close\r\n") || !strings.Contains(got, "TOO_LARGE") {
		t.Errorf("a body of 10 GB: read %q", got)
	}
	if got := rest(t, dial(t, p, request+"X: "+strings.Repeat("x", maxHeader+4096)+"\r\n\r\n")); !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("a large header: read %q", got)
	}
}

// TestDrain: the end of the port ends long polls at once, and is seen in /readyz; what does not
// heed its context may take the grace.
func TestDrain(t *testing.T) {
	t.Parallel()
	waits, held := make(chan struct{}, 2), make(chan struct{}) // 2: one for each request
	p, stop := serve(t, never, func(w http.ResponseWriter, r *http.Request) {
		waits <- struct{}{}
		<-r.Context().Done()
		if r.URL.Path == "/api/deaf" {
			<-held
		}
		fmt.Fprintln(w, "over")
	})
	poll := dial(t, p, "GET /api/poll HTTP/1.1\r\nHost: localhost\r\n\r\n")
	deaf := dial(t, p, "GET /api/deaf HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-waits
	<-waits
	ready := func() int {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/readyz", nil))
		return w.Code
	}
	if ready() != http.StatusOK {
		t.Error("not ready while the port serves")
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	if got := rest(t, poll); !strings.Contains(got, "200 OK") || !strings.Contains(got, "over\n") {
		t.Errorf("a long poll: read %q", got)
	}
	if ready() != http.StatusServiceUnavailable {
		t.Error("ready while the port closes")
	}
	close(held)
	if got := rest(t, deaf); !strings.Contains(got, "over\n") {
		t.Errorf("a request under way: read %q", got)
	}
	<-stopped
}

// TestGrace: a request that does not end is cut off when the grace is over.
func TestGrace(t *testing.T) {
	t.Parallel()
	limits := never
	limits.grace = time.Millisecond
	waits, held := make(chan struct{}), make(chan struct{})
	p, stop := serve(t, limits, func(http.ResponseWriter, *http.Request) {
		close(waits)
		<-held
	})
	defer close(held)
	c := dial(t, p, "GET /api/deaf HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-waits
	stop()
	if got := rest(t, c); got != "" {
		t.Errorf("read %q", got)
	}
}

// TestConnectionLimit: the connections beyond the limit are closed at once; those that end make
// room.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	limits := never
	limits.connections = 2
	p, _ := serve(t, limits, drain)
	const get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	served := func(c net.Conn) bool {
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	first, second := dial(t, p, get), dial(t, p, get)
	if !served(first) || !served(second) {
		t.Fatal("no response below the limit")
	}
	if got := rest(t, dial(t, p, get)); got != "" {
		t.Errorf("beyond the limit: read %q", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !served(dial(t, p, get)); {
		if time.Now().After(deadline) {
			t.Fatal("a connection that has ended makes no room")
		}
	}
}

// TestPaths: each path has one place, and what is unknown is answered by a problem.
func TestPaths(t *testing.T) {
	t.Parallel()
	operations := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "operation") })
	for _, tt := range []struct {
		path       string
		operations http.Handler
		status     int
		text       string // the first of the body
	}{
		{"/healthz", operations, 200, "ok\n"},
		{"/metrics", operations, 200, "# HELP"},
		{"/", operations, 404, "{"},
		{"/docsx", operations, 404, "{"},
		{"/api/jobs", operations, 200, "operation"},
		{"/openapi.json", operations, 200, "operation"},
		{"/openapi-3.0.json", operations, 200, "operation"},
		{"/docs", operations, 200, "operation"},
		{"/docs/style.css", operations, 200, "operation"},
		{"/problems/quota", operations, 200, "operation"},
		{"/problems/quota", nil, 200, "QUOTA: "},
		{"/api/jobs", nil, 404, "{"},
		{"/docs", nil, 404, "{"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			p := &Port{log: slog.New(slog.DiscardHandler)}
			p.Answer(metrics.New("test"), func(context.Context) []string { return nil }, tt.operations)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:7295"+tt.path, nil))
			if w.Code != tt.status || !strings.HasPrefix(w.Body.String(), tt.text) {
				t.Errorf("%d %s: want %d %s", w.Code, w.Body, tt.status, tt.text)
			}
		})
	}
}

// TestAPortThatIsTakenLater is opened again when it is free (S14).
func TestAPortThatIsTakenLater(t *testing.T) {
	t.Parallel()
	p, err := OpenPort("127.0.0.1:0", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.handler = http.NotFoundHandler()
	p.close()
	other, err := net.Listen("tcp", p.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context()); err == nil {
		t.Error("a port that another has is served")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	for served := false; !served; {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		if r, err := http.Get("http://" + p.Address); err == nil {
			served = true
			_ = r.Body.Close() // its status is all there is
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if seen := p.component().Progress(); seen.Rounds == 0 || seen.At.IsZero() {
		t.Errorf("seen: %+v", seen)
	}
}

// TestDefaultPort gives way to a free one.
func TestDefaultPort(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	address, log := other.Addr().String(), slog.New(slog.DiscardHandler)
	if p, err := OpenPort(address, nil, log); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("a port that is taken: %v, %v", p, err)
	}
	p, err := OpenDefaultPort(address, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if doc := p.component().Doc; p.Taken != address || p.Address == address || doc != "serves http://"+p.Address+", since "+address+" is taken" {
		t.Errorf("address %s, taken %s, %q", p.Address, p.Taken, doc)
	}
	free, err := OpenDefaultPort("127.0.0.1:0", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer free.close()
	if doc := free.component().Doc; free.Taken != "" || doc != "serves http://"+free.Address {
		t.Errorf("taken %q, %q", free.Taken, doc)
	}
	if err := CheckAddress(DefaultAddress, false); err != nil {
		t.Error(err)
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:9464": "", "[::1]:0": "", "localhost:65535": "",
		"":                "want a host and a port from 0 to 65535, such as 127.0.0.1:7295",
		"127.0.0.1":       "want a host and a port from 0 to 65535, such as 127.0.0.1:7295",
		"127.0.0.1:65536": "want a host and a port from 0 to 65535, such as 127.0.0.1:7295",
		"127.0.0.1:http":  "want a host and a port from 0 to 65535, such as 127.0.0.1:7295",
		":80":             "without TLS want an address of the loopback interface, such as 127.0.0.1:80",
		"192.0.2.1:80":    "without TLS want an address of the loopback interface, such as 127.0.0.1:80",
		"db.example:80":   "without TLS want an address of the loopback interface, such as 127.0.0.1:80",
	} {
		if err := CheckAddress(address, false); (err == nil) != (want == "") || err != nil && (err.Error() != want || pawl.KindOf(err) != pawl.Invalid) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}
